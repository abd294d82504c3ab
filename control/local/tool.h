/*
 * tool.h - running one of the host's own tools (mkfs.ext4, e2fsck, tar) and reading what it says.
 *
 * No shell, a fixed search path, an empty environment, a time limit. Blocking.
 */
#ifndef CONTROL_LOCAL_TOOL_H
#define CONTROL_LOCAL_TOOL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* Absolute path of a program in the system's directories; ERR_MISSING. */
int tool_find(const char *name, char *out, size_t size, struct err *e);
/*
 * argv[0] is an absolute path; the directory dir is the working directory. Its
 * exit code comes in *out_code (128 + signal when killed), the first size-1
 * bytes of what it wrote to both outputs, on one line, in out. ERR_TIMEOUT: it was killed.
 */
int tool_run(int dir, const char *const *argv, uint64_t timeout_ns, int *out_code, char *out, size_t size,
	     struct err *e);
/* The same. held becomes its input, unread: a lock on it lives as long as the tool does, even where we do not. */
int tool_run_held(int dir, const char *const *argv, int held, uint64_t timeout_ns, int *out_code, char *out,
		  size_t size, struct err *e);
/* What a tool reads and writes beside its words; -1: nothing, and its output is among its words. */
struct tool_io {
	int in, out;
	const atomic_bool *given_up; /* it is killed soon after this is true; NULL: never */
};
/* The same with an input and an output, where we are. ERR_CANCELLED: it was given up. */
int tool_run_io(const char *const *argv, const struct tool_io *io, uint64_t timeout_ns, int *out_code, char *out,
		size_t size, struct err *e);
/* Makes one clean line of foreign text: control characters become single blanks, what is not ASCII a question mark. */
void tool_text_clean(char *text);

#endif

/*
 * file_op.h - what can be done with files in a sandbox: one row for each, which all of the hub asks.
 *
 * put and get move one file whole, its content as it is. The others are muxlet --fs (muxd/muxlet/fs.h): a JSON request,
 * for some of them content, and a JSON answer; or, of what gives, an answer in bytes whose length nobody knows before.
 */
#ifndef MUXD_HUB_SESSION_FILE_OP_H
#define MUXD_HUB_SESSION_FILE_OP_H

#include "muxd/hub/session/exec_spec.h"

struct file_op_row {
	const char *name;  /* "move": of the path in the API, too */
	const char *event; /* of the audit log */
	bool takes;        /* content, as its input */
	bool gives;        /* content, as its output */
	bool asks;         /* a request; and an answer, unless it gives */
	bool looks;        /* and changes nothing: the hub needs nothing of its answer, which may be long */
	bool later;        /* muxlets with --survey know it */
	bool newest;       /* those that make patches of changes do */
	bool lasts;        /* until somebody ends it: it has no timeout of its own, and keeps no sandbox awake */
};

const struct file_op_row *file_op_row(enum file_op op);
const char *file_op_name(enum file_op op);
/* ERR_NOT_FOUND. */
int file_op_parse(const char *name, enum file_op *out);
/* The meaning of muxlet's exit code: ERR_*, and in *out_text why where strerror has no good word for it (NULL). */
int file_op_error(const struct file_op_row *row, int errnum, const char **out_text);

#endif

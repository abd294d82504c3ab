#include "control/kube/pods/deliver.h"

#include "base/err.h"
#include "base/text.h"
#include "control/kube/pods/program.h"
#include "control/kube/pods/spec.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* image tag sha256 dir...; a dir that is empty is passed over, and counted. */
static const char look[] = "umask 077\n"
			   "i=$1 t=$2 s=$3\n"
			   "shift 3\n"
			   "echo \"machine $(uname -m 2>/dev/null)\"\n"
			   "if [ -n \"$i\" ] && [ -f \"$i\" ] && [ -x \"$i\" ]; then echo \"image $i\"; exit 0; fi\n"
			   "own() { [ -d \"$1\" ] && [ ! -L \"$1\" ] && [ -O \"$1\" ]; }\n"
			   "n=-1\n"
			   "for d; do\n"
			   "  n=$((n + 1))\n"
			   "  [ -n \"$d\" ] || continue\n"
			   "  [ \"$d\" != . ] || d=$PWD\n"
			   "  p=$d/.muxd-$t\n"
			   "  own \"$p\" && [ -x \"$p/muxlet\" ] && \"$p/muxlet\" --check \"$s\" || continue\n"
			   "  echo \"place $n\"; echo \"stream $p/muxlet\"; exit 0\n"
			   "done 2>/dev/null\n"
			   "n=-1\n"
			   "for d; do\n"
			   "  n=$((n + 1))\n"
			   "  [ -n \"$d\" ] || continue\n"
			   "  [ \"$d\" != . ] || d=$PWD\n"
			   "  [ -d \"$d\" ] && [ -w \"$d\" ] || continue\n"
			   "  p=$d/.muxd-$t\n"
			   "  mkdir \"$p\" 2>/dev/null\n"
			   "  own \"$p\" || continue\n"
			   "  chmod 700 \"$p\" && echo '#!/bin/sh' >\"$p/try\" && chmod 700 \"$p/try\" &&\n"
			   "    \"$p/try\" && rm -f \"$p/try\" && echo \"place $n\" && echo \"dir $p\" && exit 0\n"
			   "  rm -f \"$p/try\"\n"
			   "  rmdir \"$p\"\n"
			   "done 2>/dev/null\n"
			   "echo none\n";

/*
 * dir size sha256. A directory where a script runs may still kill a program (a sandboxed kernel, a policy), or be too
 * small for one: only the program itself can tell. What another version of muxd left beside it goes; a program that
 * runs is not hurt by that. A stream that broke leaves less, down to nothing; what the kernel does not take for a
 * program a shell runs as a script, and an empty script is fine with everything. So the program has to refuse a digest
 * that is none, too.
 */
static const char send[] = "umask 077\n"
			   "p=$1 t=$1/new.$$\n"
			   "if command -v head >/dev/null 2>&1; then head -c \"$2\" >\"$t\"\n"
			   "else dd bs=1 count=\"$2\" of=\"$t\" 2>/dev/null; fi\n"
			   "chmod 700 \"$t\" && [ -s \"$t\" ] && ! \"$t\" --check none 2>/dev/null &&\n"
			   "  \"$t\" --check \"$3\" && mv -f \"$t\" \"$p/muxlet\"\n"
			   "r=$?\n"
			   "rm -f \"$t\"\n"
			   "[ $r = 0 ] || { rm -f \"$p/muxlet\"; rmdir \"$p\" 2>/dev/null; exit $r; }\n"
			   "for o in \"${p%/*}\"/.muxd-*; do\n"
			   "  [ \"$o\" = \"$p\" ] || [ ! -O \"$o\" ] || rm -rf \"$o\"\n"
			   "done\n"
			   "echo done\n";

static size_t deliver_begin(const char *script, const char *argv[DELIVER_ARGS])
{
	argv[0] = "/bin/sh";
	argv[1] = "-c";
	argv[2] = script;
	argv[3] = "muxd";
	return 4;
}

void deliver_look(const char *image_path, const struct program *p, unsigned not_these, char tag[17],
		  const char *argv[DELIVER_ARGS])
{
	static const char *const dirs[DELIVER_PLACES] = {KUBE_MUXLET_DIR, "/dev/shm", "/tmp", "/var/tmp", "/run", "."};
	size_t n = deliver_begin(look, argv);

	text_format(tag, 17, "%.16s", p->sha256);
	argv[n++] = image_path;
	argv[n++] = tag;
	argv[n++] = p->sha256;
	for (unsigned i = 0; i < DELIVER_PLACES; i++)
		argv[n++] = not_these & (1u << i) ? "" : dirs[i];
	argv[n] = NULL;
}

void deliver_send(const char *dir, const struct program *p, char size[24], const char *argv[DELIVER_ARGS])
{
	size_t n = deliver_begin(send, argv);

	snprintf(size, 24, "%zu", p->len);
	argv[n++] = dir;
	argv[n++] = size;
	argv[n++] = p->sha256;
	argv[n] = NULL;
}

/* The rest of the line behind "word "; false when this is another line. A control character is no path. */
static bool rest_of(const char *line, size_t n, const char *word, char *out, size_t size)
{
	size_t w = strlen(word);

	if (n < w + 1 || memcmp(line, word, w) != 0 || line[w] != ' ' || n - w - 1 >= size)
		return false;
	for (size_t i = w + 1; i < n; i++)
		if ((unsigned char)line[i] < 32 || line[i] == 127)
			return false;
	memcpy(out, line + w + 1, n - w - 1);
	out[n - w - 1] = '\0';
	return true;
}

static bool deliver_take_line(const char *line, size_t n, struct deliver_answer *a)
{
	static const char *const words[] = {"image", "stream", "dir"};
	char place[3];

	for (int i = 0; i < 3; i++)
		if (rest_of(line, n, words[i], a->path, sizeof(a->path)) && a->path[0]) {
			a->kind = i;
			return true;
		}
	if (n == 4 && memcmp(line, "none", 4) == 0) {
		a->kind = DELIVER_NONE;
		return true;
	}
	if (rest_of(line, n, "place", place, sizeof(place)) && place[0] >= '0' && place[0] < '0' + DELIVER_PLACES &&
	    !place[1])
		a->place = place[0] - '0';
	(void)rest_of(line, n, "machine", a->machine, sizeof(a->machine));
	return false;
}

int deliver_parse(const char *text, size_t n, struct deliver_answer *out)
{
	struct deliver_answer a = {.kind = DELIVER_NONE, .place = -1};
	const char *end;

	while ((end = memchr(text, '\n', n))) {
		if (deliver_take_line(text, (size_t)(end - text), &a)) {
			*out = a;
			return 0;
		}
		n -= (size_t)(end - text) + 1;
		text = end + 1;
	}
	return ERR_INVAL;
}

/* The value behind " key=", up to a blank; "" where it is not there, is cut short where it is too long. */
static void deliver_field(const char *line, size_t n, const char *key, char *out, size_t size)
{
	const char *at = memmem(line, n, key, strlen(key)), *end;

	out[0] = '\0';
	if (!at)
		return;
	at += strlen(key);
	for (end = at; end<line + n && * end> 32 && *end < 127 && (size_t)(end - at) + 1 < size; end++)
		;
	memcpy(out, at, (size_t)(end - at));
	out[end - at] = '\0';
}

int deliver_joined(const char *line, size_t n, struct deliver_joined *out)
{
	static const char mine[] = "muxlet join=1 ";
	struct deliver_joined j = {0};
	char text[32];

	if (n < sizeof(mine) - 1 || memcmp(line, mine, sizeof(mine) - 1) != 0)
		return ERR_INVAL;
	deliver_field(line, n, " version=", j.version, sizeof(j.version));
	deliver_field(line, n, " daemon=", text, sizeof(text));
	j.started = strcmp(text, "started") == 0;
	deliver_field(line, n, " workspace_size=", text, sizeof(text));
	if (text[0] >= '0' && text[0] <= '9')
		j.workspace_size = strtoull(text, NULL, 10);
	deliver_field(line, n, " guard=", text, sizeof(text));
	j.unguarded = strcmp(text, "refused") == 0;
	*out = j;
	return 0;
}

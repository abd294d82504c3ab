/* search: the lines of files below a path that match, with the lines around them. */
#include "files/content.h"
#include "files/grep.h"
#include "files/ignore.h"
#include "muxd/muxlet/fs_op.h"
#include "muxd/muxlet/fs_state.h"
#include "muxd/muxlet/fs_walk.h"
#include "muxd/muxlet/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUFFER        (256 * 1024)
#define LIMIT_DEFAULT 200
#define LIMIT_MAX     2000
#define LINE_MAX_     500           /* bytes that are shown of a line */
#define BYTES_MAX     (1024 * 1024) /* of lines in an answer */
#define TIME_MAX_S    20            /* then what was found is answered */
#define LIST_MAX      100           /* of binary files that are named */

enum stop { STOP_NOT, STOP_LIMIT, STOP_TIME, STOP_COMPLEX };

struct searching {
	struct fs_work *w;
	struct match *match;
	struct fs_out binary;
	const char *path; /* of the file that is searched */
	char *buffer;
	long long left, files, binaries, found;
	time_t until;
	unsigned unread;      /* directories */
	bool told, is_binary; /* of this file: its object is open; it is one of bytes */
	enum stop stop;
};

static time_t now_s(void)
{
	struct timespec t = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* The file's own object, before its first line. */
static void begin_file(struct searching *s)
{
	if (s->told)
		return;
	s->told = true;
	fs_out_open(&s->w->out, NULL, '{');
	fs_out_path(&s->w->out, "path", s->path);
	fs_out_open(&s->w->out, "lines", '[');
}

static void end_file(struct searching *s)
{
	if (!s->told)
		return;
	fs_out_close(&s->w->out, ']');
	fs_out_close(&s->w->out, '}');
	s->told = false;
}

static void search_put_line(struct searching *s, const struct grep_line *line)
{
	struct fs_out *o = &s->w->out;
	size_t n = content_cut(line->p, line->n, LINE_MAX_);

	begin_file(s);
	fs_out_open(o, NULL, '{');
	fs_out_number(o, "line", (long long)line->number);
	fs_out_flag(o, "match", line->match);
	if (line->match)
		fs_out_number(o, "column", (long long)line->span.from + 1);
	fs_out_text_n(o, "text", line->p, n);
	if (n < line->n)
		fs_out_flag(o, "cut", true);
	fs_out_close(o, '}');
}

static bool search_told(void *arg, const struct grep_line *line)
{
	struct searching *s = arg;

	if (line->match) {
		if (s->is_binary) {
			s->found++;
			return false;
		}
		if (!s->left || s->w->out.n > BYTES_MAX) {
			s->stop = STOP_LIMIT;
			return false;
		}
		s->left--;
		s->found++;
	}
	search_put_line(s, line);
	return true;
}

static void name_binary(struct searching *s)
{
	if (s->binaries++ < LIST_MAX)
		fs_out_path(&s->binary, NULL, s->path);
}

/* One buffer after the other; lines that are longer than it are taken in parts. */
static int search_stream(struct searching *s, int fd)
{
	struct grep g = {.match = s->match,
			 .before = s->w->ask.context > 0 ? (unsigned)s->w->ask.context : 0,
			 .after = s->w->ask.context > 0 ? (unsigned)s->w->ask.context : 0,
			 .told = search_told,
			 .arg = s};
	size_t have = 0, drop;
	bool first = true;
	ssize_t n;

	for (;;) {
		enum grep_part part;
		enum grep_result result;

		n = newfile_read(fd, s->buffer + have, BUFFER - have);
		if (n < 0)
			return errno;
		have += (size_t)n;
		if (first)
			s->is_binary = content_is_binary(s->buffer, have);
		first = false;
		part = have < BUFFER ? GREP_LAST : GREP_MORE;
		result = grep_run(&g, s->buffer, have, part, &drop);
		if (result == GREP_DONE && part == GREP_MORE && !drop)
			result = grep_run(&g, s->buffer, have, GREP_FULL, &drop);
		if (result == GREP_TOO_COMPLEX)
			s->stop = STOP_COMPLEX;
		if (result != GREP_DONE || part == GREP_LAST)
			return 0;
		memmove(s->buffer, s->buffer + drop, have - drop);
		have -= drop;
		if (now_s() > s->until) {
			s->stop = STOP_TIME;
			return 0;
		}
	}
}

static void search_file(struct searching *s, int dir_fd, const char *base, const char *path)
{
	int fd = openat(dir_fd, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	long long before = s->found;

	if (fd < 0)
		return;
	s->path = path;
	s->files++;
	s->is_binary = false;
	match_refuel(s->match);
	(void)search_stream(s, fd); /* what cannot be read has no lines */
	end_file(s);
	if (s->is_binary && s->found > before)
		name_binary(s);
	close(fd);
}

static enum fs_walk_next search_visit(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st)
{
	struct searching *s = arg;

	if (S_ISREG(st->st_mode))
		search_file(s, dir_fd, base, path);
	if (!s->stop && now_s() > s->until)
		s->stop = STOP_TIME;
	return s->stop ? FS_WALK_STOP : FS_WALK_ON;
}

static int search_tree(struct searching *s, int fd)
{
	struct fs_work *w = s->w;
	struct fs_walk walk = {.visit = search_visit, .arg = s, .depth = FS_WALK_DEPTH};
	int err = fs_op_ignore(w, &walk);

	if (!err)
		err = fs_walk_run(&walk, fd, strcmp(w->name, ".") == 0 ? "" : w->name);
	ignore_free(walk.ignore);
	s->unread = walk.unread;
	return err;
}

static int search_path(struct searching *s)
{
	struct fs_place p;
	int fd = -1, err = fs_root_openat(&s->w->root, s->w->name, O_RDONLY | O_DIRECTORY, &fd);

	if (!err) {
		err = search_tree(s, fd);
		close(fd);
		return err;
	}
	if (err != ENOTDIR)
		return err;
	err = fs_root_place(&s->w->root, s->w->name, &p);
	if (err)
		return err;
	search_file(s, p.dir_fd, p.base, s->w->name);
	fs_root_leave(&p);
	return 0;
}

static int search_answer(struct searching *s)
{
	static const char *const why[] = {NULL, "limit", "time", "complexity"};
	struct fs_out *o = &s->w->out;

	fs_out_open(o, "binary", '[');
	if (s->binary.n)
		fs_out_raw(o, NULL, s->binary.p, s->binary.n);
	fs_out_close(o, ']');
	fs_out_number(o, "files", s->files);
	fs_out_number(o, "matches", s->found);
	fs_out_flag(o, "truncated", s->stop != STOP_NOT);
	if (s->stop)
		fs_out_text(o, "stopped_by", why[s->stop]);
	if (s->unread)
		fs_out_number(o, "unreadable", s->unread);
	return 0;
}

static int search_begin(struct searching *s)
{
	const struct fs_ask *a = &s->w->ask;
	unsigned flags = (a->regex ? 0 : MATCH_LITERAL) | (a->ignore_case ? MATCH_NOCASE : 0);
	struct match_error e = {0};

	s->left = a->limit > 0 ? a->limit : LIMIT_DEFAULT;
	s->until = now_s() + TIME_MAX_S;
	if (!*a->pattern)
		return fs_fail(s->w, EINVAL, "the pattern is empty");
	if (s->left > LIMIT_MAX)
		return fs_fail(s->w, EINVAL, "limit is over %d", LIMIT_MAX);
	s->match = match_new(a->pattern, strlen(a->pattern), flags, &e);
	if (!s->match)
		return fs_fail(s->w, EINVAL, "the pattern, at byte %zu: %s", e.at + 1, e.why);
	s->buffer = malloc(BUFFER);
	return s->buffer ? 0 : ENOMEM;
}

int fs_search(struct fs_work *w)
{
	struct searching s = {.w = w};
	int err = search_begin(&s);

	if (!err) {
		fs_out_path(&w->out, "path", w->name);
		fs_out_open(&w->out, "results", '[');
		err = search_path(&s);
		fs_out_close(&w->out, ']');
	}
	if (!err)
		err = search_answer(&s);
	match_free(s.match);
	free(s.buffer);
	fs_out_finish(&s.binary);
	return err;
}

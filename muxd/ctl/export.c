/* muxctl export: a recording in another format, to the standard output or a file. */
#include "recorder/export/export.h"
#include "base/buf.h"
#include "muxd/ctl/content.h"
#include "muxd/ctl/nouns.h"
#include "muxd/ctl/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct ctl_option options[] = {
    {"format", 'f', "FORMAT", "asciicast-v2 (default), asciicast-v3, text, json or raw."},
    {"stream", 0, "STREAM", "output, input, stdout or stderr; default: what fits the format."},
    {"file", 0, "PATH", "Write there (mode 0600) instead of the standard output."},
    {"reason", 0, "TEXT", "Reason in the audit log (default: muxctl export)."},
    {"unverified", 0, NULL, "Also of a recording that does not verify."},
    {NULL, 0, NULL, NULL},
};

static int export_parse(const struct ctl_args *a, struct export_options *o, struct err *e)
{
	const char *format = args_get(a, "format"), *stream = args_get(a, "stream");
	int rc = format ? export_format_parse(format, &o->format, e) : 0;

	if (rc == 0 && stream)
		rc = export_stream_parse(stream, &o->stream, e);
	return rc;
}

/* What the reader of the export should know about it; on stderr, so that the export stays clean. */
static void report(struct ctl *c, const struct export_result *r, const struct record_facts *f)
{
	if (c->json) {
		json_t *o = json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:b,s:b}", "session", f->session, "events",
				      (json_int_t)r->events, "written_bytes", (json_int_t)r->written, "invalid_bytes",
				      (json_int_t)r->invalid_bytes, "gaps", (json_int_t)r->gaps, "gap_bytes",
				      (json_int_t)r->gap_bytes, "missing_bytes", (json_int_t)r->missing_bytes, "ended",
				      (int)r->ended, "sealed", (int)f->sealed);
		char *text = o ? ctl_json_text(o, JSON_COMPACT) : NULL;
		fprintf(stderr, "%s\n", text ? text : "{}");
		free(text);
		json_decref(o);
		return;
	}
	if (r->invalid_bytes)
		fprintf(stderr,
			"muxctl: %" PRIu64 " bytes were not UTF-8 and are shown as U+FFFD; --format raw has them\n",
			r->invalid_bytes);
	if (r->gaps)
		fprintf(stderr, "muxctl: %" PRIu64 " bytes in %" PRIu64 " gaps were left out by the recording's rule\n",
			r->gap_bytes, r->gaps);
	if (r->missing_bytes)
		fprintf(stderr, "muxctl: %" PRIu64 " bytes are missing from the journal\n", r->missing_bytes);
	if (f->partial)
		fprintf(stderr,
			"muxctl: the session is not sealed and no daemon answers: its newest part is not here\n");
	else if (!r->ended)
		fprintf(stderr, "muxctl: the session has not ended\n");
}

static int open_target(const char *path, int *out_fd, struct err *e)
{
	if (!path) {
		*out_fd = STDOUT_FILENO;
		return 0;
	}
	*out_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	return *out_fd < 0 ? err_sys(e, errno, "open %s", path) : 0;
}

static int close_target(const char *path, int fd, struct err *e)
{
	if (!path)
		return 0;
	int bad = fsync(fd) < 0 && errno != EINVAL && errno != EROFS ? errno : 0;
	if (close(fd) < 0 && !bad)
		bad = errno;
	return bad ? err_sys(e, bad, "write %s", path) : 0;
}

static int ctl_export_run(struct ctl *c, const struct ctl_args *a)
{
	struct export_options o = {.format = EXPORT_ASCIICAST_V2};
	struct export_result result = {0};
	struct record *r = NULL;
	struct err e = {0}, closing = {0};
	struct content t = {.fd = -1};
	int fd = -1;
	int rc = export_parse(a, &o, &e);

	if (rc == 0)
		rc = record_open(c, a->operands[0], args_get_or(a, "reason", "muxctl export"), &r, &e);
	if (rc == 0)
		rc = record_check(r, args_has(a, "unverified"), &e);
	if (rc == 0)
		rc = open_target(args_get(a, "file"), &fd, &e);
	if (rc == 0) {
		content_open(&t, fd, false);
		struct export_source src = {.next = record_next, .arg = r};
		rc = export_run(&src, &o, content_take, &t, &result, &e);
		int closed = close_target(args_get(a, "file"), fd, &closing);
		if (rc == 0 && closed < 0) {
			rc = closed;
			e = closing;
		}
	}
	if (rc == 0)
		report(c, &result, record_facts(r));
	if (fd >= 0)
		content_close(&t);
	record_close(r);
	return rc < 0 ? ctl_fail(c, &e) : 0;
}

const struct ctl_command export_commands[] = {
    {"export", "ID", 1, 1, "Export a recording (id or file) as asciicast, text, JSON lines or raw bytes.", options,
     .run = ctl_export_run, .more = "To a terminal, only what draws is written; to a file or a pipe, every byte.\n",
     .any_bytes = true},
    {0},
};

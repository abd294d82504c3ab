// tier: check
/*
 * The request of a file operation, as muxlet reads it: what is taken has an op and a path, each text is whole UTF-8 or
 * any bytes of a path, and the path comes back out of the answer's writer and in again as the same.
 */
#include "base/utf8.h"
#include "muxd/muxlet/fs_ask.c"
#include "muxd/muxlet/fs_out.c"
#include "muxd/muxlet/fs_text.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_check_text(const char *s)
{
	if (s && !utf8_valid((const uint8_t *)s, strlen(s)))
		abort();
}

static void round_trip(const char *path)
{
	struct fs_out o = {0};
	struct fs_ask again;
	const char *why;

	fs_out_open(&o, NULL, '{');
	fs_out_text(&o, "op", "stat");
	fs_out_path(&o, "path", path);
	fs_out_close(&o, '}');
	if (o.over || o.n > FS_ASK_MAX) { /* escapes make it longer */
		fs_out_finish(&o);
		return;
	}
	if (fs_ask_parse(o.p, o.n, &again, &why) || strcmp(again.path, path) != 0)
		abort();
	fs_ask_finish(&again);
	fs_out_finish(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fs_ask a;
	const char *why = NULL;
	int err = fs_ask_parse((const char *)data, size, &a, &why);

	if (err) {
		if (!why)
			abort();
		return 0;
	}
	if (!a.op || !a.path)
		abort();
	fuzz_check_text(a.op);
	fuzz_check_text(a.pattern);
	fuzz_check_text(a.if_match);
	for (size_t i = 0; a.ignore[i]; i++)
		fuzz_check_text(a.ignore[i]);
	round_trip(a.path);
	if (a.to)
		round_trip(a.to);
	fs_ask_finish(&a);
	return 0;
}

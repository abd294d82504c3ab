#include "muxd/ctl/content.h"
#include "base/slurp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP (16 * 1024)

void content_open(struct content *w, int fd, bool raw)
{
	w->fd = fd;
	w->tame = !raw && isatty(fd);
	tamer_init(&w->tamer);
	buf_init(&w->tamed, (size_t)STEP * TAMER_GROWTH);
}

static int content_put(int fd, const void *p, size_t n, struct err *e)
{
	return spill_fd(fd, p, n) < 0 ? err_sys(e, errno, "write") : 0;
}

int content_write(struct content *w, const void *p, size_t n, struct err *e)
{
	const char *at = p;
	int rc = 0;

	if (w->fd == STDOUT_FILENO && fflush(stdout)) /* what muxctl said before stands before it */
		return err_sys(e, errno, "write");
	if (!w->tame)
		return content_put(w->fd, p, n, e);
	while (n && rc == 0) {
		size_t step = n < STEP ? n : STEP;

		buf_clear(&w->tamed);
		rc = tamer_feed(&w->tamer, at, step, &w->tamed);
		rc = rc ? err_set(e, rc, "no memory for the content")
			: content_put(w->fd, buf_ptr(&w->tamed), buf_len(&w->tamed), e);
		at += step;
		n -= step;
	}
	return rc;
}

int content_data(struct content *w, const json_t *o, struct err *e)
{
	const json_t *text = json_object_get(o, "data");
	const char *data = json_string_value(text), *encoding = json_string_value(json_object_get(o, "encoding"));
	size_t n = json_string_length(text);
	uint8_t *bytes = NULL;
	int rc;

	if (!data || (encoding && strcmp(encoding, "base64") == 0 && base64_decode(data, n, false, &bytes, &n)))
		return err_set(e, ERR_PROTOCOL, "the daemon's answer has no data");
	rc = content_write(w, bytes ? (const char *)bytes : data, n, e);
	free(bytes);
	return rc;
}

int content_take(void *arg, const void *p, size_t n, struct err *e)
{
	return content_write(arg, p, n, e);
}

void content_close(struct content *w)
{
	buf_finish(&w->tamed);
}

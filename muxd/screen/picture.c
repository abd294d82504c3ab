#include "muxd/screen/picture.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/utf8.h"

#include <string.h>

int picture_read(const uint8_t *p, size_t n, struct picture *out)
{
	struct picture pic;

	if (n < PICTURE_HEAD)
		return ERR_PROTOCOL;
	pic = (struct picture){.cols = get_u16(p),
			       .rows = get_u16(p + 2),
			       .row = get_u16(p + 4),
			       .col = get_u16(p + 6),
			       .flags = p[8],
			       .title = (const char *)p + PICTURE_HEAD,
			       .title_len = get_u16(p + 10)};
	if (!pic.cols || !pic.rows || pic.row >= pic.rows || pic.col >= pic.cols || pic.title_len > PICTURE_TITLE_MAX ||
	    pic.title_len > n - PICTURE_HEAD || !utf8_valid(p + PICTURE_HEAD, pic.title_len))
		return ERR_PROTOCOL;
	pic.runs = p + PICTURE_HEAD + pic.title_len;
	pic.runs_len = n - PICTURE_HEAD - pic.title_len;
	*out = pic;
	return 0;
}

static bool run_sound(const struct picture *pic, const struct picture_run *before, const struct picture_run *r)
{
	if (r->row >= pic->rows || !r->cells || r->col + r->cells > pic->cols ||
	    !utf8_valid((const uint8_t *)r->text, r->len) || memchr(r->text, 0, r->len))
		return false;
	return !before || before->row < r->row || (before->row == r->row && before->col + before->cells <= r->col);
}

int picture_next(const struct picture *pic, size_t *at, const struct picture_run *before, struct picture_run *out)
{
	const uint8_t *p = pic->runs + *at;
	size_t left = pic->runs_len - *at;
	struct picture_run r;

	if (!left)
		return 0;
	if (left < PICTURE_RUN_HEAD || get_u16(p + 16) > left - PICTURE_RUN_HEAD)
		return ERR_PROTOCOL;
	r = (struct picture_run){.row = get_u16(p),
				 .col = get_u16(p + 2),
				 .cells = get_u16(p + 4),
				 .fg = get_u32(p + 6),
				 .bg = get_u32(p + 10),
				 .attrs = p[14],
				 .underline = p[15],
				 .text = (const char *)p + PICTURE_RUN_HEAD,
				 .len = get_u16(p + 16)};
	if (!run_sound(pic, before, &r))
		return ERR_PROTOCOL;
	*at += PICTURE_RUN_HEAD + r.len;
	*out = r;
	return 1;
}

// tier: check
/* A picture of a screen as a worker that went wrong may send it: what is taken is inside the screen, in order, and
 * text. */
#include "base/err.h"
#include "base/utf8.h"
#include "muxd/screen/picture.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct picture_run before = {0}, r;
	struct picture pic;
	size_t at = 0;
	int rc;

	if (picture_read(data, size, &pic))
		return 0;
	if (pic.row >= pic.rows || pic.col >= pic.cols || !utf8_valid((const uint8_t *)pic.title, pic.title_len))
		abort();
	for (bool any = false; (rc = picture_next(&pic, &at, any ? &before : NULL, &r)) == 1; any = true) {
		if (at > pic.runs_len || r.row >= pic.rows || r.col + r.cells > pic.cols || !r.cells ||
		    (any && (r.row < before.row || (r.row == before.row && r.col < before.col + before.cells))))
			abort();
		if (r.len && (r.text < (const char *)data || r.text + r.len > (const char *)data + size))
			abort();
		before = r;
	}
	if (rc != 0 && rc != ERR_PROTOCOL)
		abort();
	return 0;
}

#include "muxd/screen/frame.h"

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

int screen_frame_put(struct buf *out, uint8_t type, const void *head, size_t nhead, const void *body, size_t nbody)
{
	uint8_t start[SCREEN_HEADER];
	int rc;

	if (1 + nhead + nbody > SCREEN_FRAME_MAX || buf_room(out) < SCREEN_HEADER + nhead + nbody)
		return ERR_TOO_LARGE;
	put_u32(start, (uint32_t)(1 + nhead + nbody));
	start[4] = type;
	rc = buf_append(out, start, sizeof(start));
	if (!rc && nhead)
		rc = buf_append(out, head, nhead);
	if (!rc && nbody)
		rc = buf_append(out, body, nbody);
	return rc;
}

int screen_frame_next(const struct buf *in, struct screen_frame *out, size_t *out_size)
{
	const uint8_t *p = buf_ptr(in);
	size_t len;

	if (buf_len(in) < 4)
		return 0;
	len = get_u32(p);
	if (len < 1 || len > SCREEN_FRAME_MAX)
		return ERR_PROTOCOL;
	if (buf_len(in) < 4 + len)
		return 0;
	*out = (struct screen_frame){.type = p[4], .payload = p + SCREEN_HEADER, .len = len - 1};
	*out_size = 4 + len;
	return 1;
}

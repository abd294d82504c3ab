#include "control/kube/exec/rc_frame.h"

#include <stdio.h>
#include <string.h>

int rc_protocol_version(const char *name)
{
	if (!name)
		return 0;
	if (strcmp(name, RC_PROTOCOL_V5) == 0)
		return 5;
	return strcmp(name, RC_PROTOCOL_V4) == 0 ? 4 : 0;
}

bool rc_decode(struct rc_decoder *d, const uint8_t *p, size_t n, bool last, struct rc_piece *out)
{
	if (!d->inside && n > 0) {
		d->inside = true;
		d->channel = *p++;
		n--;
	}
	if (!d->inside)
		return false;
	*out = (struct rc_piece){.channel = d->channel, .p = n ? p : NULL, .n = n, .end = last};
	d->inside = !last;
	return n > 0 || last;
}

size_t rc_encode_resize(uint16_t cols, uint16_t rows, uint8_t out[RC_RESIZE_MAX])
{
	int n;

	if (!cols || !rows)
		return 0;
	out[0] = RC_CH_RESIZE;
	n = snprintf((char *)out + 1, RC_RESIZE_MAX - 1, "{\"Width\":%u,\"Height\":%u}", cols, rows);
	return (size_t)n + 1;
}

void rc_encode_close(enum rc_channel channel, uint8_t out[RC_CLOSE_LEN])
{
	out[0] = RC_CH_CLOSE;
	out[1] = (uint8_t)channel;
}

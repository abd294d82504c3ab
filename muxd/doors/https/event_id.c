#include "muxd/doors/https/event_id.h"
#include "base/buf.h"
#include "base/err.h"

#include <inttypes.h>
#include <string.h>

#define END_MARK "-end"
#define DIGITS   19 /* of INT64_MAX, which no stream reaches */

static bool offset_take(const char **at, uint64_t *out)
{
	uint64_t n = 0;
	int digits = 0;

	for (; **at >= '0' && **at <= '9'; (*at)++, digits++) {
		if (digits == DIGITS)
			return false;
		n = n * 10 + (uint64_t)(**at - '0');
	}
	*out = n;
	return digits && n <= INT64_MAX;
}

int event_id_parse(const char *text, struct event_id *out, struct err *e)
{
	struct event_id id = {0};
	const char *at = text;
	bool sound = offset_take(&at, &id.out) && *at++ == '-' && offset_take(&at, &id.err);

	id.end = sound && strcmp(at, END_MARK) == 0;
	if (!sound || (*at && !id.end))
		return err_set(e, ERR_INVAL, "Last-Event-ID is none of this stream: send back the last id that came");
	*out = id;
	return 0;
}

int event_id_put(const struct event_id *id, struct buf *out)
{
	return buf_printf(out, "%" PRIu64 "-%" PRIu64 "%s", id->out, id->err, id->end ? END_MARK : "");
}

// tier: check
/* What an authority for timestamps answers, as carrier and recorder read it. The corpus is of a hash of zeros. */
#include "base/err.h"
#include "base/timestamp.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t hash[TIMESTAMP_HASH];
	struct timestamp t;
	struct err e = {0};
	uint8_t *asked = NULL;
	size_t n = 0;
	int rc = timestamp_check(data, size, hash, NULL, 0, &t, &e);

	if (rc ? e.code != rc || !e.message[0] : t.wall_ns < 0 || strlen(t.by) >= sizeof t.by)
		abort();
	/* Nobody who was not asked knows the nonce. */
	if (timestamp_ask(hash, &asked, &n, &e) || timestamp_answers(asked, n, data, size, &e) == 0)
		abort();
	free(asked);
	return 0;
}

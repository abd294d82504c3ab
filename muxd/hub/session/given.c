#include "muxd/hub/session/given.h"

#include "base/err.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define SUM_LEN 32

struct given_call {
	uint64_t at;
	size_t n; /* 0: none */
	uint8_t sum[SUM_LEN];
};

struct given {
	struct given_call calls[GIVEN_KEPT];
	unsigned next;
};

static int sum_of(const void *p, size_t n, uint8_t out[SUM_LEN])
{
	return EVP_Digest(p, n, out, NULL, EVP_sha256(), NULL) == 1 ? 0 : ERR_NOMEM;
}

int given_note(struct given **g, uint64_t at, const void *p, size_t n)
{
	struct given_call c = {.at = at, .n = n};

	if (!n)
		return 0;
	if ((!*g && !(*g = calloc(1, sizeof(**g)))) || sum_of(p, n, c.sum))
		return ERR_NOMEM;
	(*g)->calls[(*g)->next++ % GIVEN_KEPT] = c;
	return 0;
}

static size_t given_repeats_one(const struct given *g, uint64_t at, const uint8_t *p, size_t n)
{
	uint8_t sum[SUM_LEN];

	for (size_t i = 0; i < GIVEN_KEPT; i++) {
		const struct given_call *c = &g->calls[i];

		if (c->n && c->at == at && c->n <= n && !sum_of(p, c->n, sum) && memcmp(sum, c->sum, SUM_LEN) == 0)
			return c->n;
	}
	return 0;
}

size_t given_repeats(const struct given *g, uint64_t at, const void *p, size_t n)
{
	size_t done = 0, more = 1;

	while (g && more && done < n) {
		more = given_repeats_one(g, at + done, (const uint8_t *)p + done, n - done);
		done += more;
	}
	return done;
}

bool given_knows(const struct given *g, uint64_t at)
{
	return !g || g->next <= GIVEN_KEPT || at >= g->calls[g->next % GIVEN_KEPT].at; /* the oldest */
}

void given_destroy(struct given *g)
{
	free(g);
}

#include "muxd/ctl/replay_index.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX   65536
#define SPACING_FIRST (64 * 1024)

/* After any of these nothing of the old screen is left to see. */
static const char *const clearing[] = {"\033c",       "\033[2J",   "\033[3J",  "\033[?1049h",
				       "\033[?1049l", "\033[?47h", "\033[?47l"};

void replay_index_init(struct replay_index *x)
{
	*x = (struct replay_index){.spacing = SPACING_FIRST};
}

void replay_index_finish(struct replay_index *x)
{
	free(x->entries);
	replay_index_init(x);
}

/* 2: a clearing sequence stands at p; 1: the end of p may be the beginning of one; 0: neither. */
static int clear_at(const char *p, size_t n)
{
	int best = 0;

	for (size_t i = 0; i < sizeof(clearing) / sizeof(clearing[0]); i++) {
		size_t len = strlen(clearing[i]);
		if (n >= len && memcmp(p, clearing[i], len) == 0)
			return 2;
		if (n < len && memcmp(p, clearing[i], n) == 0)
			best = 1;
	}
	return best;
}

/* Sequences may be cut by the end of an event: their beginning is carried over. */
static bool find_clear(struct replay_index *x, const uint8_t *p, size_t n)
{
	char joined[24];
	bool found = false;

	if (x->matched) {
		size_t more = n < 12 ? n : 12;
		memcpy(joined, x->partial, x->matched);
		memcpy(joined + x->matched, p, more);
		int hit = clear_at(joined, x->matched + more);
		/* Still only a beginning: all of it came in small pieces. */
		if (hit == 1 && x->matched + n < sizeof(x->partial)) {
			memcpy(x->partial + x->matched, p, n);
			x->matched += (unsigned)n;
			return false;
		}
		found = hit == 2;
		x->matched = 0;
	}
	for (const uint8_t *at = p; (at = memchr(at, 0x1b, n - (size_t)(at - p))); at++) {
		size_t left = n - (size_t)(at - p);
		int hit = clear_at((const char *)at, left);
		found = found || hit == 2;
		if (hit == 1) {
			memcpy(x->partial, at, left);
			x->matched = (unsigned)left;
			break;
		}
	}
	return found;
}

/* Entries closer together than twice the spacing so far go, and new ones stand that far apart. */
static void thin_out(struct replay_index *x)
{
	size_t to = 0;
	uint64_t kept_at = 0;

	x->spacing *= 2;
	for (size_t i = 0; i < x->n; i++) {
		if (i && x->entries[i].bytes - kept_at < x->spacing)
			continue;
		kept_at = x->entries[i].bytes;
		x->entries[to++] = x->entries[i];
	}
	x->n = to;
}

static int replay_index_put(struct replay_index *x, struct replay_entry en)
{
	while (x->n >= ENTRIES_MAX)
		thin_out(x);
	if (!x->entries || x->n == x->cap) {
		size_t cap = x->cap ? x->cap * 2 : 256;
		struct replay_entry *entries = realloc(x->entries, cap * sizeof(*entries));
		if (!entries)
			return ERR_NOMEM;
		x->entries = entries;
		x->cap = cap;
	}
	x->entries[x->n++] = en;
	return 0;
}

void replay_index_resize(struct replay_index *x, unsigned cols, unsigned rows)
{
	x->cols = (uint16_t)cols;
	x->rows = (uint16_t)rows;
}

int replay_index_add(struct replay_index *x, uint64_t moment, const uint8_t *p, size_t n)
{
	struct replay_entry en = {.moment = moment, .bytes = x->bytes, .cols = x->cols, .rows = x->rows};
	const struct replay_entry *last = x->n ? &x->entries[x->n - 1] : NULL;
	int rc = 0;

	if (x->events++ == 0)
		x->first = moment;
	if (moment > x->last)
		x->last = moment;
	en.clear = n && find_clear(x, p, n);
	/* A clearing is worth an entry unless one stands close by. */
	if (!last || x->bytes - last->bytes >= x->spacing ||
	    (en.clear && (!last->clear || x->bytes - last->bytes >= x->spacing / 16)))
		rc = replay_index_put(x, en);
	x->bytes += n;
	return rc;
}

/* How many entries are at or before it. */
static size_t count_until(const struct replay_index *x, uint64_t to)
{
	size_t low = 0, high = x->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (x->entries[mid].moment <= to)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

void replay_index_size(const struct replay_index *x, uint64_t from, unsigned *out_cols, unsigned *out_rows)
{
	size_t n = from == x->first ? 1 : count_until(x, from);

	if (n && n <= x->n) {
		*out_cols = x->entries[n - 1].cols;
		*out_rows = x->entries[n - 1].rows;
	}
}

uint64_t replay_index_from(const struct replay_index *x, uint64_t to)
{
	size_t low = count_until(x, to);

	if (low == 0)
		return x->first;
	uint64_t total = x->entries[low - 1].bytes;
	size_t oldest = low - 1;
	if (total <= REPLAY_PUSH_MAX)
		return x->first;
	for (size_t i = low; i-- > 0 && total - x->entries[i].bytes <= REPLAY_PUSH_MAX;) {
		if (x->entries[i].clear)
			return x->entries[i].moment;
		oldest = i;
	}
	return x->entries[oldest].moment;
}

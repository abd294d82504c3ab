/* States made while a program reads. */
#include "files/match_dfa.h"

#include <stdlib.h>
#include <string.h>

enum beside { BESIDE_END, BESIDE_WORD, BESIDE_OTHER }; /* what stands beside a place between bytes */

#define UNKNOWN (-1)
#define END     256 /* in the place of a byte: the line ends */

struct state {
	uint32_t off, n, hash; /* its steps in the pool */
	uint8_t before;        /* enum beside */
	bool matched;          /* a match ended before the byte that led here */
};

/* A set of steps that is emptied in no time (Briggs and Torczon). */
struct sparse {
	uint32_t *dense, *at;
	uint32_t n;
};

struct dfa {
	const struct program *g;
	bool anywhere;
	uint16_t class_of[END + 1], classes;
	uint8_t byte_of[END + 1]; /* one byte of each class */
	int32_t *next;            /* [state][class] */
	struct state *states;
	uint32_t n_states, room_states;
	uint32_t *pool, n_pool, room_pool;
	int32_t *slots; /* states by hash */
	uint32_t room_slots;
	struct sparse closure, kernel;
	uint32_t *stack;
};

static bool is_word(uint8_t b)
{
	return (b >= '0' && b <= '9') || (b >= 'A' && b <= 'Z') || (b >= 'a' && b <= 'z') || b == '_';
}

static enum beside beside(const struct dfa *d, int byte)
{
	if (!d->g->asserts)
		return BESIDE_OTHER;
	if (byte == END)
		return BESIDE_END;
	return d->g->words && is_word((uint8_t)byte) ? BESIDE_WORD : BESIDE_OTHER;
}

/* --- sets */

static int sparse_init(struct sparse *s, uint32_t size)
{
	s->dense = calloc(size, sizeof(*s->dense));
	s->at = calloc(size, sizeof(*s->at));
	return s->dense && s->at ? 0 : -1;
}

static bool sparse_has(const struct sparse *s, uint32_t v)
{
	return s->at[v] < s->n && s->dense[s->at[v]] == v;
}

static bool sparse_add(struct sparse *s, uint32_t v)
{
	if (sparse_has(s, v))
		return false;
	s->at[v] = s->n;
	s->dense[s->n++] = v;
	return true;
}

static int order(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* --- classes of bytes: those that no step tells apart */

static void classes_make(struct dfa *d)
{
	bool begins[END + 1] = {false};

	for (uint32_t i = 0; i < d->g->n; i++) {
		if (d->g->steps[i].op == STEP_BYTE) {
			begins[d->g->steps[i].lo] = true;
			begins[d->g->steps[i].hi + 1] = true;
		}
	}
	for (int b = 1; b < END && d->g->words; b++)
		begins[b] |= is_word((uint8_t)b) != is_word((uint8_t)(b - 1));
	for (int b = 0; b < END; b++) {
		d->classes += b && begins[b];
		d->class_of[b] = d->classes;
		d->byte_of[d->classes] = (uint8_t)b;
	}
	d->class_of[END] = ++d->classes;
	d->classes++;
}

/* --- the table */

static void table_forget(struct dfa *d)
{
	d->n_states = d->n_pool = 0;
	for (uint32_t i = 0; i < d->room_slots; i++)
		d->slots[i] = UNKNOWN;
}

static size_t table_bytes(const struct dfa *d, uint32_t states, uint32_t pool)
{
	return states * (sizeof(struct state) + d->classes * sizeof(int32_t) + 2 * sizeof(int32_t)) +
	       pool * sizeof(uint32_t);
}

static int grow(void **p, size_t n, size_t size)
{
	void *grown = realloc(*p, n * size);

	if (!grown)
		return -1;
	*p = grown;
	return 0;
}

static void slot_put(struct dfa *d, uint32_t id)
{
	uint32_t at = d->states[id].hash;

	while (d->slots[at & (d->room_slots - 1)] != UNKNOWN)
		at++;
	d->slots[at & (d->room_slots - 1)] = (int32_t)id;
}

static int table_grow_states(struct dfa *d)
{
	uint32_t room = d->room_states ? d->room_states * 2 : 8;

	if (grow((void **)&d->states, room, sizeof(*d->states)) < 0 ||
	    grow((void **)&d->next, (size_t)room * d->classes, sizeof(*d->next)) < 0 ||
	    grow((void **)&d->slots, 2 * (size_t)room, sizeof(*d->slots)) < 0)
		return -1;
	d->room_states = room;
	d->room_slots = 2 * room;
	for (uint32_t i = 0; i < d->room_slots; i++)
		d->slots[i] = UNKNOWN;
	for (uint32_t i = 0; i < d->n_states; i++)
		slot_put(d, i);
	return 0;
}

static int table_room(struct dfa *d, uint32_t steps)
{
	if (d->n_states > 1 && table_bytes(d, d->n_states + 1, d->n_pool + steps) > MATCH_CACHE)
		table_forget(d);
	if (d->n_states == d->room_states && table_grow_states(d) < 0)
		return -1;
	if (d->n_pool + steps > d->room_pool) {
		uint32_t room = d->room_pool * 2 > d->n_pool + steps ? d->room_pool * 2 : d->n_pool + steps;

		if (grow((void **)&d->pool, room ? room : 1, sizeof(*d->pool)) < 0)
			return -1;
		d->room_pool = room ? room : 1;
	}
	return 0;
}

static uint32_t hash_of(const uint32_t *p, uint32_t n, enum beside before, bool matched)
{
	uint32_t h = 2166136261u ^ ((uint32_t)before << 1 | matched);

	for (uint32_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 16777619u;
	return h ^ h >> 15;
}

/* The state with d->kernel's steps, an old one or a new one. */
static int32_t state_get(struct dfa *d, enum beside before, bool matched)
{
	struct sparse *k = &d->kernel;
	uint32_t hash, at;

	if (k->n > 1)
		qsort(k->dense, k->n, sizeof(*k->dense), order);
	hash = hash_of(k->dense, k->n, before, matched);
	for (at = hash; d->room_slots && d->slots[at & (d->room_slots - 1)] != UNKNOWN; at++) {
		int32_t id = d->slots[at & (d->room_slots - 1)];
		const struct state *s = &d->states[id];

		if (s->hash == hash && s->n == k->n && s->before == before && s->matched == matched &&
		    (k->n == 0 || memcmp(d->pool + s->off, k->dense, k->n * sizeof(*k->dense)) == 0))
			return id;
	}
	if (table_room(d, k->n) < 0)
		return DFA_NO_RAM;
	uint32_t id = d->n_states++;
	d->states[id] =
	    (struct state){.off = d->n_pool, .n = k->n, .hash = hash, .before = (uint8_t)before, .matched = matched};
	if (k->n)
		memcpy(d->pool + d->n_pool, k->dense, k->n * sizeof(*k->dense));
	d->n_pool += k->n;
	for (uint32_t i = 0; i < d->classes; i++)
		d->next[(size_t)id * d->classes + i] = UNKNOWN;
	slot_put(d, id);
	return (int32_t)id;
}

/* --- one step */

static bool holds(uint8_t assert, enum beside before, enum beside after)
{
	bool b = before == BESIDE_WORD, a = after == BESIDE_WORD;

	switch (assert) {
	case ASSERT_BEGIN:
		return before == BESIDE_END;
	case ASSERT_END:
		return after == BESIDE_END;
	case ASSERT_WORD:
		return a != b;
	case ASSERT_NO_WORD:
		return a == b;
	case ASSERT_WORD_BEGIN:
		return a && !b;
	default:
		return b && !a;
	}
}

/* All steps that are reached from `from` without a byte. */
static void closure_add(struct dfa *d, uint32_t from, enum beside before, enum beside after)
{
	uint32_t depth = 0;

	if (sparse_add(&d->closure, from))
		d->stack[depth++] = from;
	while (depth) {
		const struct step *s = &d->g->steps[d->stack[--depth]];
		bool goes = s->op == STEP_SPLIT || (s->op == STEP_ASSERT && holds(s->lo, before, after));

		if (goes && sparse_add(&d->closure, s->to))
			d->stack[depth++] = s->to;
		if (s->op == STEP_SPLIT && sparse_add(&d->closure, s->other))
			d->stack[depth++] = s->other;
	}
}

/* The state behind a byte that no state was made for yet. */
static int32_t state_make(struct dfa *d, int32_t from, uint16_t class, uint64_t *work)
{
	const struct state was = d->states[from];
	int byte = class == d->class_of[END] ? END : d->byte_of[class];
	enum beside after = beside(d, byte);
	bool matched = false;
	int32_t to;

	d->closure.n = d->kernel.n = 0;
	for (uint32_t i = 0; i < was.n; i++)
		closure_add(d, d->pool[was.off + i], was.before, after);
	for (uint32_t i = 0; i < d->closure.n; i++) {
		const struct step *s = &d->g->steps[d->closure.dense[i]];

		matched |= s->op == STEP_MATCH;
		if (s->op == STEP_BYTE && byte != END && byte >= s->lo && byte <= s->hi)
			sparse_add(&d->kernel, s->to);
	}
	if (d->anywhere && byte != END)
		sparse_add(&d->kernel, d->g->start);
	uint64_t cost = 16 + d->closure.n + 4 * (uint64_t)d->kernel.n;
	if (*work < cost)
		return DFA_SPENT;
	*work -= cost;
	uint32_t states = d->n_states;
	to = state_get(d, after, matched);
	/* Fewer states than before: all were forgotten, `from` too. */
	if (to >= 0 && d->n_states >= states)
		d->next[(size_t)from * d->classes + class] = to;
	return to;
}

static inline int32_t step(struct dfa *d, int32_t state, int byte, uint64_t *work)
{
	uint16_t class = d->class_of[byte];
	int32_t to = d->next[(size_t)state * d->classes + class];

	return to != UNKNOWN ? to : state_make(d, state, class, work);
}

static int32_t state_first(struct dfa *d, int byte_before)
{
	d->kernel.n = 0;
	sparse_add(&d->kernel, d->g->start);
	return state_get(d, beside(d, byte_before), false);
}

static bool dead(const struct dfa *d, int32_t state)
{
	return d->states[state].n == 0;
}

int dfa_run(struct dfa *d, const uint8_t *p, size_t n, size_t from, bool backward, bool first, uint64_t *work,
	    size_t *out_at)
{
	size_t left = backward ? from : n - from, at = from;
	int before = backward ? from < n ? p[from] : END : from ? p[from - 1] : END;
	int32_t s = state_first(d, before);
	int found = 0;

	for (; s >= 0 && left; left--) {
		s = step(d, s, backward ? p[at - 1] : p[at], work);
		if (s < 0)
			return s;
		if (d->states[s].matched) {
			found = 1;
			*out_at = at;
			if (first)
				return 1;
		}
		if (dead(d, s))
			return found;
		at = backward ? at - 1 : at + 1;
	}
	if (s >= 0)
		s = step(d, s, END, work);
	if (s < 0)
		return s;
	if (d->states[s].matched) {
		found = 1;
		*out_at = at;
	}
	return found;
}

int dfa_alive(struct dfa *d, const uint8_t *p, size_t n, uint64_t *work)
{
	int32_t s = state_first(d, END);

	for (size_t i = 0; s >= 0 && i < n; i++) {
		s = step(d, s, p[i], work);
		if (s >= 0 && dead(d, s))
			return 0;
	}
	return s < 0 ? s : 1;
}

struct dfa *dfa_new(const struct program *g, bool anywhere)
{
	struct dfa *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->g = g;
	d->anywhere = anywhere;
	classes_make(d);
	d->stack = calloc(g->n, sizeof(*d->stack));
	if (sparse_init(&d->closure, g->n) == 0 && sparse_init(&d->kernel, g->n) == 0 && d->stack &&
	    table_grow_states(d) == 0)
		return d;
	dfa_free(d);
	return NULL;
}

void dfa_free(struct dfa *d)
{
	if (!d)
		return;
	free(d->next);
	free(d->states);
	free(d->pool);
	free(d->slots);
	free(d->closure.dense);
	free(d->closure.at);
	free(d->kernel.dense);
	free(d->kernel.at);
	free(d->stack);
	free(d);
}

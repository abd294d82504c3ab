/*
 * Trees as automata. A node is emitted with the step that follows it, and gives the step it begins with: so no jump is
 * ever mended, and equal ends of characters are shared.
 */
#include "files/match_program.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOWHERE UINT32_MAX /* no step: there was no room for it */

struct emitter {
	struct program *g;
	const struct syntax *s;
	uint32_t size, calls; /* of emit(): nothing, repeated, takes time and no steps */
	bool backward;
	uint32_t set_from; /* the steps from here on are of this set, and may be shared */
};

static uint32_t emit(struct emitter *e, uint32_t id, uint32_t next);

static uint32_t step_new(struct emitter *e, struct step step)
{
	struct program *g = e->g;

	if (g->n == MATCH_SIZE_MAX)
		return NOWHERE;
	if (g->n == e->size) {
		uint32_t size = e->size ? e->size * 2 : 64;
		struct step *grown = realloc(g->steps, size * sizeof(*grown));

		if (!grown)
			return NOWHERE;
		g->steps = grown;
		e->size = size;
	}
	g->steps[g->n] = step;
	return g->n++;
}

static uint32_t step_split(struct emitter *e, uint32_t to, uint32_t other)
{
	if (to == NOWHERE || other == NOWHERE)
		return NOWHERE;
	return step_new(e, (struct step){.op = STEP_SPLIT, .to = to, .other = other});
}

/* --- characters */

static uint32_t step_byte(struct emitter *e, uint8_t lo, uint8_t hi, uint32_t to)
{
	const struct step *all = e->g->steps;

	if (to == NOWHERE)
		return NOWHERE;
	for (uint32_t i = e->g->n, seen = 0; i > e->set_from && seen < 32; i--, seen++)
		if (all[i - 1].op == STEP_BYTE && all[i - 1].lo == lo && all[i - 1].hi == hi && all[i - 1].to == to)
			return i - 1;
	return step_new(e, (struct step){.op = STEP_BYTE, .lo = lo, .hi = hi, .to = to});
}

/* Alternatives of one set so far, and what follows the set. */
struct choice {
	uint32_t entry, next;
	bool any, full;
};

static void choice_add(struct emitter *e, struct choice *c, uint32_t entry)
{
	c->entry = c->any ? step_split(e, entry, c->entry) : entry;
	c->any = true;
	c->full |= c->entry == NOWHERE;
}

/* All characters whose bytes are, one by one, between those of lo and of hi. */
static void emit_bytes(struct emitter *e, struct choice *c, const uint8_t *lo, const uint8_t *hi, size_t n)
{
	uint32_t at = c->next;

	for (size_t i = 0; i < n; i++) {
		size_t k = e->backward ? i : n - 1 - i;

		at = step_byte(e, lo[k], hi[k], at);
	}
	choice_add(e, c, at);
}

/* Code points of one length, cut where the bytes behind the first that differs are not "all from 80 to bf". */
static void emit_length(struct emitter *e, struct choice *c, uint32_t lo, uint32_t hi)
{
	uint8_t a[4], b[4];
	size_t n;

	for (unsigned i = 1; i < 4; i++) {
		uint32_t mask = (1u << (6 * i)) - 1;

		if ((lo & ~mask) == (hi & ~mask))
			continue;
		if (lo & mask) {
			emit_length(e, c, lo, lo | mask);
			emit_length(e, c, (lo | mask) + 1, hi);
			return;
		}
		if ((hi & mask) != mask) {
			emit_length(e, c, lo, (hi & ~mask) - 1);
			emit_length(e, c, hi & ~mask, hi);
			return;
		}
	}
	n = utf8_put(lo, a);
	utf8_put(hi, b);
	emit_bytes(e, c, a, b, n);
}

static void emit_range(struct emitter *e, struct choice *c, uint32_t lo, uint32_t hi)
{
	static const struct syntax_range lengths[] = {
	    {0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xd7ff}, {0xe000, 0xffff}, {0x10000, 0x10ffff}};

	if (e->s->flags & MATCH_BYTES) {
		choice_add(e, c, step_byte(e, (uint8_t)lo, (uint8_t)hi, c->next));
		return;
	}
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t from = lo > lengths[i].lo ? lo : lengths[i].lo;
		uint32_t to = hi < lengths[i].hi ? hi : lengths[i].hi;

		if (from <= to && !c->full)
			emit_length(e, c, from, to);
	}
}

static uint32_t emit_set(struct emitter *e, const struct syntax_node *node, uint32_t next)
{
	struct choice c = {.next = next};

	e->set_from = e->g->n;
	for (uint32_t i = 0; i < node->ranges && !c.full; i++) {
		const struct syntax_range *r = &e->s->ranges[node->first_range + i];

		emit_range(e, &c, r->lo, r->hi);
	}
	if (c.full)
		return NOWHERE;
	return c.any ? c.entry : step_new(e, (struct step){.op = STEP_FAIL});
}

/* --- the other nodes */

static uint32_t emit_cat(struct emitter *e, const struct syntax_node *node, uint32_t next)
{
	uint32_t id = e->backward ? node->child : node->last;

	while (id != SYNTAX_NONE && next != NOWHERE) {
		next = emit(e, id, next);
		id = e->backward ? e->s->nodes[id].next : e->s->nodes[id].prev;
	}
	return next;
}

static uint32_t emit_alt(struct emitter *e, const struct syntax_node *node, uint32_t next)
{
	uint32_t id = node->last, entry = emit(e, id, next);

	while (entry != NOWHERE && (id = e->s->nodes[id].prev) != SYNTAX_NONE)
		entry = step_split(e, emit(e, id, next), entry);
	return entry;
}

static uint32_t emit_star(struct emitter *e, uint32_t child, uint32_t next)
{
	uint32_t split = step_split(e, next, next), body;

	if (split == NOWHERE)
		return NOWHERE;
	body = emit(e, child, split);
	if (body == NOWHERE)
		return NOWHERE;
	e->g->steps[split].to = body;
	return split;
}

static uint32_t emit_repeat(struct emitter *e, const struct syntax_node *node, uint32_t next)
{
	uint32_t at = next;

	if (node->max == SYNTAX_NONE)
		at = emit_star(e, node->child, next);
	else
		for (uint32_t i = node->min; i < node->max && at != NOWHERE; i++)
			at = step_split(e, emit(e, node->child, at), next);
	for (uint32_t i = 0; i < node->min && at != NOWHERE; i++)
		at = emit(e, node->child, at);
	return at;
}

static uint32_t emit_assert(struct emitter *e, uint8_t assert, uint32_t next)
{
	static const uint8_t swapped[] = {[ASSERT_BEGIN] = ASSERT_END,           [ASSERT_END] = ASSERT_BEGIN,
					  [ASSERT_WORD] = ASSERT_WORD,           [ASSERT_NO_WORD] = ASSERT_NO_WORD,
					  [ASSERT_WORD_BEGIN] = ASSERT_WORD_END, [ASSERT_WORD_END] = ASSERT_WORD_BEGIN};

	e->g->asserts = true;
	e->g->words |= assert != ASSERT_BEGIN &&assert != ASSERT_END;
	return step_new(e, (struct step){.op = STEP_ASSERT, .lo = e->backward ? swapped[assert] : assert, .to = next});
}

static uint32_t emit(struct emitter *e, uint32_t id, uint32_t next)
{
	const struct syntax_node *node = &e->s->nodes[id];

	if (next == NOWHERE || ++e->calls > 4 * MATCH_SIZE_MAX)
		return NOWHERE;
	switch (node->kind) {
	case SYNTAX_SET:
		return emit_set(e, node, next);
	case SYNTAX_CAT:
		return emit_cat(e, node, next);
	case SYNTAX_ALT:
		return emit_alt(e, node, next);
	case SYNTAX_REPEAT:
		return emit_repeat(e, node, next);
	case SYNTAX_ASSERT:
		return emit_assert(e, node->assert, next);
	default:
		return next;
	}
}

int program_build(struct program *g, const struct syntax *s, bool backward, struct match_error *err)
{
	struct emitter e = {.g = g, .s = s, .backward = backward};

	memset(g, 0, sizeof(*g));
	g->start = emit(&e, s->root, step_new(&e, (struct step){.op = STEP_MATCH}));
	if (g->start != NOWHERE)
		return 0;
	*err = (struct match_error){.at = 0};
	snprintf(err->why, sizeof(err->why),
		 "the expression is too large (%d steps at most): write fewer repeats like {100} or .{100}",
		 MATCH_SIZE_MAX);
	program_free(g);
	return -1;
}

void program_free(struct program *g)
{
	free(g->steps);
	memset(g, 0, sizeof(*g));
}

#include "recorder/output/pattern.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

#define NODES_MAX  4096  /* of what was read */
#define CODE_MAX   1024  /* instructions: {m,n} copies what it repeats */
#define STEPS_MAX  65536 /* of their making, which may make none: (){1000}{1000} */
#define DEPTH_MAX  100   /* of groups */
#define REPEAT_MAX 1000
#define STATES_MAX 256 /* sets of instructions that are remembered at once; past it they are found anew */
#define SLOTS      512 /* to find them: twice as many, a power of two */
#define NO_STATE   UINT16_MAX
#define NO_NODE    UINT16_MAX

struct set {
	uint8_t bits[32];
};

enum node_kind { NODE_EMPTY, NODE_SET, NODE_CAT, NODE_ALT, NODE_REPEAT, NODE_BEGIN, NODE_END };

struct node {
	enum node_kind kind;
	uint16_t a, b;    /* nodes; of NODE_SET a is the set */
	int16_t min, max; /* max -1: no end */
};

enum code { CODE_SET, CODE_SPLIT, CODE_JUMP, CODE_BEGIN, CODE_END, CODE_MATCH };

struct instruction {
	enum code code;
	uint16_t x, y; /* where to go on; of CODE_SET x is the set */
};

/* A set of instructions that may be next. */
struct state {
	uint16_t *list;
	size_t n;
	bool match, match_at_end;
	uint16_t next[256];
};

struct pattern {
	char *literal; /* not NULL: nothing but that */
	size_t literal_len;
	struct set *sets;
	size_t n_sets, cap_sets;
	struct instruction *code;
	size_t n_code, steps;
	struct state *states[STATES_MAX];
	size_t n_states;
	uint16_t slots[SLOTS];
	uint16_t start;         /* at a line's beginning; NO_STATE: not known yet */
	uint16_t *list, *stack; /* scratch of n_code */
	size_t n_list;
	uint32_t *seen, round; /* seen[i] == round: it is in the list */
};

static void set_add(struct set *s, unsigned c)
{
	s->bits[c >> 3] |= (uint8_t)(1u << (c & 7));
}

static bool set_has(const struct set *s, unsigned c)
{
	return s->bits[c >> 3] >> (c & 7) & 1;
}

static void set_range(struct set *s, unsigned from, unsigned to)
{
	for (unsigned c = from; c <= to; c++)
		set_add(s, c);
}

static void set_invert(struct set *s)
{
	for (size_t i = 0; i < sizeof(s->bits); i++)
		s->bits[i] = (uint8_t)~s->bits[i];
}

static void set_fold(struct set *s)
{
	for (unsigned c = 'a'; c <= 'z'; c++) {
		if (set_has(s, c) || set_has(s, c - 32)) {
			set_add(s, c);
			set_add(s, c - 32);
		}
	}
}

/* ---- reading */

struct parser {
	struct pattern *p;
	const char *text;
	size_t at, n;
	bool fold;
	unsigned depth;
	struct node *nodes;
	size_t n_nodes;
	struct err *e;
};

static int parse_fault(const struct parser *r, const char *what)
{
	return err_set(r->e, ERR_INVAL, "the regular expression has %s at character %zu", what, r->at + 1);
}

static int node_add(struct parser *r, struct node n, uint16_t *out)
{
	if (r->n_nodes == NODES_MAX)
		return err_set(r->e, ERR_TOO_LARGE, "the regular expression is too large");
	r->nodes[r->n_nodes] = n;
	*out = (uint16_t)r->n_nodes++;
	return 0;
}

static int set_node(struct parser *r, struct set s, uint16_t *out)
{
	struct pattern *p = r->p;

	if (r->fold)
		set_fold(&s);
	if (p->n_sets == p->cap_sets) {
		size_t cap = p->cap_sets ? 2 * p->cap_sets : 16;
		struct set *grown = realloc(p->sets, cap * sizeof(*grown));

		if (!grown)
			return err_set(r->e, ERR_NOMEM, "out of memory");
		p->sets = grown;
		p->cap_sets = cap;
	}
	p->sets[p->n_sets] = s;
	return node_add(r, (struct node){.kind = NODE_SET, .a = (uint16_t)p->n_sets++}, out);
}

static bool more(const struct parser *r)
{
	return r->at < r->n;
}

static bool take(struct parser *r, char c)
{
	if (!more(r) || r->text[r->at] != c)
		return false;
	r->at++;
	return true;
}

static bool class_of(char c, struct set *s)
{
	switch (c | 0x20) {
	case 'd':
		set_range(s, '0', '9');
		break;
	case 'w':
		set_range(s, '0', '9');
		set_range(s, 'a', 'z');
		set_range(s, 'A', 'Z');
		set_add(s, '_');
		break;
	case 's':
		set_range(s, '\t', '\r');
		set_add(s, ' ');
		break;
	default:
		return false;
	}
	if (c < 'a')
		set_invert(s);
	return true;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Behind a backslash: one byte (>= 0), or a class, put into *s (-1). Negative beyond that: it is not known. */
static int parse_escape(struct parser *r, struct set *s)
{
	static const char plain[] = "\\.+*?()|[]{}^$/-\"'`!#%&,:;<=>@_~ ";
	char c;

	if (!more(r))
		return parse_fault(r, "a backslash with nothing behind it");
	c = r->text[r->at++];
	if (class_of(c, s))
		return -1;
	if (c == 't' || c == 'r' || c == 'n')
		return c == 't' ? '\t' : c == 'r' ? '\r' : '\n';
	if (c == 'x' && r->at + 2 <= r->n && hex_value(r->text[r->at]) >= 0 && hex_value(r->text[r->at + 1]) >= 0) {
		int v = hex_value(r->text[r->at]) * 16 + hex_value(r->text[r->at + 1]);

		r->at += 2;
		return v;
	}
	if (c && strchr(plain, c))
		return (uint8_t)c;
	r->at--;
	return parse_fault(r, "a backslash before what it means nothing");
}

/* One end of a range in brackets. */
static int parse_member(struct parser *r, struct set *s)
{
	uint8_t c;

	if (take(r, '\\'))
		return parse_escape(r, s);
	c = (uint8_t)r->text[r->at];
	if (c >= 0x80)
		return parse_fault(r, "a character beyond ASCII in brackets");
	r->at++;
	return c;
}

static int parse_brackets(struct parser *r, uint16_t *out)
{
	struct set s = {0};
	bool invert = take(r, '^');
	bool first = true;

	for (; first || !take(r, ']'); first = false) {
		int from, to;

		if (!more(r))
			return parse_fault(r, "brackets without an end");
		from = to = parse_member(r, &s);
		if (from < -1)
			return from;
		if (from == -1)
			continue;
		if (r->at + 1 < r->n && r->text[r->at] == '-' && r->text[r->at + 1] != ']') {
			r->at++;
			to = parse_member(r, &s);
			if (to < -1)
				return to;
			if (to < from)
				return parse_fault(r, "a range that ends before it begins");
		}
		set_range(&s, (unsigned)from, (unsigned)to);
	}
	if (r->fold)
		set_fold(&s); /* before it is turned round */
	if (invert)
		set_invert(&s);
	return set_node(r, s, out);
}

static int parse_either(struct parser *r, uint16_t *out);

static int parse_group(struct parser *r, uint16_t *out)
{
	int rc;

	if (take(r, '?') && !take(r, ':'))
		return parse_fault(r, "a group of a kind that is not known: (?: is");
	if (++r->depth > DEPTH_MAX)
		return parse_fault(r, "too many groups inside each other");
	rc = parse_either(r, out);
	r->depth--;
	if (rc == 0 && !take(r, ')'))
		rc = parse_fault(r, "a group without an end");
	return rc;
}

static int parse_atom(struct parser *r, uint16_t *out)
{
	struct set s = {0};
	char c = r->text[r->at];
	int v;

	if (take(r, '('))
		return parse_group(r, out);
	if (take(r, '['))
		return parse_brackets(r, out);
	if (take(r, '^'))
		return node_add(r, (struct node){.kind = NODE_BEGIN}, out);
	if (take(r, '$'))
		return node_add(r, (struct node){.kind = NODE_END}, out);
	if (c == '*' || c == '+' || c == '?' || c == '{')
		return parse_fault(r, "a repetition of nothing");
	if (take(r, '.')) {
		set_invert(&s);
		return set_node(r, s, out);
	}
	if (take(r, '\\')) {
		v = parse_escape(r, &s);
		if (v < -1)
			return v;
		if (v >= 0)
			set_add(&s, (unsigned)v);
		return set_node(r, s, out);
	}
	set_add(&s, (uint8_t)c);
	r->at++;
	return set_node(r, s, out);
}

static int parse_number(struct parser *r, int *out)
{
	int v = 0;
	size_t from = r->at;

	while (more(r) && r->text[r->at] >= '0' && r->text[r->at] <= '9' && v <= REPEAT_MAX)
		v = v * 10 + (r->text[r->at++] - '0');
	if (r->at == from || v > REPEAT_MAX)
		return parse_fault(r, "a repetition that is none, or of more than 1000 times");
	*out = v;
	return 0;
}

static int parse_counts(struct parser *r, int *min, int *max)
{
	int rc = parse_number(r, min);

	*max = *min;
	if (rc == 0 && take(r, ',')) {
		*max = -1;
		if (more(r) && r->text[r->at] != '}')
			rc = parse_number(r, max);
	}
	if (rc == 0 && (!take(r, '}') || (*max >= 0 && *max < *min)))
		rc = parse_fault(r, "a repetition that is none");
	return rc;
}

/* Which of several ways matches makes no difference to whether one does: a lazy `?` behind it changes nothing. */
static int parse_repeat(struct parser *r, uint16_t *out)
{
	int rc = parse_atom(r, out);

	while (rc == 0 && more(r) && strchr("*+?{", r->text[r->at])) {
		int min = 0, max = -1;

		if (take(r, '+'))
			min = 1;
		else if (take(r, '?'))
			max = 1;
		else if (take(r, '{'))
			rc = parse_counts(r, &min, &max);
		else
			r->at++;
		if (rc == 0)
			rc = node_add(
			    r, (struct node){.kind = NODE_REPEAT, .a = *out, .min = (int16_t)min, .max = (int16_t)max},
			    out);
		(void)take(r, '?');
	}
	return rc;
}

static int parse_chain(struct parser *r, uint16_t *out)
{
	uint16_t one;
	int rc = node_add(r, (struct node){.kind = NODE_EMPTY}, out);

	while (rc == 0 && more(r) && r->text[r->at] != '|' && r->text[r->at] != ')') {
		rc = parse_repeat(r, &one);
		if (rc == 0)
			rc = node_add(r, (struct node){.kind = NODE_CAT, .a = *out, .b = one}, out);
	}
	return rc;
}

static int parse_either(struct parser *r, uint16_t *out)
{
	uint16_t other;
	int rc = parse_chain(r, out);

	while (rc == 0 && take(r, '|')) {
		rc = parse_chain(r, &other);
		if (rc == 0)
			rc = node_add(r, (struct node){.kind = NODE_ALT, .a = *out, .b = other}, out);
	}
	return rc;
}

static int parse_literal(struct parser *r, uint16_t *out)
{
	int rc = node_add(r, (struct node){.kind = NODE_EMPTY}, out);

	while (rc == 0 && more(r)) {
		struct set s = {0};
		uint16_t one;

		set_add(&s, (uint8_t)r->text[r->at++]);
		rc = set_node(r, s, &one);
		if (rc == 0)
			rc = node_add(r, (struct node){.kind = NODE_CAT, .a = *out, .b = one}, out);
	}
	return rc;
}

static int parse_whole(struct parser *r, bool regex, uint16_t *out)
{
	int rc = regex ? parse_either(r, out) : parse_literal(r, out);

	return rc == 0 && more(r) ? parse_fault(r, "a ) that closes nothing") : rc;
}

/* ---- the automaton */

static int emit(struct pattern *p, enum code code, uint16_t x, uint16_t y)
{
	if (p->n_code == CODE_MAX)
		return ERR_TOO_LARGE;
	p->code[p->n_code++] = (struct instruction){code, x, y};
	return 0;
}

static int emit_node(struct pattern *p, const struct node *nodes, uint16_t i);

static int emit_optional(struct pattern *p, const struct node *nodes, uint16_t i)
{
	size_t split = p->n_code;
	int rc = emit(p, CODE_SPLIT, (uint16_t)(split + 1), 0);

	if (rc == 0)
		rc = emit_node(p, nodes, i);
	if (rc == 0)
		p->code[split].y = (uint16_t)p->n_code;
	return rc;
}

static int emit_endless(struct pattern *p, const struct node *nodes, uint16_t i)
{
	size_t split = p->n_code;
	int rc = emit(p, CODE_SPLIT, (uint16_t)(split + 1), 0);

	if (rc == 0)
		rc = emit_node(p, nodes, i);
	if (rc == 0)
		rc = emit(p, CODE_JUMP, (uint16_t)split, 0);
	if (rc == 0)
		p->code[split].y = (uint16_t)p->n_code;
	return rc;
}

static int emit_repeat(struct pattern *p, const struct node *nodes, const struct node *n)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < n->min; i++)
		rc = emit_node(p, nodes, n->a);
	if (rc == 0 && n->max < 0)
		return emit_endless(p, nodes, n->a);
	for (int i = n->min; rc == 0 && i < n->max; i++)
		rc = emit_optional(p, nodes, n->a);
	return rc;
}

static int emit_either(struct pattern *p, const struct node *nodes, const struct node *n)
{
	size_t split = p->n_code, jump;
	int rc = emit(p, CODE_SPLIT, (uint16_t)(split + 1), 0);

	if (rc == 0)
		rc = emit_node(p, nodes, n->a);
	jump = p->n_code;
	if (rc == 0)
		rc = emit(p, CODE_JUMP, 0, 0);
	if (rc)
		return rc;
	p->code[split].y = (uint16_t)p->n_code;
	rc = emit_node(p, nodes, n->b);
	p->code[jump].x = (uint16_t)p->n_code;
	return rc;
}

/* A chain of a thousand links is walked without a thousand calls inside each other. */
static int emit_chain(struct pattern *p, const struct node *nodes, uint16_t i)
{
	uint16_t *links = malloc(NODES_MAX * sizeof(*links));
	size_t n = 0;
	int rc = 0;

	if (!links)
		return ERR_NOMEM;
	for (; nodes[i].kind == NODE_CAT; i = nodes[i].a)
		links[n++] = nodes[i].b;
	rc = emit_node(p, nodes, i);
	while (rc == 0 && n)
		rc = emit_node(p, nodes, links[--n]);
	free(links);
	return rc;
}

static int emit_node(struct pattern *p, const struct node *nodes, uint16_t i)
{
	const struct node *n = &nodes[i];

	if (++p->steps > STEPS_MAX)
		return ERR_TOO_LARGE;
	switch (n->kind) {
	case NODE_SET:
		return emit(p, CODE_SET, n->a, 0);
	case NODE_CAT:
		return emit_chain(p, nodes, i);
	case NODE_ALT:
		return emit_either(p, nodes, n);
	case NODE_REPEAT:
		return emit_repeat(p, nodes, n);
	case NODE_BEGIN:
		return emit(p, CODE_BEGIN, 0, 0);
	case NODE_END:
		return emit(p, CODE_END, 0, 0);
	default:
		return 0;
	}
}

/* ---- states */

static void list_begin(struct pattern *p)
{
	if (++p->round == 0) {
		memset(p->seen, 0, CODE_MAX * sizeof(*p->seen));
		p->round = 1;
	}
}

static void push(struct pattern *p, size_t *n, uint16_t i)
{
	if (p->seen[i] == p->round)
		return;
	p->seen[i] = p->round;
	p->stack[(*n)++] = i;
}

/* Whatever may be next from there without a byte; list_gather() makes the list of it. */
static void list_add(struct pattern *p, uint16_t i, bool at_begin, bool at_end)
{
	size_t n = 0;

	push(p, &n, i);
	while (n) {
		const struct instruction *c = &p->code[i = p->stack[--n]];

		if (c->code == CODE_SPLIT) {
			push(p, &n, c->x);
			push(p, &n, c->y);
		} else if (c->code == CODE_JUMP) {
			push(p, &n, c->x);
		} else if ((c->code == CODE_BEGIN && at_begin) || (c->code == CODE_END && at_end)) {
			push(p, &n, (uint16_t)(i + 1));
		}
	}
}

/* By number, so that equal sets are equal lists. */
static void list_gather(struct pattern *p)
{
	p->n_list = 0;
	for (size_t i = 0; i < p->n_code; i++) {
		enum code c = p->code[i].code;

		if (p->seen[i] == p->round && (c == CODE_SET || c == CODE_END || c == CODE_MATCH))
			p->list[p->n_list++] = (uint16_t)i;
	}
}

static bool list_matches(const struct pattern *p)
{
	for (size_t i = 0; i < p->n_list; i++)
		if (p->code[p->list[i]].code == CODE_MATCH)
			return true;
	return false;
}

static size_t slot_of(const uint16_t *list, size_t n)
{
	uint64_t h = 14695981039346656037u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ list[i]) * 1099511628211u;
	return (size_t)(h >> 20) % SLOTS;
}

static void states_clear(struct pattern *p)
{
	for (size_t i = 0; i < p->n_states; i++) {
		free(p->states[i]->list);
		free(p->states[i]);
	}
	p->n_states = 0;
	p->start = NO_STATE;
	memset(p->slots, 0xff, sizeof(p->slots));
}

static bool ends_well(struct pattern *p, const struct state *s)
{
	list_begin(p);
	for (size_t i = 0; i < s->n; i++)
		list_add(p, s->list[i], false, true);
	list_gather(p);
	return list_matches(p);
}

static struct state *state_make(struct pattern *p)
{
	struct state *s = calloc(1, sizeof(*s));

	if (!s || !(s->list = malloc((p->n_list + 1) * sizeof(*s->list)))) {
		free(s);
		return NULL;
	}
	memcpy(s->list, p->list, p->n_list * sizeof(*s->list));
	s->n = p->n_list;
	s->match = list_matches(p);
	memset(s->next, 0xff, sizeof(s->next));
	return s;
}

/* The state that is the list; NO_STATE: out of memory. With too many of them all are forgotten first. */
static uint16_t state_find(struct pattern *p)
{
	size_t slot;
	struct state *s;

	list_gather(p);
	for (slot = slot_of(p->list, p->n_list); p->slots[slot] != NO_STATE; slot = (slot + 1) % SLOTS) {
		s = p->states[p->slots[slot]];
		if (s->n == p->n_list && memcmp(s->list, p->list, p->n_list * sizeof(*p->list)) == 0)
			return p->slots[slot];
	}
	if (p->n_states == STATES_MAX) {
		states_clear(p);
		slot = slot_of(p->list, p->n_list);
	}
	if (!(s = state_make(p)))
		return NO_STATE;
	p->states[p->n_states] = s;
	p->slots[slot] = (uint16_t)p->n_states++;
	s->match_at_end = ends_well(p, s);
	return p->slots[slot];
}

static uint16_t state_start(struct pattern *p)
{
	if (p->start != NO_STATE)
		return p->start;
	list_begin(p);
	list_add(p, 0, true, false);
	uint16_t found = state_find(p);
	p->start = found;
	return found;
}

/* Looking begins anew at each byte: the first instruction is always among those that may be next. */
static uint16_t state_next(struct pattern *p, uint16_t from, uint8_t c)
{
	const struct state *s = p->states[from];
	size_t states = p->n_states;

	list_begin(p);
	for (size_t i = 0; i < s->n; i++) {
		const struct instruction *at = &p->code[s->list[i]];

		if (at->code == CODE_SET && set_has(&p->sets[at->x], c))
			list_add(p, (uint16_t)(s->list[i] + 1), false, false);
	}
	list_add(p, 0, false, false);
	uint16_t to = state_find(p);
	if (to != NO_STATE && p->n_states >= states) /* else `from` was forgotten */
		p->states[from]->next[c] = to;
	return to;
}

bool pattern_matches(struct pattern *p, const uint8_t *line, size_t n)
{
	uint16_t s;

	if (p->literal)
		return !p->literal_len || (n >= p->literal_len && memmem(line, n, p->literal, p->literal_len));
	s = state_start(p);
	for (size_t i = 0; i < n && s != NO_STATE && !p->states[s]->match; i++) {
		uint16_t next = p->states[s]->next[line[i]];

		s = next != NO_STATE ? next : state_next(p, s, line[i]);
	}
	return s != NO_STATE && (p->states[s]->match || p->states[s]->match_at_end);
}

/* ---- */

static int compile(struct pattern *p, const char *text, size_t n, unsigned flags, struct err *e)
{
	struct parser r = {.p = p, .text = text, .n = n, .fold = flags & PATTERN_IGNORE_CASE, .nodes = NULL, .e = e};
	uint16_t root = NO_NODE;
	int rc;

	r.nodes = calloc(NODES_MAX, sizeof(*r.nodes));
	p->code = calloc(CODE_MAX + 1, sizeof(*p->code));
	p->list = calloc(CODE_MAX + 1, sizeof(*p->list));
	p->stack = calloc(CODE_MAX + 1, sizeof(*p->stack));
	p->seen = calloc(CODE_MAX + 1, sizeof(*p->seen));
	if (!r.nodes || !p->code || !p->list || !p->stack || !p->seen) {
		free(r.nodes);
		return err_set(e, ERR_NOMEM, "out of memory");
	}
	rc = parse_whole(&r, flags & PATTERN_REGEX, &root);
	if (rc == 0 && (emit_node(p, r.nodes, root) || emit(p, CODE_MATCH, 0, 0)))
		rc = err_set(e, ERR_TOO_LARGE, "the regular expression is too large: its repetitions multiply");
	free(r.nodes);
	memset(p->slots, 0xff, sizeof(p->slots));
	p->start = NO_STATE;
	return rc;
}

int pattern_create(const char *text, size_t n, unsigned flags, struct pattern **out, struct err *e)
{
	struct pattern *p;
	int rc = 0;

	if (n > PATTERN_MAX)
		return err_set(e, ERR_TOO_LARGE, "what is looked for has more than %d bytes", PATTERN_MAX);
	if (!(p = calloc(1, sizeof(*p))))
		return err_set(e, ERR_NOMEM, "out of memory");
	if (flags)
		rc = compile(p, text, n, flags, e);
	else if (!(p->literal = malloc(n + 1)))
		rc = err_set(e, ERR_NOMEM, "out of memory");
	else
		memcpy(p->literal, text, n);
	if (rc) {
		pattern_destroy(p);
		return rc;
	}
	p->literal_len = n;
	*out = p;
	return 0;
}

void pattern_destroy(struct pattern *p)
{
	if (!p)
		return;
	states_clear(p);
	free(p->literal);
	free(p->sets);
	free(p->code);
	free(p->list);
	free(p->stack);
	free(p->seen);
	free(p);
}

#include "muxd/hub/typeahead.h"

#include "muxd/base/clock.h"

#include <string.h>

#define ASK_NS   (100 * NS_PER_MS) /* for a program to begin, or to change the terminal's mode itself */
#define BEGUN_NS (300 * NS_PER_MS) /* from there to its prompt */
#define HELD_NS  (600 * NS_PER_MS) /* of one burst */
#define PAUSE_NS (1 * NS_PER_SEC)  /* without input: what follows is another burst */

/* More than anybody types ahead: a paste, which has a twentieth of a second. */
#define PASTE         1024
#define PASTE_ASK_NS  (5 * NS_PER_MS)
#define PASTE_HELD_NS (50 * NS_PER_MS)

static void set_state(struct typeahead *t, enum typeahead_state state, uint64_t now)
{
	if (t->from_ns)
		t->held_ns += now - t->from_ns;
	t->from_ns = 0;
	t->state = state;
	t->since_ns = now;
}

static uint64_t left(uint64_t limit, uint64_t used)
{
	return used < limit ? limit - used : 0;
}

/* What is left of a wait that has begun. */
static uint64_t wait_left(const struct typeahead *t, bool paste, uint64_t now)
{
	uint64_t held = t->held_ns + (t->from_ns ? now - t->from_ns : 0);
	uint64_t burst = left(paste ? PASTE_HELD_NS : HELD_NS, held);
	uint64_t limit = t->state == TYPEAHEAD_BEGUN ? BEGUN_NS : paste ? PASTE_ASK_NS : ASK_NS;
	uint64_t own = left(limit, now - t->since_ns);

	return burst < own ? burst : own;
}

/* The time is up: a paste whose reader changed nothing goes on as it comes, and so does a burst that has had its share.
 */
static void give_up(struct typeahead *t, bool paste, uint64_t now)
{
	bool asked = t->state == TYPEAHEAD_ASKED;

	set_state(t, TYPEAHEAD_IDLE, now);
	if (t->held_ns >= (paste ? PASTE_HELD_NS : HELD_NS))
		t->state = TYPEAHEAD_SPENT;
	else if (asked && paste)
		t->state = TYPEAHEAD_PLAIN;
}

static size_t first_line(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] == '\r' || p[i] == '\n')
			return i + 1;
	return n;
}

size_t typeahead_take(struct typeahead *t, const void *p, size_t n, uint64_t now, uint64_t *out_wait_ns)
{
	bool paste = n > PASTE;

	if (!t->from_ns && now - t->last_ns >= PAUSE_NS) {
		set_state(t, TYPEAHEAD_IDLE, now);
		t->held_ns = 0;
	}
	t->last_ns = now;
	if (t->state == TYPEAHEAD_ASKED || t->state == TYPEAHEAD_BEGUN) {
		*out_wait_ns = wait_left(t, paste, now);
		if (*out_wait_ns) {
			t->from_ns = t->from_ns ? t->from_ns : now;
			return 0;
		}
		give_up(t, paste, now);
	}
	return t->state == TYPEAHEAD_IDLE ? first_line(p, n) : n;
}

void typeahead_sent(struct typeahead *t, const void *p, size_t n, uint64_t now)
{
	char last = ((const char *)p)[n - 1];

	if (t->state == TYPEAHEAD_IDLE && (last == '\r' || last == '\n'))
		set_state(t, TYPEAHEAD_ASKED, now);
}

void typeahead_mode(struct typeahead *t, bool settled, uint64_t now)
{
	if (t->state == TYPEAHEAD_SPENT || t->state == TYPEAHEAD_IDLE)
		return;
	if (settled || t->state == TYPEAHEAD_PLAIN)
		set_state(t, TYPEAHEAD_IDLE, now);
	else if (t->state == TYPEAHEAD_ASKED)
		set_state(t, TYPEAHEAD_BEGUN, now);
}

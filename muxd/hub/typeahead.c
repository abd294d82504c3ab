#include "muxd/hub/typeahead.h"

#include "muxd/base/clock.h"

#include <string.h>

#define PAUSE_NS    (1 * NS_PER_SEC) /* who pastes is done, or gone */
#define TOO_LITTLE  (1 * NS_PER_MS)  /* time that nothing changes in */
#define PASTE_BEGIN "\033[200~"      /* sent by the terminal of who pastes */
#define PASTE_END   "\033[201~"
#define PASTE_LEN   (sizeof(PASTE_BEGIN) - 1)

/* What line editors and shells write: bracketed paste on and off, and the marks of shell integration. */
static const struct {
	char text[TYPEAHEAD_MARK + 1];
	bool prompt; /* it stands; else: a line was read */
} marks[] = {
    {"\033[?2004h", true}, {"\033[?2004l", false}, {"\033]133;A", true}, {"\033]133;B", true},
    {"\033]133;C", false}, {"\033]633;A", true},   {"\033]633;B", true}, {"\033]633;C", false},
};

void typeahead_finish(struct typeahead *t)
{
	buf_finish_secret(&t->rest);
	t->state = TYPEAHEAD_FREE;
}

/* ---- input */

bool typeahead_interrupts(const void *p, size_t n)
{
	return memchr(p, 3, n) || memchr(p, 26, n) || memchr(p, 28, n);
}

/* To behind the first line's end, CR LF being one; n: none ends in here. */
static size_t line_len(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] == '\r' || p[i] == '\n')
			return i + 1 < n && p[i] == '\r' && p[i + 1] == '\n' ? i + 2 : i + 1;
	return n;
}

/* To behind the first line that ends outside of a bracketed paste. What a paste holds its reader gets as one text. */
static size_t first_line(struct typeahead *t, const char *p, size_t n)
{
	size_t at = 0, line = 0;

	while (at < n) {
		const char *mark;

		if (!t->pasting)
			line = line_len(p + at, n - at);
		mark = memmem(p + at, t->pasting ? n - at : line, t->pasting ? PASTE_END : PASTE_BEGIN, PASTE_LEN);
		if (!mark)
			return t->pasting ? n : at + line;
		t->pasting = !t->pasting;
		at = (size_t)(mark - p) + PASTE_LEN;
	}
	return n;
}

static void refill(struct typeahead *t, uint64_t now)
{
	uint64_t gained = (now - t->refilled_ns) / TYPEAHEAD_SHARE;

	t->used_ns -= gained < t->used_ns ? gained : t->used_ns;
	t->refilled_ns = now;
}

size_t typeahead_cut(struct typeahead *t, const void *p, size_t n, uint64_t now, uint64_t wait_ns)
{
	size_t cut;

	refill(t, now);
	if (now - t->typed_ns >= PAUSE_NS)
		t->pasting = false;
	t->typed_ns = now;
	if (n > TYPEAHEAD_MAX && t->used_ns < wait_ns)
		t->used_ns = wait_ns;
	cut = first_line(t, p, n);
	if (t->blind || t->used_ns + TOO_LITTLE >= wait_ns || typeahead_interrupts((const char *)p + cut, n - cut)) {
		while (cut < n) /* the rest may begin a paste */
			cut += first_line(t, (const char *)p + cut, n - cut);
	}
	return cut;
}

int typeahead_hold(struct typeahead *t, const void *p, size_t n, uint64_t now)
{
	int rc;

	if (t->rest.max == 0)
		buf_init(&t->rest, TYPEAHEAD_MAX);
	rc = buf_append(&t->rest, p, n);
	if (rc)
		return rc;
	t->state = TYPEAHEAD_HELD;
	t->since_ns = now;
	t->begun = t->mode == LINK_ECHO_OFF; /* a password was read, which no editor announces */
	t->back = false;
	t->mark_len = 0;
	return 0;
}

bool typeahead_add(struct typeahead *t, const void *p, size_t n)
{
	return !typeahead_interrupts(p, n) && n <= buf_room(&t->rest) && !buf_append(&t->rest, p, n);
}

uint64_t typeahead_until(const struct typeahead *t, uint64_t wait_ns)
{
	return t->since_ns + (t->used_ns < wait_ns ? wait_ns - t->used_ns : 0);
}

void typeahead_let_go(struct typeahead *t, uint64_t now, uint64_t wait_ns, bool for_good)
{
	if (t->state != TYPEAHEAD_HELD)
		return;
	t->state = TYPEAHEAD_FREE;
	t->used_ns += now - t->since_ns;
	t->refilled_ns = now; /* time spent waiting earns none */
	if (for_good && t->used_ns < wait_ns)
		t->used_ns = wait_ns;
}

/* ---- what the terminal and its programs do */

bool typeahead_mode(struct typeahead *t, enum link_echo mode)
{
	t->mode = mode;
	t->blind = mode == LINK_ECHO_OFF && (t->blind || !t->told);
	t->told = true;
	t->begun |= mode == LINK_ECHO_LINES;
	t->back = mode == LINK_ECHO_KEYS && t->begun;
	return t->state == TYPEAHEAD_HELD && mode == LINK_ECHO_OFF;
}

/* One that is whole, or NULL; *out_more: the beginning of one. */
static const bool *find_mark(const char *p, size_t n, bool *out_more)
{
	*out_more = false;
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		if (memcmp(p, marks[i].text, n) != 0)
			continue;
		if (!marks[i].text[n])
			return &marks[i].prompt;
		*out_more = true;
	}
	return NULL;
}

/* True: a prompt stands, and it is one that comes after the line. */
static bool on_mark(struct typeahead *t, bool prompt)
{
	t->marks |= prompt;
	t->begun |= !prompt;
	return prompt && t->begun;
}

static bool scan_byte(struct typeahead *t, char c)
{
	const bool *prompt;
	bool more;

	if (c == '\033')
		t->mark_len = 0;
	t->mark[t->mark_len++] = c;
	prompt = find_mark(t->mark, t->mark_len, &more);
	if (!more)
		t->mark_len = 0;
	return prompt && on_mark(t, *prompt);
}

static bool scan(struct typeahead *t, const char *p, size_t n)
{
	const char *end = p + n;
	bool stands = false;

	while (p < end && !stands) {
		if (!t->mark_len)
			p = memchr(p, '\033', (size_t)(end - p));
		if (!p)
			break;
		stands = scan_byte(t, *p++);
	}
	return stands;
}

/* A prompt that is marked is one that has been drawn; of an editor without marks it is known by what it draws once it
 * has the terminal. Outside of a wait it is only learned whether there are marks. */
bool typeahead_output(struct typeahead *t, const void *p, size_t n)
{
	bool held = t->state == TYPEAHEAD_HELD;

	if (!held && (t->marks || t->mode != LINK_ECHO_KEYS))
		return false;
	return (scan(t, p, n) || (t->back && !t->marks)) && held;
}

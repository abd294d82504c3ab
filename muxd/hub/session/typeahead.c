#include "muxd/hub/session/typeahead.h"

#include "base/clock.h"

#include <string.h>

#define PAUSE_NS   (1 * NS_PER_SEC) /* who pastes is done, or gone */
#define TOO_LITTLE (1 * NS_PER_MS)  /* time that nothing changes in */
#define BRIEF      3                /* that part of the time */

/* Of a bracket, sent by the terminal of who pastes: then 0 or 1, then the tilde. */
static const char bracket[] = "\033[20";
#define BRACKET_LEN (sizeof(bracket) - 1)

/* Line editors and shells write these: bracketed paste on and off, and the marks of shell integration. */
static const struct {
	char text[TYPEAHEAD_MARK + 1];
	bool prompt; /* it stands; else: a line was read */
} marks[] = {
    {"\033[?2004h", true}, {"\033[?2004l", false}, {"\033]133;A", true}, {"\033]133;B", true},
    {"\033]133;C", false}, {"\033]633;A", true},   {"\033]633;B", true}, {"\033]633;C", false},
};

/* ---- input */

/* Characters that a terminal acts on when they come, before anybody reads it. */
bool typeahead_interrupts(const void *p, size_t n)
{
	static const char keys[] = {3, 26, 28, 17, 19};

	for (size_t i = 0; i < sizeof(keys); i++)
		if (memchr(p, keys[i], n))
			return true;
	return false;
}

static void bracket_byte(struct typed_brackets *b, char c)
{
	if (b->at < BRACKET_LEN && c == bracket[b->at]) {
		b->at++;
	} else if (b->at == BRACKET_LEN && (c == '0' || c == '1')) {
		b->at++;
		b->opens = c == '0';
	} else {
		if (b->at > BRACKET_LEN && c == '~')
			b->open = b->opens;
		b->at = c == bracket[0];
	}
}

/* Over all of it, or (lines) to behind the first line that ends outside of a paste, CR LF being one end. What a paste
 * holds its reader gets as one text. */
static size_t read_typed(struct typed_brackets *b, const char *p, size_t n, bool lines)
{
	for (size_t i = 0; i < n; i++) {
		if (!b->at && (b->open || !lines)) {
			const char *next = memchr(p + i, bracket[0], n - i);

			if (!next)
				break;
			i = (size_t)(next - p);
		}
		bracket_byte(b, p[i]);
		if (lines && !b->open && (p[i] == '\r' || p[i] == '\n'))
			return i + 1 < n && p[i] == '\r' && p[i + 1] == '\n' ? i + 2 : i + 1;
	}
	return n;
}

static uint64_t used(const struct typeahead *t, uint64_t now)
{
	uint64_t gained = (now - t->refilled_ns) / TYPEAHEAD_SHARE;

	return t->used_ns > gained ? t->used_ns - gained : 0;
}

size_t typeahead_cut(const struct typeahead *t, const void *p, size_t n, uint64_t now, uint64_t wait_ns)
{
	struct typed_brackets b = t->brackets;
	size_t cut;

	if (n > TYPEAHEAD_MAX || t->blind || used(t, now) + TOO_LITTLE >= wait_ns)
		return n;
	if (now - t->typed_ns >= PAUSE_NS)
		memset(&b, 0, sizeof(b));
	cut = read_typed(&b, p, n, true);
	return typeahead_interrupts((const char *)p + cut, n - cut) ? n : cut;
}

void typeahead_went(struct typeahead *t, const void *p, size_t went, size_t offered, uint64_t now, uint64_t wait_ns)
{
	t->used_ns = used(t, now);
	t->refilled_ns = now;
	if (now - t->typed_ns >= PAUSE_NS)
		memset(&t->brackets, 0, sizeof(t->brackets));
	t->typed_ns = now;
	(void)read_typed(&t->brackets, p, went, false);
	if (offered > TYPEAHEAD_MAX && t->used_ns < wait_ns)
		t->used_ns = wait_ns;
}

void typeahead_hold(struct typeahead *t, uint64_t now)
{
	t->state = TYPEAHEAD_HELD;
	t->since_ns = now;
	t->brief = t->mode == LINK_ECHO_LINES || (t->mode == LINK_ECHO_KEYS && !t->stands);
	t->begun = t->mode == LINK_ECHO_OFF; /* a password was read, which no editor announces */
	t->back = false;
	t->mark_len = 0;
}

uint64_t typeahead_until(const struct typeahead *t, uint64_t wait_ns)
{
	uint64_t left = t->used_ns < wait_ns ? wait_ns - t->used_ns : 0, most = t->brief ? wait_ns / BRIEF : wait_ns;

	return t->since_ns + (left < most ? left : most);
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
	if (mode == LINK_ECHO_LINES && t->mode == LINK_ECHO_KEYS) /* so there was one */
		t->brief = false;
	t->mode = mode;
	t->stands &= mode == LINK_ECHO_KEYS;
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
static bool typeahead_on_mark(struct typeahead *t, bool prompt)
{
	t->marks |= prompt;
	t->stands = prompt;
	t->begun |= !prompt;
	t->brief &= prompt;
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
	return prompt && typeahead_on_mark(t, *prompt);
}

/* The first ESC from p on that a mark may begin with: colours, of which output is full, are passed over here. */
static const char *next_escape(const char *p, const char *end)
{
	while (p < end && (p = memchr(p, '\033', (size_t)(end - p)))) {
		if (end - p < 3)
			return p;
		for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
			if (p[1] == marks[i].text[1] && p[2] == marks[i].text[2])
				return p;
		p++;
	}
	return NULL;
}

static bool typeahead_scan(struct typeahead *t, const char *p, size_t n)
{
	const char *end = p + n;
	bool stands = false;

	while (p < end && !stands) {
		if (!t->mark_len)
			p = next_escape(p, end);
		if (!p)
			break;
		stands = scan_byte(t, *p++);
	}
	return stands;
}

/* A prompt that is marked is one that has been drawn; of an editor without marks it is known by what it draws once it
 * has the terminal. Outside of a wait it is only learned whether a marked one stands. */
bool typeahead_output(struct typeahead *t, const void *p, size_t n)
{
	bool held = t->state == TYPEAHEAD_HELD;

	if (!held && (t->stands || t->mode != LINK_ECHO_KEYS))
		return false;
	return (typeahead_scan(t, p, n) || (t->back && !t->marks)) && held;
}

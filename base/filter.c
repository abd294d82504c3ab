#include "base/filter.h"

#include "base/utf8.h"

#include <string.h>

/* Final bytes that pass, by what leads and what comes between. */
static const struct {
	char leader, intermed;
	const char *finals;
} csi_allowed[] = {
    {0, 0, "@ABCDEFGHIJKLMPSTXZ`abdefghjklmrsu"}, {'?', 0, "JKhl"}, {'>', 0, "m"}, {0, ' ', "q"}, {0, '!', "p"},
};
static const struct {
	char intermed;
	const char *finals;
} escape_allowed[] = {{0, "78=>DEHMc"}, {'(', "0AB"}, {')', "0AB"}, {'#', "8"}};

void filter_init(struct filter *f, const struct filter_ops *ops, void *arg)
{
	memset(f, 0, sizeof(*f));
	f->ops = ops;
	f->arg = arg;
}

void filter_cut(struct filter *f)
{
	f->state = FILTER_GROUND;
	f->nutf8 = 0;
}

static bool is_final(const char *finals, char c)
{
	return c && strchr(finals, c);
}

static void end_csi(struct filter *f, char c)
{
	f->state = FILTER_GROUND;
	if (f->bad)
		return;
	f->csi.final = c;
	f->csi.n++;
	for (size_t i = 0; i < sizeof(csi_allowed) / sizeof(csi_allowed[0]); i++)
		if (csi_allowed[i].leader == f->csi.leader && csi_allowed[i].intermed == f->csi.intermed &&
		    is_final(csi_allowed[i].finals, c)) {
			f->ops->csi(f->arg, &f->csi);
			return;
		}
}

static void end_escape(struct filter *f, char c)
{
	f->state = FILTER_GROUND;
	for (size_t i = 0; i < sizeof(escape_allowed) / sizeof(escape_allowed[0]); i++)
		if (escape_allowed[i].intermed == f->intermed && is_final(escape_allowed[i].finals, c))
			f->ops->escape(f->arg, f->intermed, c);
}

static void begin_csi(struct filter *f)
{
	f->state = FILTER_CSI;
	f->bad = f->args_ended = false;
	f->csi.leader = f->csi.intermed = 0;
	f->csi.n = 0; /* index of the last one until the end */
	f->csi.joined = 0;
	f->csi.args[0] = -1;
}

static void next_arg(struct filter *f, bool colon)
{
	if (f->csi.n + 1 >= FILTER_ARGS_MAX) {
		f->bad = true;
		return;
	}
	f->csi.args[++f->csi.n] = -1;
	if (colon)
		f->csi.joined |= UINT32_C(1) << f->csi.n;
}

static void digit(struct filter *f, int d)
{
	int *a = &f->csi.args[f->csi.n];

	*a = (*a < 0 ? 0 : *a) * 10 + d;
	if (*a > FILTER_ARG_MAX)
		*a = FILTER_ARG_MAX;
}

static void csi_byte(struct filter *f, uint8_t c)
{
	bool first = f->csi.n == 0 && f->csi.args[0] < 0 && !f->csi.leader && !f->args_ended;

	if (c >= 0x40 && c < 0x7f) {
		end_csi(f, (char)c);
	} else if (c >= 0x20 && c < 0x30) {
		f->bad = f->bad || f->csi.intermed;
		f->csi.intermed = (char)c;
		f->args_ended = true;
	} else if (f->args_ended && c != 0x7f) {
		f->bad = true;
	} else if (c >= '0' && c <= '9') {
		digit(f, c - '0');
	} else if (c == ';' || c == ':') {
		next_arg(f, c == ':');
	} else if (c >= 0x3c && c <= 0x3f) {
		f->bad = f->bad || !first;
		f->csi.leader = (char)c;
	}
}

static void escape_byte(struct filter *f, uint8_t c)
{
	if (c >= 0x20 && c < 0x30) {
		f->intermed = f->intermed ? 0x7f : (char)c; /* two: none that is allowed */
	} else if (f->intermed) {
		end_escape(f, (char)c);
	} else if (c == '[') {
		begin_csi(f);
	} else if (c == ']') {
		f->state = FILTER_OSC;
		f->ntitle = 0;
	} else if (c == 'P' || c == 'X' || c == '^' || c == '_') {
		f->state = FILTER_STRING;
	} else if (c != 0x7f) {
		end_escape(f, (char)c);
	}
}

/* As far as it is text: broken characters and controls are left out. */
static void end_title(struct filter *f)
{
	char text[FILTER_TITLE_MAX];
	size_t len = 0;

	if (f->ntitle < 2 || (f->title[0] != '0' && f->title[0] != '2') || f->title[1] != ';')
		return;
	for (size_t at = 2, n; at < f->ntitle; at += n ? n : 1) {
		uint32_t cp = 0;

		n = utf8_step(f->title + at, f->ntitle - at, &cp);
		if (n && !utf8_is_control(cp)) {
			memcpy(text + len, f->title + at, n);
			len += n;
		}
	}
	f->ops->title(f->arg, text, len);
}

static void begin_escape(struct filter *f)
{
	f->state = FILTER_ESCAPE;
	f->intermed = 0;
}

/* In a string of any kind. */
static void string_byte(struct filter *f, uint8_t c)
{
	if (c == 0x18 || c == 0x1a) {
		f->state = FILTER_GROUND;
	} else if (c == 0x1b) {
		f->osc = f->state == FILTER_OSC;
		f->state = FILTER_STRING_END;
	} else if (f->state == FILTER_OSC && c == 0x07) {
		f->state = FILTER_GROUND;
		end_title(f);
	} else if (f->state == FILTER_OSC && f->ntitle < sizeof(f->title)) {
		f->title[f->ntitle++] = c;
	}
}

static void string_end_byte(struct filter *f, uint8_t c)
{
	if (c == '\\') {
		f->state = FILTER_GROUND;
		if (f->osc)
			end_title(f);
		return;
	}
	begin_escape(f); /* it broke off, and this is the next one */
	if (c == 0x18 || c == 0x1a)
		f->state = FILTER_GROUND;
	else if (c >= 0x20)
		escape_byte(f, c);
}

static void filter_control(struct filter *f, uint8_t c)
{
	if (c == 0x1b)
		begin_escape(f);
	else if (c == 0x18 || c == 0x1a)
		f->state = FILTER_GROUND;
	else if (c == 0x0b || c == 0x0c)
		f->ops->control(f->arg, 0x0a);
	else if (c == 0x08 || c == 0x09 || c == 0x0a || (c >= 0x0d && c <= 0x0f))
		f->ops->control(f->arg, c);
}

static void broken_character(struct filter *f)
{
	f->nutf8 = 0;
	f->ops->text(f->arg, (const uint8_t *)"\xef\xbf\xbd", 3);
}

/* Could these bytes still become a character? */
static bool is_beginning(const uint8_t *p, unsigned n)
{
	static const uint8_t tails[][3] = {{0x80, 0x80, 0x80}, {0xbf, 0xbf, 0xbf}};
	unsigned want = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	uint8_t try[4];

	if (p[0] < 0xc2 || p[0] > 0xf4 || n >= want)
		return false;
	for (int i = 0; i < 2; i++) { /* the least and the greatest that it can become */
		memcpy(try, p, n);
		memcpy(try + n, tails[i], want - n);
		if (utf8_step(try, want, NULL))
			return true;
	}
	return false;
}

static bool is_c1(const uint8_t *p, size_t n)
{
	return n == 2 && p[0] == 0xc2 && p[1] < 0xa0;
}

/* A byte of a character that is not whole in this piece. True: taken; false: it is something else's. */
static bool utf8_byte(struct filter *f, uint8_t c)
{
	if ((c & 0xc0) != 0x80 && f->nutf8) {
		broken_character(f);
		return false;
	}
	f->utf8[f->nutf8++] = c;
	if (utf8_step(f->utf8, f->nutf8, NULL)) {
		if (!is_c1(f->utf8, f->nutf8))
			f->ops->text(f->arg, f->utf8, f->nutf8);
		f->nutf8 = 0;
	} else if (!is_beginning(f->utf8, f->nutf8)) {
		bool lone = f->nutf8 == 1;

		broken_character(f);
		return lone; /* what broke it may begin the next one */
	}
	return true;
}

static size_t text_run(const uint8_t *p, size_t n)
{
	size_t at = 0, size;

	n = n < FILTER_TEXT_MAX ? n : FILTER_TEXT_MAX;
	while (at < n) {
		if (p[at] >= 0x20 && p[at] < 0x7f)
			size = 1;
		else if (p[at] < 0x80 || (size = utf8_step(p + at, n - at, NULL)) == 0 || is_c1(p + at, size))
			break;
		at += size;
	}
	return at;
}

static size_t ground(struct filter *f, const uint8_t *p, size_t n)
{
	size_t run = f->nutf8 ? 0 : text_run(p, n);

	if (run) {
		f->ops->text(f->arg, p, run);
		return run;
	}
	if (p[0] >= 0x80)
		return utf8_byte(f, p[0]);
	if (f->nutf8)
		broken_character(f);
	if (p[0] < 0x20)
		filter_control(f, p[0]);
	return p[0] < 0x20 || p[0] == 0x7f;
}

static bool in_string(const struct filter *f)
{
	return f->state == FILTER_OSC || f->state == FILTER_STRING;
}

static size_t filter_step(struct filter *f, const uint8_t *p, size_t n)
{
	if (f->state == FILTER_GROUND)
		return ground(f, p, n);
	if (in_string(f)) {
		string_byte(f, p[0]);
	} else if (f->state == FILTER_STRING_END) {
		string_end_byte(f, p[0]);
	} else if (p[0] < 0x20) {
		filter_control(f, p[0]); /* done at once, also in the midst of a sequence */
	} else if (p[0] >= 0x80) {
		f->state = FILTER_GROUND; /* no sequence goes on like this */
		return 0;
	} else if (f->state == FILTER_ESCAPE) {
		escape_byte(f, p[0]);
	} else {
		csi_byte(f, p[0]);
	}
	return 1;
}

void filter_feed(struct filter *f, const uint8_t *p, size_t n)
{
	while (n) {
		size_t done = filter_step(f, p, n);

		p += done;
		n -= done;
	}
}

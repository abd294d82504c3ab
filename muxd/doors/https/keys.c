#include "muxd/doors/https/keys.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/utf8.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

enum modifier { MOD_SHIFT = 1, MOD_ALT = 2, MOD_CTRL = 4 };

/* How a named key is said: as its own bytes, or as a sequence that modifiers go into. */
enum form {
	PLAIN,  /* text */
	LETTER, /* CSI letter, CSI 1;m letter; SS3 letter where the program wants that */
	SS3,    /* SS3 letter; CSI 1;m letter */
	NUMBER  /* CSI n ~, CSI n;m ~ */
};

static const struct named {
	const char *name;
	enum form form;
	const char *text; /* PLAIN, else the letter or number */
} names[] = {
    {"Enter", PLAIN, "\r"},  {"Return", PLAIN, "\r"},   {"Escape", PLAIN, "\033"},
    {"Esc", PLAIN, "\033"},  {"Tab", PLAIN, "\t"},      {"BTab", PLAIN, "\033[Z"},
    {"Space", PLAIN, " "},   {"BSpace", PLAIN, "\177"}, {"Backspace", PLAIN, "\177"},
    {"Up", LETTER, "A"},     {"Down", LETTER, "B"},     {"Right", LETTER, "C"},
    {"Left", LETTER, "D"},   {"Home", LETTER, "H"},     {"End", LETTER, "F"},
    {"IC", NUMBER, "2"},     {"Insert", NUMBER, "2"},   {"DC", NUMBER, "3"},
    {"Delete", NUMBER, "3"}, {"PPage", NUMBER, "5"},    {"PageUp", NUMBER, "5"},
    {"PgUp", NUMBER, "5"},   {"NPage", NUMBER, "6"},    {"PageDown", NUMBER, "6"},
    {"PgDn", NUMBER, "6"},   {"F1", SS3, "P"},          {"F2", SS3, "Q"},
    {"F3", SS3, "R"},        {"F4", SS3, "S"},          {"F5", NUMBER, "15"},
    {"F6", NUMBER, "17"},    {"F7", NUMBER, "18"},      {"F8", NUMBER, "19"},
    {"F9", NUMBER, "20"},    {"F10", NUMBER, "21"},     {"F11", NUMBER, "23"},
    {"F12", NUMBER, "24"},
};

static const struct {
	const char *prefix;
	enum modifier mod;
} modifiers[] = {{"C-", MOD_CTRL},  {"Ctrl-", MOD_CTRL},   {"Ctrl+", MOD_CTRL},  {"^", MOD_CTRL},
		 {"M-", MOD_ALT},   {"Alt-", MOD_ALT},     {"Alt+", MOD_ALT},    {"Meta-", MOD_ALT},
		 {"S-", MOD_SHIFT}, {"Shift-", MOD_SHIFT}, {"Shift+", MOD_SHIFT}};

/* The rest of the key, behind its modifiers; at least one byte. */
static const char *modifiers_take(const char *key, size_t *len, unsigned *mods)
{
	bool found = true;

	while (found) {
		found = false;
		for (size_t i = 0; i < sizeof(modifiers) / sizeof(modifiers[0]); i++) {
			size_t n = strlen(modifiers[i].prefix);

			if (*len <= n || strncasecmp(key, modifiers[i].prefix, n) != 0)
				continue;
			*mods |= modifiers[i].mod;
			key += n;
			*len -= n;
			found = true;
			break;
		}
	}
	return key;
}

static const struct named *named_find(const char *key, size_t len)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i].name) == len && strncasecmp(names[i].name, key, len) == 0)
			return &names[i];
	return NULL;
}

/* The byte that Ctrl makes of a character (ECMA-48's C0, as terminals have it); -1: nothing. */
static int control_of(uint8_t c)
{
	if (c == ' ' || c == '2')
		return 0;
	if (c == '?' || c == '8')
		return 0x7f;
	if (c == '/')
		return 0x1f;
	c = (uint8_t)toupper(c);
	return c >= '@' && c <= '_' ? c & 0x1f : -1;
}

static int put_character(const char *key, size_t len, unsigned mods, struct buf *out, struct err *e)
{
	int c, rc;

	if (mods & MOD_SHIFT)
		return err_set(e, ERR_INVAL, "Shift goes with named keys: write the character that it makes");
	rc = mods & MOD_ALT ? buf_append_str(out, "\033") : 0;
	if (rc || !(mods & MOD_CTRL))
		return rc ? rc : buf_append(out, key, len);
	c = len == 1 ? control_of((uint8_t)key[0]) : -1;
	if (c < 0)
		return err_set(e, ERR_INVAL, "Ctrl does not go with that character");
	return buf_append(out, &(uint8_t){(uint8_t)c}, 1);
}

static int put_plain(const struct named *k, unsigned mods, struct buf *out, struct err *e)
{
	int rc;

	if (strcmp(k->text, "\t") == 0 && mods & MOD_SHIFT)
		return mods & MOD_ALT ? buf_append_str(out, "\033\033[Z") : buf_append_str(out, "\033[Z");
	if (strcmp(k->text, " ") == 0)
		return put_character(k->text, 1, mods & ~(unsigned)MOD_SHIFT, out, e);
	if (mods & MOD_CTRL)
		return err_set(e, ERR_INVAL, "no terminal sends %s with Ctrl", k->name);
	rc = mods & MOD_ALT ? buf_append_str(out, "\033") : 0;
	return rc ? rc : buf_append_str(out, k->text);
}

static int put_named(const struct named *k, unsigned mods, bool application, struct buf *out, struct err *e)
{
	if (k->form == PLAIN)
		return put_plain(k, mods, out, e);
	if (k->form == NUMBER)
		return mods ? buf_printf(out, "\033[%s;%u~", k->text, 1 + mods) : buf_printf(out, "\033[%s~", k->text);
	if (mods)
		return buf_printf(out, "\033[1;%u%s", 1 + mods, k->text);
	return buf_printf(out, "\033%c%s", k->form == SS3 || application ? 'O' : '[', k->text);
}

static bool is_character(const char *key, size_t len)
{
	uint32_t cp = 0;

	return len && utf8_step((const uint8_t *)key, len, &cp) == len && cp >= 0x20 && cp != 0x7f;
}

int key_put(const char *key, size_t len, bool application, struct buf *out, struct err *e)
{
	static const char text[] = "text:";
	const struct named *k;
	unsigned mods = 0;

	if (len >= sizeof(text) - 1 && strncmp(key, text, sizeof(text) - 1) == 0)
		return buf_append(out, key + sizeof(text) - 1, len - (sizeof(text) - 1));
	if (is_character(key, len))
		return buf_append(out, key, len);
	key = modifiers_take(key, &len, &mods);
	k = named_find(key, len);
	if (k)
		return put_named(k, mods, application, out, e);
	if (is_character(key, len))
		return put_character(key, len, mods, out, e);
	return err_set(e, ERR_INVAL,
		       "is no key: Enter, Up, F5, C-c, M-x ..., one character, or \"text:\" and what is typed");
}

/* What counts as a reason: text that a person can read, and more than blanks. */
#include "policy/reason.h"

#include "base/err.h"
#include "base/utf8.h"
#include "base/visible.h"
#include "policy/grant.h"

#include <stdbool.h>
#include <string.h>

/* Control characters, and the marks that turn the direction of a line: a log must show what is there. */
static bool is_control(uint32_t c)
{
	return utf8_is_control(c) || c == 0x2028 || c == 0x2029 || (c >= 0x202a && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

/* White_Space of Unicode, and the characters that have no width or no ink. */
static bool reason_is_blank(uint32_t c)
{
	return c == ' ' || c == 0xa0 || c == 0xad || c == 0x115f || c == 0x1160 || c == 0x1680 || c == 0x180e ||
	       (c >= 0x2000 && c <= 0x200f) || c == 0x202f || c == 0x205f || (c >= 0x2060 && c <= 0x2064) ||
	       c == 0x2800 || c == 0x3000 || c == 0x3164 || c == 0xfeff || c == 0xffa0;
}

/* Not seen by itself, but what languages (Persian, the scripts of India) and emoji are written with: shown as escapes.
 */
static bool is_joiner(uint32_t c)
{
	return c == 0x200c || c == 0x200d || c == 0xfe0e || c == 0xfe0f;
}

/* *out_unseen: the first character that nobody would see, 0: none. */
static int policy_reason_check(const char *reason, uint32_t *out_unseen, struct err *e)
{
	const uint8_t *p = (const uint8_t *)reason;
	size_t len = strnlen(reason, GRANT_REASON_MAX + 1);
	bool ink = false, lines = false;

	*out_unseen = 0;
	if (len > GRANT_REASON_MAX)
		return err_set(e, ERR_INVAL, "reason is longer than %d bytes", GRANT_REASON_MAX);
	for (size_t i = 0; i < len;) {
		uint32_t c = 0;
		size_t step = utf8_step(p + i, len - i, &c);

		if (step == 0)
			return err_set(e, ERR_INVAL, "reason is not UTF-8 text");
		i += step;
		if (c >= '\t' && c <= '\r')
			lines = true;
		else if (is_control(c))
			return err_set(e, ERR_INVAL, "reason holds the control character U+%04X", (unsigned)c);
		else if (!reason_is_blank(c))
			ink = true;
		if (!*out_unseen && !visible_is_plain(c) && !is_joiner(c))
			*out_unseen = c;
	}
	if (!ink)
		return err_set(e, ERR_REASON_REQUIRED, "reason is empty");
	return lines ? err_set(e, ERR_INVAL, "reason holds a tab or a line break") : 0;
}

int reason_check(const char *reason, struct err *e)
{
	uint32_t unseen;
	int rc = policy_reason_check(reason, &unseen, e);

	if (rc == 0 && unseen)
		rc = err_set(e, ERR_INVAL, "reason holds U+%04X, which cannot be seen", (unsigned)unseen);
	return rc;
}

int reason_check_stored(const char *reason, struct err *e)
{
	uint32_t unseen;

	return policy_reason_check(reason, &unseen, e);
}

#include "muxd/plain/answer.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PID_DIGITS 10

/* Decimal digits up to a space or the end; the text behind, NULL when there are none or too many. */
static const char *answer_number(const char *s, int64_t *out)
{
	size_t n = strspn(s, "0123456789");

	if (n == 0 || n > PID_DIGITS || (s[n] != ' ' && s[n] != '\0'))
		return NULL;
	*out = strtoll(s, NULL, 10);
	return s + n + (s[n] == ' ');
}

static enum answer_kind started(const char *s, struct answer_start *out)
{
	int64_t group;
	size_t n;

	if (!(s = answer_number(s, &out->pid)) || !(s = answer_number(s, &group)) ||
	    !(s = answer_number(s, &out->session)))
		return ANSWER_NONE;
	n = strspn(s, "0123456789");
	if (s[n] || n == 0 || n >= sizeof(out->start))
		return ANSWER_NONE;
	memcpy(out->start, s, n + 1);
	return ANSWER_STARTED;
}

static enum answer_kind answer_refused(const char *at, const char *s, struct answer_start *out)
{
	int64_t error;

	if (!answer_number(s, &error) || error > 4095)
		return ANSWER_NONE;
	text_put(out->at, sizeof(out->at), at);
	out->error = (int)error;
	return ANSWER_REFUSED;
}

enum answer_kind answer_start(const uint8_t *p, size_t n, struct answer_start *out, size_t *used)
{
	const uint8_t *end = memchr(p, '\n', n < ANSWER_MAX ? n : ANSWER_MAX);
	char line[ANSWER_MAX];
	size_t len;

	memset(out, 0, sizeof(*out));
	if (!end)
		return n >= ANSWER_MAX || memcmp(p, "muxd ", n < 5 ? n : 5) != 0 ? ANSWER_NONE : ANSWER_MORE;
	len = (size_t)(end - p);
	*used = len + 1;
	if (len && p[len - 1] == '\r')
		len--;
	memcpy(line, p, len);
	line[len] = '\0';
	if (strncmp(line, "muxd started ", 13) == 0)
		return started(line + 13, out);
	if (strncmp(line, "muxd cwd ", 9) == 0)
		return answer_refused("cwd", line + 9, out);
	if (strncmp(line, "muxd exec ", 10) == 0)
		return answer_refused("exec", line + 10, out);
	return ANSWER_NONE;
}

static bool flag(const char **s, bool *out)
{
	if (**s != '0' && **s != '1')
		return false;
	*out = **s == '1';
	*s += (*s)[1] == ' ' ? 2 : 1;
	return true;
}

bool answer_probe(const char *text, struct answer_probe *out)
{
	const char *s = strstr(text, "muxd probe ");

	if (!s)
		return false;
	s += strlen("muxd probe ");
	return flag(&s, &out->proc) && flag(&s, &out->head) && flag(&s, &out->dd) && flag(&s, &out->bash);
}

int64_t answer_left(const char *text, size_t nth)
{
	static const char word[] = "muxd left ";
	const char *s = text;

	for (;; nth--) {
		s = strstr(s, word);
		if (!s)
			return -1;
		s += sizeof(word) - 1;
		if (nth == 0)
			break;
	}
	return strspn(s, "0123456789") - 1 < PID_DIGITS ? strtoll(s, NULL, 10) : -1;
}

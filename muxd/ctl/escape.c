#include "muxd/ctl/escape.h"

#include <string.h>

enum escape_action escape_feed(struct escape *s, const uint8_t *in, size_t n, size_t *out_taken, uint8_t *out,
			       size_t *out_n)
{
	size_t to = 0;

	for (size_t i = 0; i < n; i++) {
		if (!s->seen) {
			s->seen = s->key >= 0 && in[i] == s->key;
			if (!s->seen)
				out[to++] = in[i];
			continue;
		}
		s->seen = false;
		if (in[i] == 'd' || in[i] == '?') {
			*out_taken = i + 1;
			*out_n = to;
			return in[i] == 'd' ? ESCAPE_DETACH : ESCAPE_HELP;
		}
		out[to++] = (uint8_t)s->key;
		if (in[i] != s->key)
			out[to++] = in[i];
	}
	*out_taken = n;
	*out_n = to;
	return ESCAPE_NONE;
}

int escape_key_parse(const char *s)
{
	if (strcmp(s, "none") == 0)
		return -1;
	if (s[0] != '^' || !s[1] || s[2])
		return -2;
	char c = s[1] >= 'a' && s[1] <= 'z' ? (char)(s[1] - 32) : s[1];
	return c >= '@' && c <= '_' ? c & 0x1f : -2;
}

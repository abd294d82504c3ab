/* Text that may not be UTF-8, a character at a time. */
#include "base/utf8.h"

static size_t utf8_expect(uint8_t lead)
{
	if (lead < 0x80)
		return 1;
	if (lead >= 0xc2 && lead <= 0xdf)
		return 2;
	if (lead >= 0xe0 && lead <= 0xef)
		return 3;
	if (lead >= 0xf0 && lead <= 0xf4)
		return 4;
	return 0;
}

size_t utf8_step(const uint8_t *p, size_t n, uint32_t *out_cp)
{
	static const uint32_t lowest[5] = {0, 0, 0x80, 0x800, 0x10000};
	static const uint8_t lead_mask[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	size_t want = n ? utf8_expect(p[0]) : 0;

	if (want == 0 || want > n)
		return 0;
	uint32_t cp = p[0] & lead_mask[want];
	for (size_t i = 1; i < want; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (p[i] & 0x3f);
	}
	if (cp < lowest[want] || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
		return 0;
	if (out_cp)
		*out_cp = cp;
	return want;
}

/* Whether a character may go on with second after lead. */
static bool utf8_second(uint8_t lead, uint8_t second)
{
	uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
	uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;

	return second >= low && second <= high;
}

size_t utf8_begun(const uint8_t *p, size_t n)
{
	size_t want = n ? utf8_expect(p[0]) : 0;
	size_t have = 1;

	if (want < 2)
		return 0;
	while (have < n && have < want && (p[have] & 0xc0) == 0x80)
		have++;
	if (have == want || (have > 1 && !utf8_second(p[0], p[1])))
		return 0;
	return have;
}

size_t utf8_put(uint32_t cp, void *out)
{
	static const uint8_t mark[5] = {0, 0, 0xc0, 0xe0, 0xf0};
	size_t n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
	uint8_t *p = out;

	for (size_t i = n; i-- > 1; cp >>= 6)
		p[i] = (uint8_t)(0x80 | (cp & 0x3f));
	p[0] = (uint8_t)(mark[n] | cp);
	return n;
}

bool utf8_valid(const uint8_t *p, size_t n)
{
	while (n) {
		size_t step = utf8_step(p, n, NULL);
		if (step == 0)
			return false;
		p += step;
		n -= step;
	}
	return true;
}

size_t utf8_open_end(const uint8_t *p, size_t n)
{
	for (size_t back = 1; back <= 3 && back <= n; back++)
		if (utf8_begun(p + n - back, back) == back)
			return back;
	return 0;
}

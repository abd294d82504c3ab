#include "base/text.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The whole characters of src; dst may be src, as nothing grows. drop_begun: what a cut left of a character goes. */
static size_t text_repair(char *dst, size_t size, const char *src, size_t n, bool drop_begun)
{
	size_t at = 0, to = 0;

	while (at < n) {
		const uint8_t *p = (const uint8_t *)src + at;
		size_t step = utf8_step(p, n - at, NULL);
		size_t begun = step == 0 && drop_begun ? utf8_begun(p, n - at) : 0;
		if (begun) {
			at += begun;
			continue;
		}
		bool none = step == 0 || *p == '\0';
		step = none ? 1 : step;
		if (to + step >= size)
			break;
		if (none)
			dst[to] = '?';
		else
			memmove(dst + to, p, step);
		to += step;
		at += step;
	}
	dst[to] = '\0';
	return to;
}

size_t text_put_bytes(char *dst, size_t size, const void *src, size_t n)
{
	return text_repair(dst, size, src, n, false);
}

size_t text_put(char *dst, size_t size, const char *src)
{
	return text_repair(dst, size, src ? src : "", src ? strlen(src) : 0, false);
}

size_t text_vformat(char *dst, size_t size, const char *fmt, va_list ap)
{
	int n = vsnprintf(dst, size, fmt, ap);

	if (n < 0)
		dst[0] = '\0';
	return text_repair(dst, size, dst, strlen(dst), true);
}

size_t text_format(char *dst, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	size_t n = text_vformat(dst, size, fmt, ap);
	va_end(ap);
	return n;
}

size_t text_cut(const void *p, size_t n, size_t max)
{
	const uint8_t *s = p;
	size_t at = 0;

	if (n <= max)
		return n;
	while (at < n) {
		size_t step = utf8_step(s + at, n - at, NULL);
		if (at + (step ? step : 1) > max)
			break;
		at += step ? step : 1;
	}
	return at;
}

/*
 * hex.h - a hexadecimal digit as its value. Inline, no state; muxlet uses it, too.
 */
#ifndef BASE_HEX_H
#define BASE_HEX_H

/* 0 to 15; -1: c is no digit. Small and large letters. */
static inline int hex_value(int c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The same of what is written in one way only, as digests are: small letters. */
static inline int hex_value_small(int c)
{
	return c >= 'A' && c <= 'F' ? -1 : hex_value(c);
}

#endif

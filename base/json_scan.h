/*
 * json_scan.h - JSON of a stranger (RFC 8259) that is looked over once and passed on as it is, without a tree of it.
 *
 * For long answers of a known shape. What is accepted json_parse() takes as well, and reads as every other reader does:
 * one object without blanks, text in UTF-8, no key twice in an object, integers alone, no NUL and no surrogate. What is
 * unusual, though it may be JSON, is declined: whoever asks then parses it. Pure; no memory is taken, and each byte is
 * looked at once (keys of one object are compared with each other).
 */
#ifndef BASE_JSON_SCAN_H
#define BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#define JSON_SCAN_DEPTH 8  /* objects and lists in each other */
#define JSON_SCAN_KEYS  32 /* in an object */
#define JSON_SCAN_KEY   64 /* bytes of one */

/*
 * p, n: the object, behind which one line end may stand. own: names, NULL behind the last, none of which may be a key
 * of the object itself: its members of these names are to be added. *out_len: its length, both braces with it. False:
 * declined.
 */
bool json_scan_object(const void *p, size_t n, const char *const *own, size_t *out_len);

/*
 * Of JSON that need not be readable as such, since it is nested too deep or has too many values: whether the object
 * itself has this member and it is true. ERR_INVAL: it is no object that is closed where the bytes end.
 */
int json_scan_true(const void *p, size_t n, const char *key, bool *out);

struct json_scan_span {
	const char *p;
	size_t n;
};
/*
 * Of an object that may have blanks, the value of its own member of this name, spelled so; of two the last. Nothing is
 * checked but that texts and brackets close: whoever is told acts on it alone. False: there is none, or no object.
 */
bool json_scan_member(const void *p, size_t n, const char *key, struct json_scan_span *out);

#endif

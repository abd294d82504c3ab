/*
 * json.h - jansson, fenced: bounded parsing, typed look-ups that name the field, and building that no content makes
 * fail.
 *
 * jansson refuses to build text that is no UTF-8. An answer, an end or an audit event is not lost for that: the names
 * below that put text into JSON stand for versions of ours, which replace what is no UTF-8 as base/text.h says. So
 * NULL from them means that there was no memory (or that NULL was given). Nothing else includes jansson.h
 * (tests/lib/layers.sh).
 *
 * json_t follows jansson's reference counting (owner calls json_decref). The
 * look-ups return borrowed strings that live as long as the object.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct buf;

#define JSON_VALUES_MAX 100000 /* of a text: up to 300 bytes of memory each, and 50 ms of a loop for all of them */

/*
 * One JSON value, no trailing bytes, no duplicate keys, depth <= 32, len <= max, JSON_VALUES_MAX values at most:
 * however short a value is, it costs memory and time, so a bound on bytes alone is none. ERR_INVAL, ERR_TOO_LARGE.
 */
int json_parse(const void *p, size_t len, size_t max, json_t **out, struct err *e);
/* The same with another bound on values. */
int json_parse_values(const void *p, size_t len, size_t max, size_t values, json_t **out, struct err *e);
#define JSON_VALUES_BODY 20000 /* of a request whose fields are all known: no list in it is longer than a thousand */
/*
 * How many values a parser makes of a text at the most, without making one. Of an object its members count, of a list
 * its places, and an empty list as if it held one. What is no JSON has no fewer than the parser makes of it until it
 * stops.
 */
size_t json_count_values(const void *p, size_t len);
/*
 * The same of what another process of ours puts together of parts that were parsed once: depth <= 64. What is stored
 * has JSON_STORED_DEPTH levels at most (json_text_shallow()), so that it stays readable whatever is put around it.
 */
#define JSON_STORED_DEPTH 16
int json_parse_nested(const void *p, size_t len, size_t max, json_t **out, struct err *e);

/* Optional field: absent (or null) leaves *out untouched. Wrong type: ERR_INVAL naming the key. */
int json_opt_str(const json_t *o, const char *key, const char **out, struct err *e);
int json_opt_int(const json_t *o, const char *key, int64_t min, int64_t max, int64_t *out, struct err *e);
int json_opt_bool(const json_t *o, const char *key, bool *out, struct err *e);
/* Required field: absence is ERR_INVAL too. */
int json_need_str(const json_t *o, const char *key, const char **out, struct err *e);
int json_need_int(const json_t *o, const char *key, int64_t min, int64_t max, int64_t *out, struct err *e);
/* ERR_INVAL names the first key of o that is not in the NULL-ended list. */
int json_only_keys(const json_t *o, const char *const *keys, struct err *e);
/* "" where there is none, or no string. */
const char *json_get_text(const json_t *o, const char *key);
/* Compact text, malloc'd, to be freed; NULL when out of memory. */
char *json_text(const json_t *o);
/* The same; objects and lists nested deeper than JSON_STORED_DEPTH are left out, and a text in their place says so. */
char *json_text_shallow(const json_t *o);
int json_append(struct buf *b, const json_t *o);

json_t *json_string_utf8(const char *s);
json_t *json_stringn_utf8(const char *s, size_t n);
/* Of json_pack's letters those in use: {} [] s s# s% s? s* n b i I f o O o? o* O? O*; s with NULL is null. */
json_t *json_pack_utf8(const char *fmt, ...);
int json_object_set_new_utf8(json_t *o, const char *key, json_t *v);
int json_object_set_utf8(json_t *o, const char *key, json_t *v);
#define json_string(s)               json_string_utf8(s)
#define json_stringn(s, n)           json_stringn_utf8((s), (n))
#define json_pack(...)               json_pack_utf8(__VA_ARGS__)
#define json_object_set_new(o, k, v) json_object_set_new_utf8((o), (k), (v))
#define json_object_set(o, k, v)     json_object_set_utf8((o), (k), (v))

/* Bytes as JSON: {"data": text, "encoding": "utf-8"} or base64 when they are not UTF-8 (or hold NUL). */
int json_set_bytes(json_t *o, const char *data_key, const char *encoding_key, const uint8_t *p, size_t n);
/* A string that need not be UTF-8: then {"base64": ...}. NULL: no memory. */
json_t *json_text_or_base64(const char *s);
/* RFC 4648. Caller frees. url = the URL-safe alphabet without padding. */
char *base64_encode(const void *p, size_t n, bool url);
int base64_decode(const char *s, size_t len, bool url, uint8_t **out, size_t *out_len);

#endif

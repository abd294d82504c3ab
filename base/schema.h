/*
 * schema.h - what a JSON object from outside may hold: a table of fields, which is checked and read at once. Pure.
 *
 * An error names the place as a JSON pointer (RFC 6901), then what is wrong with it: "/steps/0/argv: is empty". Keys in
 * it are the peer's words, with what is not printable made '?'. A table serves bodies of requests, messages and stored
 * documents alike.
 */
#ifndef BASE_SCHEMA_H
#define BASE_SCHEMA_H

#include "base/err.h"
#include "base/json.h"

#include <stddef.h>

enum schema_kind { SCHEMA_TEXT, SCHEMA_INTEGER, SCHEMA_BOOL, SCHEMA_LIST, SCHEMA_OBJECT, SCHEMA_ANY };

/* Where a value stands: a chain on the stack, from the value up to the root. */
struct schema_at {
	const struct schema_at *up;
	const char *key; /* NULL: a place in a list */
	size_t index;
};

/* One reading. */
struct schema {
	void *out;         /* the struct that fields are read into; NULL: they are checked alone */
	const void *limit; /* of the table's own checks */
	struct err *e;
	bool null_is_absent; /* of a field that is not required */
};

struct schema_field {
	const char *key;
	enum schema_kind kind;
	bool required;
	int64_t min, max; /* of a number, of a text's bytes, of a list's length; max 0 of the last two: any */
	/* What the bounds do not say; NULL: nothing. schema_fault() and its code. */
	int (*check)(const struct schema *s, const struct schema_at *at, const json_t *v);
	/*
	 * SCHEMA_TO(): TEXT const char *, INTEGER int64_t, BOOL bool, else const json_t *, all borrowed from the
	 * object; 0: it is not read.
	 */
	size_t to;
};
#define SCHEMA_TO(type, member) (offsetof(type, member) + 1)
#define SCHEMA_COUNT(a)         (sizeof(a) / sizeof((a)[0]))
#define SCHEMA_FIELDS(a)        (a), SCHEMA_COUNT(a)

/*
 * An object with these fields and no others. at NULL: the root. A field that is absent leaves *out as it was.
 * ERR_INVAL; ERR_TOO_LARGE: a text or a list is longer than allowed; and what a check says. Out may be filled in part
 * then.
 */
int schema_object(const struct schema *s, const struct schema_at *at, const json_t *o,
		  const struct schema_field *fields, size_t nfields);
int schema_value(const struct schema *s, const struct schema_at *at, const struct schema_field *f, const json_t *v);
/* A list of texts, each of min to max bytes (max 0: any); the first of one at least. */
int schema_texts(const struct schema *s, const struct schema_at *at, const json_t *list, int64_t max);
/* The place and what is wrong there, into s->e. Returns code. */
__attribute__((format(printf, 4, 5))) int schema_fault(const struct schema *s, const struct schema_at *at, int code,
						       const char *fmt, ...);

#endif

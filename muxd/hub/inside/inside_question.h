/*
 * inside_question.h - what a server inside asks its client for in the middle of a request: a form for people
 * (elicitation), words of a model (sampling), directories (roots). Pure.
 *
 * Nothing in a question says which request it belongs to, so its call is found by the order of things
 * (inside_asking.c). A question is a stranger's, and so is its answer: both have bounds, and what a client has not
 * declared it is not asked. A form is asked for by its fields alone: addresses to send people to, and tools for a
 * model, are not declared to any server. Both are kept as text, as they are held for minutes: as JSON an empty object
 * needs a hundred times the memory that its two bytes do.
 *
 * Owned by its call. States: open -> answered (kept until all of its call's are) -> sent to the server, and freed.
 */
#ifndef MUXD_HUB_INSIDE_INSIDE_QUESTION_H
#define MUXD_HUB_INSIDE_INSIDE_QUESTION_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum question_kind { QUESTION_ELICITATION = 1, QUESTION_SAMPLING = 2, QUESTION_ROOTS = 4, QUESTION_KINDS = 7 };

#define QUESTIONS_OPEN_MAX 16                 /* of a call, at once */
#define QUESTIONS_MAX      64                 /* of a call, one behind another */
#define QUESTION_BYTES_MAX (256 * 1024)       /* of its line */
#define QUESTION_VALUES    2000               /* of its parameters: json_count_values() */
#define QUESTIONS_BYTES    (512 * 1024)       /* of a call's open questions together */
#define ANSWERS_BYTES      (4 * 1024 * 1024)  /* of their answers */
#define QUESTIONS_ALL      (32 * 1024 * 1024) /* of all calls' questions and answers */
#define QUESTION_KEY_MAX   64
#define QUESTION_KEY       "muxd/key" /* in its _meta: its name in inputRequests, as the server wants it */

struct inside_question {
	TAILQ_ENTRY(inside_question) entry;
	uint64_t number; /* no other question of this daemon has it */
	enum question_kind kind;
	char key[QUESTION_KEY_MAX + 1]; /* no other open one of its call has it */
	bool named;                     /* the server said the key, and so an answer may come ahead of the question */
	bool told;                      /* to its caller */
	json_t *id;                     /* the server's */
	char *params;                   /* without _meta, as text */
	char *answer;                   /* {result} or {error}, as text; NULL: it is open */
	size_t bytes, answer_bytes;     /* that it holds */
};
TAILQ_HEAD(inside_questions, inside_question);

const char *question_name(enum question_kind k);         /* "elicitation", ... */
const char *question_method(enum question_kind k);       /* "elicitation/create", ... */
enum question_kind question_kind_of(const char *method); /* 0: it is none */
/* Bits of enum question_kind: of a list of names, and of capabilities that a client declares. */
unsigned question_kinds(const json_t *names);
unsigned question_declared(const json_t *capabilities);
/* Capabilities that declare these. NULL: no memory. */
json_t *question_capabilities(unsigned kinds);

/*
 * A question of that kind, copied; number and key are its caller's to give where the server named none. NULL with *why,
 * static: it is none that may be asked, or there is no memory.
 */
struct inside_question *question_read(enum question_kind k, const json_t *id, const json_t *params, const char **why);
void question_free(struct inside_question *q);
json_t *question_params(const struct inside_question *q); /* new; NULL: no memory */
/* Is that {result: {...}} or {error: {code, message}}? */
bool question_answer_fits(const json_t *answer);

#endif

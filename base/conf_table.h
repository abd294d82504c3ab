/*
 * conf_table.h - the table behind conf.h: every key with type, default, bounds and help.
 *
 * Owned by base; only conf*.c and the tests look in here.
 * Defaults go through the same checks as what people write.
 */
#ifndef BASE_CONF_TABLE_H
#define BASE_CONF_TABLE_H

#include "base/conf.h"

enum conf_type {
	CONF_STRING,   /* char * */
	CONF_CHOICE,   /* char *, one of choices */
	CONF_FLAG,     /* bool, written as the second of two choices */
	CONF_BOOL,     /* bool */
	CONF_NUMBER,   /* uint32_t */
	CONF_SIZE,     /* uint64_t bytes: 64MiB, 1GB, 512 */
	CONF_SIZE32,   /* uint32_t bytes */
	CONF_DURATION, /* uint64_t ns: 15m, 1h30m, 0 */
	CONF_LIST,     /* read by conf.c itself; so are the labels, a mapping */
};

struct conf_key {
	const char *path; /* "log.level"; "staff" alone has no section */
	enum conf_type type;
	size_t offset;     /* in struct conf */
	const char *value; /* default, as one would write it */
	uint64_t min, max;
	const char *choices;                            /* "text|json" */
	int (*check)(const char *value, struct err *e); /* more than bounds; NULL */
	const char *help;
};

const struct conf_key *conf_keys(size_t *out_n);
/* Set the key from text. ERR_CONFIG saying what is allowed, without the key's name. */
int conf_key_set(struct conf *c, const struct conf_key *k, const char *text, struct err *e);
int conf_parse_size(const char *s, uint64_t *out); /* ERR_INVAL */
/* The path that was likely meant by an unknown one; NULL when nothing is near. */
const char *conf_key_nearest(const char *path);
/* The same among "a|b|c"; len of the word in *out_len. */
const char *conf_choice_nearest(const char *choices, const char *word, size_t *out_len);

/* The most entries of each list; conf.c says so with one message, and the functions that add refuse as well
 * (ERR_LIMIT). */
#define CONF_RULES_MAX       256 /* besides the one that ends the list */
#define CONF_STAFF_MAX       1000
#define CONF_LIFE_AGENTS_MAX 1000
#define CONF_LABELS_MAX      64
#define CONF_IMAGES_MAX      64
#define CONF_ISSUERS_MAX     16
#define CONF_WITNESSES_MAX   16
#define CONF_PUSHERS_MAX     256
#define CONF_EDGES_MAX       256

/* Append a rule (strings are copied). The list always ends with one that matches everything: see conf_rules_close. */
int conf_rule_add(struct conf *c, const char *kind, const char *session, enum conf_rule_kind rule, uint64_t head,
		  uint64_t tail, bool floor);
int conf_rules_close(struct conf *c);
void conf_rules_clear(struct conf *c);

/* The next entry of shares.weights, which *io is moved behind. False: it is none. */
bool conf_weight_next(const char **io, char *agent, size_t size, unsigned *out_weight);

/* Scopes, wherever they stand. */
#define CONF_SCOPES_MAX 128 /* characters */
int conf_check_scopes(const char *text, struct err *e);

/* conf_witness.c: witnesses, witness.pushers. */
int conf_check_witness_name(const char *value, struct err *e);
int conf_check_witness_kind(const char *value, struct err *e);
/* What its kind needs is there, and what does not go with it is not. */
int conf_check_witness(const struct conf_witness *w, struct err *e);
int conf_check_http(const char *value, struct err *e);    /* or https, a URL */
int conf_check_address(const char *value, struct err *e); /* HOST:PORT */
int conf_check_host_name(const char *value, struct err *e);
int conf_check_region(const char *value, struct err *e);
int conf_check_file(const char *value, struct err *e);       /* an absolute path */
int conf_check_record_key(const char *value, struct err *e); /* 32 bytes as base64url */
int conf_check_log_id(const char *value, struct err *e);
/* Become c's on success. ERR_LIMIT; ERR_NOMEM; ERR_CONFLICT: the name or log id is there already. */
int conf_witness_add(struct conf *c, const struct conf_witness *w);
int conf_pusher_add(struct conf *c, const struct conf_pusher *p);
void conf_witness_finish(struct conf_witness *w);
void conf_pusher_finish(struct conf_pusher *p);
void conf_witnesses_clear(struct conf *c);

/* conf_image.c: sandbox.images. An entry becomes c's on success: ERR_LIMIT; ERR_CONFLICT: its name is there. */
int conf_check_image_name(const char *value, struct err *e);
int conf_check_image_digest(const char *value, struct err *e);
int conf_check_image_entry(const struct conf_image *x, struct err *e); /* what goes together */
int conf_image_add(struct conf *c, const struct conf_image *x);
void conf_image_finish(struct conf_image *x);
void conf_images_clear(struct conf *c);

/* conf_issuer.c: issuers. The defaults of an entry; it becomes c's on success. */
struct conf_issuer conf_issuer_new(void);
int conf_check_issuer_url(const char *value, struct err *e);
int conf_check_principal(const char *value, struct err *e);        /* "ci/{sub}" */
int conf_check_reason_of_claims(const char *value, struct err *e); /* "MCP by {client_id}" */
int conf_check_claim(const char *value, struct err *e);
int conf_check_require(const char *value, struct err *e); /* "claim=value" */
int conf_check_kinds(const char *value, struct err *e);
int conf_check_agents(const char *value, struct err *e); /* a name, or the beginning of names and a star */
int conf_check_some_text(const char *value, struct err *e);
/* Of one entry, what must be there is, and goes together; its URLs may yet come from the environment. */
int conf_check_issuer(const struct conf_issuer *x, struct err *e);
int conf_check_issuers(const struct conf *c, struct err *e); /* with their URLs */
int conf_issuer_add(struct conf *c,
		    const struct conf_issuer *x); /* ERR_LIMIT; ERR_NOMEM; ERR_CONFLICT: its name is there */
/* From the environment. ERR_CONFIG: there is not the one entry that it would be of. */
int conf_issuer_environment(struct conf *c, const char *issuer, const char *jwks_url, struct err *e);
void conf_issuer_finish(struct conf_issuer *x);
void conf_issuers_clear(struct conf *c);

/* conf_edge.c: edge.known. ERR_LIMIT; ERR_NOMEM; ERR_CONFLICT: its name, id or key is there already. */
int conf_check_https_url(const char *value, struct err *e); /* or "" */
int conf_edge_add(struct conf *c, const struct conf_edge *x);
void conf_edge_finish(struct conf_edge *x);
void conf_edges_clear(struct conf *c);

/* conf_kube.c: values of the section kubernetes; "" is allowed where the key may be left out. */
int conf_check_kubeconfig(const char *value, struct err *e);
int conf_check_namespace(const char *value, struct err *e);
int conf_check_cluster_name(const char *value, struct err *e);
int conf_check_namespaces(const char *value, struct err *e); /* a,b */
int conf_check_object(const char *value, struct err *e);     /* a class */
int conf_check_image(const char *value, struct err *e);
int conf_check_image_needed(const char *value, struct err *e);
int conf_check_objects(const char *value, struct err *e); /* "a,b" */
int conf_check_quantity(const char *value, struct err *e);
int conf_check_label(const char *key, const char *value, struct err *e);
int conf_label_add(struct conf *c, const char *key, const char *value); /* copied; ERR_LIMIT, ERR_NOMEM */
void conf_labels_clear(struct conf *c);

/* The section lifecycle. */
int conf_life_agent_add(struct conf *c, const struct conf_life_agent *a); /* becomes c's on success; ERR_NOMEM */
void conf_life_agent_finish(struct conf_life_agent *a);

#define CONF_RULE_HEAD (UINT64_C(256) * 1024)
#define CONF_RULE_TAIL (UINT64_C(256) * 1024)

#endif

/*
 * profile.h - a policy: an ordered list of task profiles, as its YAML file has them; read-only once it is made.
 *
 * Whoever asked for it by policy_parse() owns it until policy_destroy(). Its text is kept, since each version stands in
 * the audit log. docs/policy.md has the form.
 */
#ifndef POLICY_PROFILE_H
#define POLICY_PROFILE_H

#include "policy/verdict.h"

#define POLICY_TEXT_MAX     (256 * 1024) /* bytes of a file */
#define POLICY_PROFILES_MAX 200
#define POLICY_NAME_MAX     64
#define POLICY_SHA_LEN      65 /* SHA-256 in hex, and an end */

struct conf;
struct conf_rule;
struct paths;
struct record_rule;

/* Patterns in which `*` stands for any characters, `/` too; n 0: any. */
struct policy_names {
	char **list;
	size_t n;
};
struct policy_port_range {
	unsigned from, to;
};
struct policy_server {
	char *name;
	struct policy_names tools; /* n 0: any */
};
/* An operation as a profile names it. */
struct policy_rule {
	bool named;
	unsigned line;
	struct paths *paths; /* NULL: any */
	struct policy_port_range *ports;
	size_t nports; /* 0: any */
	struct policy_server *servers;
	size_t nservers; /* 0: any */
	struct policy_names principals;
};
/* 0: none. */
struct policy_limits {
	uint64_t round_time_ns, file_size, mcp_size;
	uint32_t rounds, sessions, contexts; /* of a task, at a time */
	uint32_t mcp_rate;                   /* requests of a task to servers inside, in a minute */
};
/* An image as the file names it, for who compares it with sandbox.images. */
struct policy_image {
	char *name;
	unsigned line, column;
};
struct policy_images {
	bool limited; /* to those of the list, and to none where that is in it */
	bool none;    /* sandboxes without an image */
	struct policy_image *list;
	size_t n;
	const char *preset; /* of who names none, one of the list; "": no image; NULL: there is none */
};
struct policy_resources {
	struct resources most, preset; /* of a field that is 0: none */
	bool clips;                    /* more than the most is clipped, else refused */
	unsigned line, column;         /* 0: the profile says nothing of them */
};
struct policy_profile {
	char name[POLICY_NAME_MAX + 1];
	unsigned line;
	struct policy_names tasks, agents, principals;
	unsigned kinds; /* 1 << enum grant_kind; 0: any */
	struct policy_rule rules[POLICY_OPS];
	struct grant_files files; /* paths of file.read and file.write, and limits.file_size, as muxlet holds them */
	struct policy_limits limits;
	struct policy_images images;
	struct policy_resources resources;
	struct conf_rule *record; /* kind "*"; n 0: as the configuration says */
	size_t nrecord;
};
struct policy {
	char version[POLICY_VERSION_LEN], sha256[POLICY_SHA_LEN];
	char *text, *name; /* of the file */
	size_t text_len;
	bool otherwise_deny;
	struct policy_profile *profiles;
	size_t nprofiles;
};

/* Does the text match a pattern, in which `*` stands for any characters? */
bool policy_name_match(const char *pattern, const char *text);
/* The profile that decides for it; NULL: none matches. */
const struct policy_profile *policy_profile_for(const struct policy *p, const struct policy_question *q);
/* The rule for recordings of such a session ("terminal", "round", "mcp") keep by the profile; not given: it says
 * nothing of them, or is NULL. */
void policy_record_for(const struct policy_profile *p, const char *session, struct record_rule *out);

/*
 * name: of the file, for messages: "policy.yaml:12:7: ...". ERR_CONFIG says what is wrong and what was likely meant:
 * unknown words, what is not supported, names that stand twice, profiles that can never match, limits on what is not
 * allowed. *out is untouched then.
 */
int policy_parse(const char *text, size_t len, const char *name, struct policy **out, struct err *e);
/* Has the configuration the images that profiles name, and can its backend hold what they say of resources? ERR_CONFIG,
 * as above. */
int policy_check_conf(const struct policy *p, const struct conf *c, struct err *e);
void policy_destroy(struct policy *p); /* NULL-safe */

#endif

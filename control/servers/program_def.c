#include "control/servers/program_def.h"

#include "base/err.h"
#include "base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ARGUMENT_MAX 4096
#define ARGUMENTS    64
#define ENV_MAX      64
#define TOKEN_LEN    32 /* of a word that looks like one made by chance */

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

#define TOKEN_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+"

/* ---- secrets */

/* Words of names behind which people keep secrets. */
static bool names_secret(const char *name, size_t n)
{
	static const char *const words[] = {"token",      "secret",      "password",    "passwd",        "passphrase",
					    "credential", "api_key",     "api-key",     "apikey",        "access_key",
					    "access-key", "private_key", "private-key", "authorization", "bearer"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		for (size_t len = strlen(words[i]), at = 0; at + len <= n; at++)
			if (strncasecmp(name + at, words[i], len) == 0 &&
			    (at + len == n || !strchr("sS", name[at + len])))
				return true; /* tokens are counted, a token is kept */
	return false;
}

/* A run of letters of both cases and digits, as long as keys are: no path, no sentence, no number. Or of hex digits. */
static bool is_random(const char *s, size_t n)
{
	size_t digits = 0, upper = 0, lower = 0, hex = 0;

	for (size_t i = 0; i < n; i++) {
		digits += isdigit((unsigned char)s[i]) != 0;
		upper += isupper((unsigned char)s[i]) != 0;
		lower += islower((unsigned char)s[i]) != 0;
		hex += isxdigit((unsigned char)s[i]) != 0;
	}
	return n >= TOKEN_LEN && (hex == n || (digits >= 4 && upper >= 4 && lower >= 4));
}

static bool begins_as_secret(const char *s)
{
	static const char *const heads[] = {"sk-",   "ghp_",  "gho_",    "ghs_",   "github_pat_", "glpat-",
					    "xoxb-", "xoxp-", "AKIA",    "ASIA",   "AIza",        "eyJ",
					    "npm_",  "hf_",   "Bearer ", "Basic ", "-----BEGIN "};

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		if (strncmp(s, heads[i], strlen(heads[i])) == 0 && strlen(s) >= 16)
			return true;
	return false;
}

/* "scheme://somebody@host": who says who he is mostly says his password, too. */
static bool has_userinfo(const char *s)
{
	for (const char *p = strstr(s, "://"); p; p = strstr(p + 3, "://"))
		if (p[3 + strcspn(p + 3, "/?#@ \"'")] == '@')
			return true;
	return false;
}

/* Anywhere in a word, as a word may be a line for a shell or a field of HTTP. */
static bool holds_secret(const char *s)
{
	for (const char *p = s; *p;) {
		size_t n = strspn(p, TOKEN_CHARS);
		const char *behind = p + n + (p[n] == '"' || p[n] == '\'');

		if ((p == s || !isalnum((unsigned char)p[-1])) && begins_as_secret(p))
			return true;
		if (is_random(p, n) || ((*behind == '=' || (*behind == ':' && behind[1])) && names_secret(p, n)))
			return true;
		p += n ? n : 1;
	}
	return has_userinfo(s);
}

static int secret_fault(const struct schema *s, const struct schema_at *at)
{
	return schema_fault(s, at, ERR_SECRET_REFUSED,
			    "is a secret, or looks like one: no secret is put into a sandbox, and there is no vault to "
			    "name it in yet");
}

int program_check_secret(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	return holds_secret(json_string_value(v)) ? secret_fault(s, at) : 0;
}

int program_check_env(const struct schema *s, const struct schema_at *at, const json_t *env)
{
	const char *key;
	json_t *v;

	if (json_object_size(env) > ENV_MAX)
		return schema_fault(s, at, ERR_TOO_LARGE, "has more than %d names", ENV_MAX);
	json_object_foreach((json_t *)(uintptr_t)env, key, v)
	{
		const struct schema_at here = {at, key, 0};
		size_t n = strlen(key);

		if (!n || strcspn(key, "=") != n || n > 128)
			return schema_fault(s, &here, ERR_INVAL, "is no name of a variable");
		if (names_secret(key, n) || json_is_object(v))
			return secret_fault(s, &here);
		if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v) ||
		    json_string_length(v) > ARGUMENT_MAX)
			return schema_fault(s, &here, ERR_INVAL, "is no text of up to %d bytes without NUL",
					    ARGUMENT_MAX);
		if (holds_secret(json_string_value(v)))
			return secret_fault(s, &here);
	}
	return 0;
}

/* "--token=x", "TOKEN=x", "--api-key" with the value behind it, and words that look like a key by themselves. */
static int check_argument(const struct schema *s, const struct schema_at *at, const char *arg, const char *before)
{
	if (before && before[0] == '-' && !strchr(before, '=') && arg[0] != '-' && names_secret(before, strlen(before)))
		return secret_fault(s, at);
	return holds_secret(arg) ? secret_fault(s, at) : 0;
}

int program_check_command(const struct schema *s, const struct schema_at *at, const json_t *list)
{
	size_t i;
	json_t *v;
	const char *before = NULL;
	int rc = schema_texts(s, at, list, ARGUMENT_MAX);

	if (!rc && !json_array_size(list))
		rc = schema_fault(s, at, ERR_INVAL, "is empty: name a program");
	if (!rc && json_array_size(list) > ARGUMENTS)
		rc = schema_fault(s, at, ERR_TOO_LARGE, "has more than %d arguments", ARGUMENTS);
	json_array_foreach(list, i, v)
	{
		const struct schema_at here = {at, NULL, i};

		if (rc)
			break;
		if (strlen(json_string_value(v)) != json_string_length(v))
			rc = schema_fault(s, &here, ERR_INVAL, "has a NUL in it");
		else
			rc = check_argument(s, &here, json_string_value(v), before);
		before = json_string_value(v);
	}
	return rc;
}

/* ---- names */

static bool is_name(const char *s)
{
	size_t n = strlen(s);

	return n && n <= PROGRAM_NAME_MAX && strspn(s, NAME_CHARS) == n;
}

int program_name_check(const char *name, const char *what, struct err *e)
{
	return is_name(name)
		   ? 0
		   : err_set(e, ERR_INVAL, "invalid name of a %s: use a-z, A-Z, 0-9, \".\", \"_\" and \"-\"", what);
}

int program_check_name(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	return is_name(json_string_value(v))
		   ? 0
		   : schema_fault(s, at, ERR_INVAL, "has other characters than a-z, A-Z, 0-9, \".\", \"_\" and \"-\"");
}

/* ---- the list */

const json_t *program_list_find(const json_t *list, const char *name)
{
	size_t i;
	json_t *v;

	json_array_foreach(list, i, v) if (strcmp(json_get_text(v, "name"), name) == 0) return v;
	return NULL;
}

static bool is_long(const json_t *list)
{
	char *text = json_text(list);
	bool longer = text && strlen(text) > PROGRAM_LIST_MAX;

	free(text);
	return longer;
}

int program_list_check(const struct program_list *k, const json_t *list, json_t **out, struct err *e)
{
	const struct schema s = {.e = e};
	const struct schema_at root = {NULL, k->member, 0};
	json_t *copy = json_array(), *v;
	size_t i;
	int rc = 0;

	if (!json_is_array(list))
		rc = schema_fault(&s, &root, ERR_INVAL, "is no list");
	else if (json_array_size(list) > PROGRAMS_MAX)
		rc = schema_fault(&s, &root, ERR_TOO_LARGE, "has more than %d %s", PROGRAMS_MAX, k->member);
	json_array_foreach(list, i, v)
	{
		const struct schema_at at = {&root, NULL, i};
		json_t *one = NULL;

		if (rc || (rc = k->read(&at, v, &one, e)))
			break;
		if (program_list_find(copy, json_get_text(one, "name"))) {
			rc = schema_fault(&s, &at, ERR_CONFLICT, "has the name of another, \"%s\"",
					  json_get_text(one, "name"));
			json_decref(one);
		} else if (json_array_append_new(copy, one)) {
			rc = err_set(e, ERR_NOMEM, "no memory for a list of %s", k->member);
		}
	}
	if (!rc && is_long(copy))
		rc = schema_fault(&s, &root, ERR_TOO_LARGE, "is longer than %d KiB", PROGRAM_LIST_MAX >> 10);
	if (rc) {
		json_decref(copy);
		return rc;
	}
	*out = copy;
	return 0;
}

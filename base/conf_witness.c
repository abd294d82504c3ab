/* Values of witnesses and witness.pushers. */
#include "base/conf_table.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/list.h"

#include <stdlib.h>
#include <string.h>

#define NAME_MAX_LEN 32
#define KEY_BYTES    32

int conf_check_witness_name(const char *value, struct err *e)
{
	size_t n = strlen(value);

	if (n == 0 || n > NAME_MAX_LEN || strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789-") != n)
		return err_set(e, ERR_CONFIG, "is no name: up to %d lower-case letters, digits and dashes",
			       NAME_MAX_LEN);
	return 0;
}

/* Keys that one kind of witness has and the others lack. */
#define AT(field) offsetof(struct conf_witness, field)
static const struct {
	const char *name;
	size_t at;
} fields[] = {
    {"path", AT(path)},
    {"url", AT(url)},
    {"address", AT(address)},
    {"server_name", AT(name_there)},
    {"ca", AT(ca)},
    {"tsa_ca", AT(tsa_ca)},
    {"credential", AT(credential)},
    {"certificate", AT(certificate)},
    {"certificate_key", AT(certificate_key)},
    {"region", AT(region)},
    {"lock_mode", AT(lock_mode)},
};
#define FIELDS (sizeof fields / sizeof fields[0])

static const struct kind {
	const char *name;
	const char *needs; /* "|a|b|" */
	const char *may;
	const char *proof;
	bool entries; /* it is sent those between its last head and the next */
} kinds[] = {
    {"file", "|path|", "", "written", false},
    {"https", "|url|", "|ca|credential|key|", "answered", false},
    {"muxd", "|url|key|", "|ca|credential|", "countersigned", true},
    {"syslog", "|address|ca|", "|server_name|certificate|certificate_key|", "sent", false},
    {"timestamp", "|url|tsa_ca|", "|ca|credential|", "timestamped", false},
    {"s3", "|url|region|credential|", "|ca|lock_mode|", "locked", false},
};

static const struct kind *find_kind(const char *name)
{
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

int conf_check_witness_kind(const char *value, struct err *e)
{
	return find_kind(value) ? 0 : err_set(e, ERR_CONFIG, "is none of file, https, muxd, syslog, timestamp and s3");
}

const char *conf_witness_proof(const char *kind)
{
	const struct kind *k = find_kind(kind);

	return k ? k->proof : "";
}

bool conf_witness_takes_entries(const char *kind)
{
	const struct kind *k = find_kind(kind);

	return k && k->entries;
}

/* The word in a list "|a|b|". */
static bool conf_witness_listed(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = strstr(list, word); p; p = strstr(p + 1, word))
		if (p > list && p[-1] == '|' && p[n] == '|')
			return true;
	return false;
}

int conf_check_witness(const struct conf_witness *w, struct err *e)
{
	const struct kind *k = find_kind(w->kind);

	for (size_t i = 0; i < FIELDS; i++) {
		bool there = *(char *const *)((const char *)w + fields[i].at) != NULL;
		bool needed = conf_witness_listed(k->needs, fields[i].name);

		if (!there && needed)
			return err_set(e, ERR_CONFIG, "kind %s goes with %s", w->kind, fields[i].name);
		if (there && !needed && !conf_witness_listed(k->may, fields[i].name))
			return err_set(e, ERR_CONFIG, "kind %s goes without %s", w->kind, fields[i].name);
	}
	if (!w->key && conf_witness_listed(k->needs, "key"))
		return err_set(e, ERR_CONFIG, "kind %s needs the key of its receipts", w->kind);
	if (w->key && !conf_witness_listed(k->needs, "key") && !conf_witness_listed(k->may, "key"))
		return err_set(e, ERR_CONFIG, "kind %s goes without key", w->kind);
	if (strcmp(w->kind, "s3") == 0 ? w->lock_ns < 24 * 3600 * NS_PER_SEC : w->lock_ns != 0)
		return err_set(e, ERR_CONFIG, "kind s3 goes with lock, of a day at least, and no other does");
	if (!w->certificate != !w->certificate_key)
		return err_set(e, ERR_CONFIG, "certificate and certificate_key go together");
	if (w->url && strncmp(w->url, "https://", 8) != 0 && strcmp(w->kind, "timestamp") != 0)
		return err_set(e, ERR_CONFIG, "the url of kind %s begins with https://", w->kind);
	return 0;
}

/* HOST:PORT or [HOST]:PORT. */
int conf_check_address(const char *value, struct err *e)
{
	const char *colon = strrchr(value, ':');
	size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
	bool good = colon && colon > value && digits > 0 && digits <= 5 && !colon[1 + digits] &&
		    !strpbrk(value, " \t\r\n\"/@#");

	if (good && value[0] == '[')
		good = colon[-1] == ']' && colon - value > 2;
	else if (good)
		good = memchr(value, ':', (size_t)(colon - value)) == NULL;
	if (!good || atoi(colon + 1) < 1 || atoi(colon + 1) > 65535)
		return err_set(e, ERR_CONFIG, "is no HOST:PORT");
	return 0;
}

int conf_check_host_name(const char *value, struct err *e)
{
	return value[0] && strlen(value) < 254 && !strpbrk(value, " \t\r\n\"/@#")
		   ? 0
		   : err_set(e, ERR_CONFIG, "is no name of a host");
}

int conf_check_region(const char *value, struct err *e)
{
	size_t n = strlen(value);

	return n && n < 64 && strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == n
		   ? 0
		   : err_set(e, ERR_CONFIG, "is no region: letters, digits and dashes");
}

static int conf_check_https(const char *value, struct err *e)
{
	if (strncmp(value, "https://", 8) != 0 || !value[8] || strpbrk(value, " \t\r\n\"@#"))
		return err_set(e, ERR_CONFIG, "is no URL that begins with https://, without a user in it");
	return 0;
}

int conf_check_http(const char *value, struct err *e)
{
	if (strncmp(value, "http://", 7) == 0 && value[7] && !strpbrk(value, " \t\r\n\"@#"))
		return 0;
	return conf_check_https(value, e);
}

int conf_check_file(const char *value, struct err *e)
{
	return value[0] == '/' ? 0 : err_set(e, ERR_CONFIG, "is no absolute path");
}

int conf_check_record_key(const char *value, struct err *e)
{
	uint8_t *p = NULL;
	size_t n = 0;
	int rc = base64_decode(value, strlen(value), true, &p, &n);

	free(p);
	return rc || n != KEY_BYTES
		   ? err_set(e, ERR_CONFIG, "is no public record key: the text of a keys/record/*.pub is meant")
		   : 0;
}

int conf_check_log_id(const char *value, struct err *e)
{
	struct id id;

	return id_parse(value, &id) ? err_set(e, ERR_CONFIG, "is no log id: muxctl head prints it") : 0;
}

int conf_witness_add(struct conf *c, const struct conf_witness *w)
{
	for (size_t i = 0; i < c->nwitnesses; i++)
		if (strcmp(c->witnesses[i].name, w->name) == 0)
			return ERR_CONFLICT;
	return c->nwitnesses < CONF_WITNESSES_MAX ? list_append(&c->witnesses, &c->nwitnesses, w, sizeof(*w))
						  : ERR_LIMIT;
}

int conf_pusher_add(struct conf *c, const struct conf_pusher *p)
{
	for (size_t i = 0; i < c->npushers; i++)
		if (strcmp(c->pushers[i].name, p->name) == 0 || strcmp(c->pushers[i].log_id, p->log_id) == 0)
			return ERR_CONFLICT;
	return c->npushers < CONF_PUSHERS_MAX ? list_append(&c->pushers, &c->npushers, p, sizeof(*p)) : ERR_LIMIT;
}

void conf_witness_finish(struct conf_witness *w)
{
	free(w->name);
	free(w->kind);
	for (size_t i = 0; i < FIELDS; i++)
		free(*(char **)((char *)w + fields[i].at));
	free(w->key);
	*w = (struct conf_witness){0};
}

void conf_pusher_finish(struct conf_pusher *p)
{
	for (size_t i = 0; i < p->nkeys; i++)
		free(p->keys[i]);
	free(p->keys);
	free(p->name);
	free(p->log_id);
	*p = (struct conf_pusher){0};
}

void conf_witnesses_clear(struct conf *c)
{
	for (size_t i = 0; i < c->nwitnesses; i++)
		conf_witness_finish(&c->witnesses[i]);
	for (size_t i = 0; i < c->npushers; i++)
		conf_pusher_finish(&c->pushers[i]);
	free(c->witnesses);
	free(c->pushers);
	c->witnesses = NULL;
	c->pushers = NULL;
	c->nwitnesses = c->npushers = 0;
}

#include "base/conf_start.h"

#include "base/conf_table.h"
#include "base/conf_text.h"
#include "base/err.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/*
 * The first row that fits counts. Of a key under a section that waits, something is built when the daemon starts: a key
 * that is new there waits as well, until a row says otherwise and whoever uses it goes by each reload.
 */
static const struct {
	const char *path; /* of a key; with . or _ at its end, how several begin */
	bool waits;
} rows[] = {
    {"listen.gateways", false},
    {"listen.", true},
    {"journal.", true},
    {"filespace.url", true},
    {"filespace.token_file", true}, /* the store of before is not shown the token of another */
    {"filespace.ca_file", true},
    {"sandbox.images", false},
    {"sandbox.image_size", false},
    {"sandbox.", true},
    {"kubernetes.request_", false},
    {"kubernetes.limit_", false},
    {"kubernetes.admission_", false},
    {"kubernetes.staff", false},
    {"kubernetes.staff_", false},
    {"kubernetes.pod_template_per_create", false},
    {"kubernetes.", true},
    {"edge.centre", true},
    {"edge.centre_keys", true},
    {"edge.ca", true},
    {"privsep.", true},
};

bool conf_key_waits(const struct conf_key *k)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t n = strlen(rows[i].path);
		bool several = strchr("._", rows[i].path[n - 1]) != NULL;

		if (strncmp(k->path, rows[i].path, several ? n : n + 1) == 0)
			return rows[i].waits;
	}
	return false;
}

static int copy_text(char **to, const char *from)
{
	char *copy = strdup(from);

	if (!copy)
		return ERR_NOMEM;
	free(*to);
	*to = copy;
	return 0;
}

/* The labels are the only list that waits. */
static int copy_labels(struct conf *to, const struct conf *from)
{
	int rc = 0;

	conf_labels_clear(to);
	for (size_t i = 0; !rc && i < from->kubernetes_nlabels; i++)
		rc = conf_label_add(to, from->kubernetes_labels[i].key, from->kubernetes_labels[i].value);
	return rc;
}

static int copy_value(struct conf *c, const struct conf *from, const struct conf_key *k)
{
	char *to = (char *)c + k->offset;
	const char *value = (const char *)from + k->offset;

	switch (k->type) {
	case CONF_STRING:
	case CONF_CHOICE:
		return copy_text((char **)(void *)to, *(char *const *)(const void *)value);
	case CONF_FLAG:
	case CONF_BOOL:
		memcpy(to, value, sizeof(bool));
		return 0;
	case CONF_NUMBER:
	case CONF_SIZE32:
		memcpy(to, value, sizeof(uint32_t));
		return 0;
	case CONF_SIZE:
	case CONF_DURATION:
		memcpy(to, value, sizeof(uint64_t));
		return 0;
	case CONF_LIST:
		break;
	}
	return copy_labels(c, from);
}

int conf_keep_started(struct conf *c, const struct conf *in_force, struct err *e)
{
	size_t n;
	const struct conf_key *keys = conf_keys(&n);
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i++)
		if (conf_key_waits(&keys[i]))
			rc = copy_value(c, in_force, &keys[i]);
	return rc ? err_set(e, rc, "no memory for the configuration") : 0;
}

void conf_waiting(const struct conf *c, const struct conf *in_force, char *out, size_t size)
{
	json_t *fresh = conf_values(c), *old = conf_values(in_force);
	size_t n, len = 0;
	const struct conf_key *keys = conf_keys(&n);

	text_put(out, size, "");
	for (size_t i = 0; fresh && old && i < n; i++) {
		if (!conf_key_waits(&keys[i]) ||
		    json_equal(json_object_get(fresh, keys[i].path), json_object_get(old, keys[i].path)))
			continue;
		text_format(out + len, size - len, "%s%s", len ? ", " : "", keys[i].path);
		len = strlen(out);
	}
	json_decref(fresh);
	json_decref(old);
}

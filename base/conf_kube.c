/* Checks of the section kubernetes: what a cluster would refuse is refused here, with line and column. */
#include "base/conf_table.h"

#include "base/err.h"
#include "base/list.h"

#include <stdlib.h>
#include <string.h>

#define LOWER         "abcdefghijklmnopqrstuvwxyz"
#define DIGITS        "0123456789"
#define LABEL_CHARS   LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS
#define LABEL_MAX     63
#define SUBDOMAIN_MAX 253

int conf_check_kubeconfig(const char *value, struct err *e)
{
	const char *p = value;

	if (!*value || strcmp(value, CONF_IN_CLUSTER) == 0)
		return 0;
	for (; p; p = strchr(p, ':') ? strchr(p, ':') + 1 : NULL)
		if (*p != '/')
			return err_set(e, ERR_CONFIG,
				       "is neither " CONF_IN_CLUSTER " nor a path that begins with / (several: with : "
				       "between them)");
	return 0;
}

/* One DNS label (RFC 1123) of len bytes. */
static int check_label(const char *s, size_t len)
{
	if (len == 0 || len > LABEL_MAX || s[0] == '-' || s[len - 1] == '-')
		return ERR_CONFIG;
	for (size_t i = 0; i < len; i++)
		if (!strchr(LOWER DIGITS "-", s[i]))
			return ERR_CONFIG;
	return 0;
}

int conf_check_namespace(const char *value, struct err *e)
{
	if (*value && check_label(value, strlen(value)))
		return err_set(e, ERR_CONFIG, "is no namespace: 1 to %d of a to z, 0 to 9 and inner dashes are allowed",
			       LABEL_MAX);
	return 0;
}

int conf_check_cluster_name(const char *value, struct err *e)
{
	if (*value && check_label(value, strlen(value)))
		return err_set(e, ERR_CONFIG,
			       "is no name of a cluster: 1 to %d of a to z, 0 to 9 and inner dashes are allowed",
			       LABEL_MAX);
	return 0;
}

int conf_check_namespaces(const char *value, struct err *e)
{
	for (const char *s = value; *s;) {
		size_t n = strcspn(s, ",");

		if (check_label(s, n) || (s[n] == ',' && !s[n + 1]))
			return err_set(e, ERR_CONFIG, "is no list of namespaces, as in team-a,team-b");
		s += n + (s[n] == ',');
	}
	return 0;
}

/* Labels joined by dots. */
static int check_subdomain(const char *s, size_t len)
{
	if (len == 0 || len > SUBDOMAIN_MAX)
		return ERR_CONFIG;
	for (;;) {
		const char *dot = memchr(s, '.', len);
		size_t n = dot ? (size_t)(dot - s) : len;

		if (check_label(s, n))
			return ERR_CONFIG;
		if (!dot)
			return 0;
		s += n + 1;
		len -= n + 1;
	}
}

int conf_check_objects(const char *value, struct err *e)
{
	for (const char *s = value; *s;) {
		size_t n = strcspn(s, ",");

		if (check_subdomain(s, n) || (s[n] == ',' && !s[n + 1]))
			return err_set(e, ERR_CONFIG,
				       "is no list of names of objects in Kubernetes, as in models,team.certs");
		s += n + (s[n] == ',');
	}
	return 0;
}

int conf_check_object(const char *value, struct err *e)
{
	if (*value && check_subdomain(value, strlen(value)))
		return err_set(e, ERR_CONFIG,
			       "is no name of an object in Kubernetes: labels of a to z, 0 to 9 and inner dashes, "
			       "joined by dots");
	return 0;
}

int conf_check_image(const char *value, struct err *e)
{
	if (strspn(value, LABEL_CHARS "._-/:@") != strlen(value) || *value == '/' || *value == '-')
		return err_set(e, ERR_CONFIG, "is no image, as in registry.example/team/tools:1.2");
	return 0;
}

int conf_check_image_needed(const char *value, struct err *e)
{
	return *value ? conf_check_image(value, e) : err_set(e, ERR_CONFIG, "is empty: pods need an image");
}

/* resource.Quantity without exponents: 100m, 0.5, 2, 512Mi, 5Gi. */
int conf_check_quantity(const char *value, struct err *e)
{
	static const char *const units[] = {"", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"};
	const char *p = value;
	bool some = false;

	if (!*value)
		return 0;
	for (int part = 0; part < 2; part++) {
		size_t n = strspn(p, DIGITS);

		if (n == 0 || n > 15)
			goto wrong;
		some = some || strspn(p, "0") < n;
		p += n;
		if (part || *p != '.')
			break;
		p++;
	}
	for (size_t i = 0; some && i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(p, units[i]) == 0)
			return 0;
wrong:
	return err_set(e, ERR_CONFIG, "is \"%.64s\", not a quantity above 0 such as 100m, 2, 512Mi or 5Gi", value);
}

/* [A-Za-z0-9] at both ends, also -_. inside, at most 63. */
static int check_label_text(const char *s, size_t len)
{
	if (len == 0 || len > LABEL_MAX || !strchr(LABEL_CHARS, s[0]) || !strchr(LABEL_CHARS, s[len - 1]))
		return ERR_CONFIG;
	for (size_t i = 0; i < len; i++)
		if (!strchr(LABEL_CHARS "-_.", s[i]))
			return ERR_CONFIG;
	return 0;
}

int conf_check_label(const char *key, const char *value, struct err *e)
{
	const char *slash = strchr(key, '/'), *name = slash ? slash + 1 : key;

	if ((slash && check_subdomain(key, (size_t)(slash - key))) || check_label_text(name, strlen(name)))
		return err_set(e, ERR_CONFIG, "\"%.80s\" is no key of a label, as in team or example.org/team", key);
	if (strcmp(key, "agent_id") == 0 || strcmp(key, "compute_session_id") == 0 ||
	    (slash && strncmp(key, "muxd.", 5) == 0))
		return err_set(e, ERR_CONFIG, "label %.80s is muxd's own", key);
	if (*value && check_label_text(value, strlen(value)))
		return err_set(e, ERR_CONFIG,
			       "the value of label %.80s is wrong: up to %d letters, digits, and -_. inside", key,
			       LABEL_MAX);
	return 0;
}

int conf_label_add(struct conf *c, const char *key, const char *value)
{
	struct conf_label l = {.key = strdup(key), .value = strdup(value)};

	int rc = c->kubernetes_nlabels >= CONF_LABELS_MAX ? ERR_LIMIT : l.key && l.value ? 0 : ERR_NOMEM;

	if (rc == 0)
		rc = list_append(&c->kubernetes_labels, &c->kubernetes_nlabels, &l, sizeof(l));
	if (rc) {
		free(l.key);
		free(l.value);
	}
	return rc;
}

void conf_labels_clear(struct conf *c)
{
	for (size_t i = 0; i < c->kubernetes_nlabels; i++) {
		free(c->kubernetes_labels[i].key);
		free(c->kubernetes_labels[i].value);
	}
	free(c->kubernetes_labels);
	c->kubernetes_labels = NULL;
	c->kubernetes_nlabels = 0;
}

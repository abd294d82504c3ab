#include "control/kube/pods/claim.h"

#include "base/err.h"
#include "base/text.h"
#include "control/kube/pods/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const state_names[] = {"next", "restored", "current", "kept"};

const char *claim_state_name(enum claim_state s)
{
	return state_names[s];
}

/* A label that is unknown is of a later version: what it means is not guessed. */
static int read_state(const char *label, enum claim_state *out)
{
	if (!*label) {
		*out = CLAIM_CURRENT;
		return 0;
	}
	for (int i = CLAIM_NEXT; i <= CLAIM_KEPT; i++)
		if (strcmp(label, state_names[i]) == 0) {
			*out = (enum claim_state)i;
			return 0;
		}
	return ERR_K8S;
}

static int read_generation(const char *s, uint64_t *out)
{
	char *end;

	*out = 0;
	if (!*s)
		return 0;
	errno = 0;
	*out = strtoull(s, &end, 10);
	return *s >= '0' && *s <= '9' && !*end && !errno && *out < UINT32_MAX ? 0 : ERR_K8S;
}

static bool claim_fits(const char *s, size_t size)
{
	return *s && strlen(s) < size;
}

int claim_view(const json_t *claim, struct claim_view *out, struct err *e)
{
	const json_t *meta = json_object_get(claim, "metadata"), *notes = json_object_get(meta, "annotations");
	const char *phase = json_get_text(json_object_get(claim, "status"), "phase"),
		   *name = json_get_text(meta, "name");
	const char *from = json_get_text(notes, KUBE_ANNOTATION_SNAPSHOT);
	const char *volume = json_get_text(json_object_get(claim, "spec"), "volumeName");
	struct claim_view v = {0};

	if (!claim_fits(name, sizeof(v.name)) || !claim_fits(json_get_text(meta, "uid"), sizeof(v.uid)) ||
	    strlen(json_get_text(meta, "resourceVersion")) >= sizeof(v.version) ||
	    strlen(json_get_text(notes, KUBE_ANNOTATION_AGENT)) >= sizeof(v.agent) ||
	    strlen(volume) >= sizeof(v.volume))
		return err_set(e, ERR_K8S, "the API server's answer is no claim");
	text_put(v.name, sizeof(v.name), name);
	text_put(v.uid, sizeof(v.uid), json_get_text(meta, "uid"));
	text_put(v.version, sizeof(v.version), json_get_text(meta, "resourceVersion"));
	text_put(v.agent, sizeof(v.agent), json_get_text(notes, KUBE_ANNOTATION_AGENT));
	text_put(v.volume, sizeof(v.volume), volume);
	if (read_state(json_get_text(json_object_get(meta, "labels"), KUBE_LABEL_WORKSPACE), &v.state) ||
	    read_generation(json_get_text(notes, KUBE_ANNOTATION_GENERATION), &v.generation) ||
	    (*from && id_parse(from, &v.snapshot)))
		return err_set(e, ERR_K8S,
			       "claim %.100s has a label or annotation of muxd.dev that this version cannot read",
			       name);
	v.read_only = strcmp(json_get_text(notes, KUBE_ANNOTATION_READ_ONLY), "true") == 0;
	v.bound = strcmp(phase, "Bound") == 0;
	v.lost = strcmp(phase, "Lost") == 0;
	v.deleting = *json_get_text(meta, "deletionTimestamp");
	*out = v;
	return 0;
}

int claim_choose(const struct claim_view *all, size_t n, const struct claim_view **out, struct err *e)
{
	const struct claim_view *best = NULL, *other = NULL;

	for (size_t i = 0; i < n; i++) {
		const struct claim_view *c = &all[i];

		if (c->state == CLAIM_NEXT || c->state == CLAIM_KEPT || c->deleting)
			continue;
		if (!best || c->generation > best->generation) {
			best = c;
			other = NULL;
		} else if (c->generation == best->generation) {
			other = c;
		}
	}
	if (other)
		return err_set(e, ERR_K8S_CONFLICT,
			       "the claims %.100s and %.100s both say that they are the workspace of %.63s: delete the "
			       "one that is not",
			       best->name, other->name, best->agent);
	*out = best;
	return 0;
}

uint64_t claim_next_generation(const struct claim_view *all, size_t n)
{
	uint64_t most = 0;

	for (size_t i = 0; i < n; i++)
		most = all[i].generation > most ? all[i].generation : most;
	/* A claim without a number holds the first name. */
	return n && !most ? 2 : most + 1;
}

int claim_name(const char *base, uint64_t generation, const struct id *snapshot, char out[KUBE_OBJECT_MAX + 1])
{
	char id[ID_STR_LEN];
	int n;

	if (generation <= 1 && !snapshot) {
		n = snprintf(out, KUBE_OBJECT_MAX + 1, "%s", base);
	} else if (!snapshot) {
		n = snprintf(out, KUBE_OBJECT_MAX + 1, "%s.%llu", base, (unsigned long long)generation);
	} else {
		id_format(snapshot, id); /* its last digits: ids begin with the time, and look alike */
		n = snprintf(out, KUBE_OBJECT_MAX + 1, "%s.%llu-%s", base, (unsigned long long)generation,
			     id + strlen(id) - 8);
	}
	return n > 0 && n <= KUBE_OBJECT_MAX ? 0 : ERR_INVAL;
}

json_t *claim_patch(const struct claim_view *v, enum claim_state s)
{
	return json_pack("{s:{s:s,s:s,s:{s:s}}}", "metadata", "uid", v->uid, "resourceVersion", v->version, "labels",
			 KUBE_LABEL_WORKSPACE, state_names[s]);
}

/* ---- quantities */

/* Multiplier of a suffix as power of 2 or 10; milli and less are fractions, and round up to 1. */
static int suffix(const char *s, double *out)
{
	static const struct {
		const char *text;
		double by;
	} table[] = {{"", 1},
		     {"n", 1e-9},
		     {"u", 1e-6},
		     {"m", 1e-3},
		     {"k", 1e3},
		     {"M", 1e6},
		     {"G", 1e9},
		     {"T", 1e12},
		     {"P", 1e15},
		     {"E", 1e18},
		     {"Ki", 1024},
		     {"Mi", 1048576.0},
		     {"Gi", 1073741824.0},
		     {"Ti", 1099511627776.0},
		     {"Pi", 1125899906842624.0},
		     {"Ei", 1152921504606846976.0}};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strcmp(s, table[i].text) == 0) {
			*out = table[i].by;
			return 0;
		}
	return ERR_INVAL;
}

/* "e9", "E-3": at most two digits. */
static int exponent(const char *s, double *out)
{
	const char *p = s + 1;
	bool minus = *p == '-';
	size_t n;
	int power;

	p += *p == '-' || *p == '+';
	n = strspn(p, "0123456789");
	if (n == 0 || n > 2 || p[n])
		return ERR_INVAL;
	*out = 1;
	for (power = atoi(p); power > 0; power--)
		*out *= 10;
	*out = minus ? 1 / *out : *out;
	return 0;
}

int kube_quantity(const char *s, uint64_t *out)
{
	size_t whole = strspn(s, "0123456789"), part = 0, len;
	char digits[40];
	double by, value;
	const char *p = s + whole;
	uint64_t up;

	if (*p == '.')
		part = 1 + strspn(p + 1, "0123456789");
	len = whole + part;
	if (!whole || part == 1 || len >= sizeof(digits))
		return ERR_INVAL;
	p += part;
	if ((*p == 'e' || *p == 'E') && p[1] && p[1] != 'i' ? exponent(p, &by) : suffix(p, &by))
		return ERR_INVAL;
	text_format(digits, sizeof(digits), "%.*s", (int)len, s);
	if (!part && by == 1) { /* exact, however large */
		errno = 0;
		up = strtoull(digits, NULL, 10);
		if (errno)
			return ERR_TOO_LARGE;
		*out = up;
		return 0;
	}
	value = strtod(digits, NULL) * by;
	if (value >= 9223372036854775808.0)
		return ERR_TOO_LARGE;
	up = (uint64_t)value;
	*out = (double)up < value ? up + 1 : up;
	return 0;
}

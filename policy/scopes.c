/* Names of kinds and scopes: one table each, both ways. */
#include "base/err.h"
#include "policy/grant.h"

#include <stdio.h>
#include <string.h>

#define KNOWN_SCOPES "terminal, rounds, files, observe, drive, replay, lifecycle, admin, ports, grant"

static const char *const kind_names[] = {
    [GRANT_STAFF] = "staff",
    [GRANT_AGENT] = "agent",
    [GRANT_AUDITOR] = "auditor",
    [GRANT_SERVICE] = "service",
};
#define KIND_COUNT (sizeof kind_names / sizeof kind_names[0])

static const struct {
	uint32_t bit;
	const char *name;
} scope_names[] = {
    {SCOPE_TERMINAL, "terminal"}, {SCOPE_ROUNDS, "rounds"}, {SCOPE_FILES, "files"},         {SCOPE_OBSERVE, "observe"},
    {SCOPE_DRIVE, "drive"},       {SCOPE_REPLAY, "replay"}, {SCOPE_LIFECYCLE, "lifecycle"}, {SCOPE_ADMIN, "admin"},
    {SCOPE_PORTS, "ports"},       {SCOPE_GRANT, "grant"},
};
#define SCOPE_COUNT (sizeof scope_names / sizeof scope_names[0])

const char *grant_kind_name(enum grant_kind k)
{
	return (size_t)k < KIND_COUNT ? kind_names[k] : "unknown";
}

int grant_kind_parse(const char *s, enum grant_kind *out, struct err *e)
{
	for (size_t i = 0; i < KIND_COUNT; i++) {
		if (strcmp(s, kind_names[i]) == 0) {
			*out = (enum grant_kind)i;
			return 0;
		}
	}
	return err_set(e, ERR_INVAL, "kind '%.40s' is not known; there are staff, agent, auditor and service", s);
}

void grant_scopes_format(uint32_t scopes, char *out, size_t size)
{
	size_t used = 0;

	if (size == 0)
		return;
	out[0] = '\0';
	for (size_t i = 0; i < SCOPE_COUNT; i++) {
		size_t len = strlen(scope_names[i].name);

		if (!(scopes & scope_names[i].bit))
			continue;
		if (used + len + 2 > size)
			return;
		used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "," : "", scope_names[i].name);
	}
}

static uint32_t scope_find(const char *s, size_t len)
{
	for (size_t i = 0; i < SCOPE_COUNT; i++) {
		if (strlen(scope_names[i].name) == len && memcmp(scope_names[i].name, s, len) == 0)
			return scope_names[i].bit;
	}
	return 0;
}

int grant_scopes_parse(const char *s, uint32_t *out, struct err *e)
{
	uint32_t scopes = 0;

	if (*s == '\0')
		return err_set(e, ERR_INVAL, "scopes are empty; there are " KNOWN_SCOPES);
	for (;;) {
		size_t len = strcspn(s, ",");
		uint32_t bit = scope_find(s, len);

		if (!bit)
			return err_set(e, ERR_INVAL, "scope '%.*s' is not known; there are " KNOWN_SCOPES,
				       (int)(len < 40 ? len : 40), s);
		if (scopes & bit)
			return err_set(e, ERR_INVAL, "scope '%.*s' is named twice", (int)len, s);
		scopes |= bit;
		if (s[len] == '\0')
			break;
		s += len + 1;
	}
	*out = scopes;
	return 0;
}

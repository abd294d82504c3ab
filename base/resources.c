#include "base/resources.h"

#include "base/conf.h"
#include "base/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DIGITS     "0123456789"
#define PLACES_MAX 15 /* that a configured quantity may have (conf_check_quantity()) */

struct unit {
	const char *name;
	uint64_t times; /* thousandths */
};
static const struct unit units[] = {
    {"m", 1},
    {"", 1000},
    {"k", UINT64_C(1000000)},
    {"M", UINT64_C(1000000000)},
    {"G", UINT64_C(1000000000000)},
    {"T", UINT64_C(1000000000000000)},
    {"Ki", UINT64_C(1000) << 10},
    {"Mi", UINT64_C(1000) << 20},
    {"Gi", UINT64_C(1000) << 30},
    {"Ti", UINT64_C(1000) << 40},
};

/* Digits as a number, with that many places behind the point. */
static bool quantity_digits(const char *p, size_t n, uint64_t *io)
{
	for (size_t i = 0; i < n; i++)
		if (__builtin_mul_overflow(*io, 10, io) || __builtin_add_overflow(*io, (uint64_t)(p[i] - '0'), io))
			return false;
	return true;
}

/* In thousandths, rounded up: a limit that is there is never none. places: behind the point, at most. */
static bool quantity_parse(const char *text, size_t most, uint64_t *out)
{
	size_t whole = strspn(text, DIGITS), places = 0, n = strlen(text), used;
	const char *p = text + whole;
	uint64_t value = 0, parts = 1;
	bool more = false;

	if (!whole || whole > 15 || !quantity_digits(text, whole, &value))
		return false;
	if (*p == '.') {
		places = strspn(++p, DIGITS);
		used = places < 3 ? places : 3;
		if (!places || places > most || !quantity_digits(p, used, &value))
			return false;
		more = strspn(p + used, "0") < places - used;
		p += places;
		places = used;
	}
	if (n > 3 && strcmp(text + n - 2, "iB") == 0) /* sizes of the configuration are written so */
		n--;
	while (places--)
		parts *= 10;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strlen(units[i].name) == n - (size_t)(p - text) &&
		    strncmp(p, units[i].name, strlen(units[i].name)) == 0) {
			if (__builtin_add_overflow(value, more, &value) ||
			    __builtin_mul_overflow(value, units[i].times, &value))
				return false;
			*out = value / parts + (value % parts != 0);
			return true;
		}
	return false;
}

/* A text, or a whole number without a unit. */
static bool read_quantity(const json_t *v, uint64_t *out)
{
	char number[RESOURCES_TEXT];
	const char *text = json_string_value(v);

	if (json_is_integer(v) && json_integer_value(v) > 0) {
		snprintf(number, sizeof(number), "%" PRIu64, (uint64_t)json_integer_value(v));
		text = number;
	} else if (!text || strlen(text) != json_string_length(v)) {
		return false;
	}
	return quantity_parse(text, 3, out);
}

static int read_cpu(const json_t *o, struct resources *r, struct err *e)
{
	const json_t *v = json_object_get(o, "cpu");
	uint64_t milli = 0;

	if (!v)
		return 0;
	if (!read_quantity(v, &milli) || milli < RESOURCES_CPU_MIN || milli > RESOURCES_CPU_MAX)
		return err_set(e, ERR_INVAL, "resources.cpu is no quantity from 10m to 1024 processors, as 500m or 2");
	r->cpu_milli = (uint32_t)milli;
	return 0;
}

static int read_memory(const json_t *o, struct resources *r, struct err *e)
{
	const json_t *v = json_object_get(o, "memory");
	uint64_t milli = 0, bytes;

	if (!v)
		return 0;
	bytes = read_quantity(v, &milli) ? milli / 1000 + (milli % 1000 != 0) : 0;
	if (bytes < RESOURCES_MEMORY_MIN || bytes > RESOURCES_MEMORY_MAX)
		return err_set(e, ERR_INVAL, "resources.memory is no quantity from 16Mi to 16Ti, as 512Mi or 2G");
	r->memory = bytes;
	return 0;
}

int resources_read(const json_t *o, struct resources *out, struct err *e)
{
	static const char *const keys[] = {"cpu", "memory", "pids", NULL};
	struct resources r = {0};
	int64_t pids = 0;
	int rc = 0;

	if (json_is_object(o)) {
		rc = json_only_keys(o, keys, e);
		rc = rc ? rc : read_cpu(o, &r, e);
		rc = rc ? rc : read_memory(o, &r, e);
		rc = rc ? rc : json_opt_int(o, "pids", RESOURCES_PIDS_MIN, RESOURCES_PIDS_MAX, &pids, e);
	} else if (o && !json_is_null(o)) {
		rc = err_set(e, ERR_INVAL,
			     "resources is no object of cpu, memory and pids; null takes an agent's own away");
	}
	if (rc)
		return rc;
	r.pids = (uint32_t)pids;
	*out = r;
	return 0;
}

void resources_cpu_text(uint32_t milli, char out[RESOURCES_TEXT])
{
	if (milli % 1000)
		snprintf(out, RESOURCES_TEXT, "%" PRIu32 "m", milli);
	else
		snprintf(out, RESOURCES_TEXT, "%" PRIu32, milli / 1000);
}

void resources_memory_text(uint64_t bytes, char out[RESOURCES_TEXT])
{
	static const char *const names[] = {"", "Ki", "Mi", "Gi", "Ti"};
	size_t i = 0;

	while (i < 4 && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		i++;
	}
	snprintf(out, RESOURCES_TEXT, "%" PRIu64 "%s", bytes, names[i]);
}

json_t *resources_json(const struct resources *r)
{
	json_t *o = resources_none(r) ? json_null() : json_object();
	char text[RESOURCES_TEXT];

	if (r->cpu_milli) {
		resources_cpu_text(r->cpu_milli, text);
		json_object_set_new(o, "cpu", json_string(text));
	}
	if (r->memory) {
		resources_memory_text(r->memory, text);
		json_object_set_new(o, "memory", json_string(text));
	}
	if (r->pids)
		json_object_set_new(o, "pids", json_integer((json_int_t)r->pids));
	return o;
}

bool resources_none(const struct resources *r)
{
	return !r->memory && !r->cpu_milli && !r->pids;
}

bool resources_equal(const struct resources *a, const struct resources *b)
{
	return a->memory == b->memory && a->cpu_milli == b->cpu_milli && a->pids == b->pids;
}

struct resources resources_quantities(const char *cpu, const char *memory)
{
	uint64_t milli = 0, bytes = 0;

	/* A number that is too large for this is no limit. */
	if (cpu && *cpu && !quantity_parse(cpu, PLACES_MAX, &milli))
		milli = 0;
	if (memory && *memory && !quantity_parse(memory, PLACES_MAX, &bytes))
		bytes = 0;
	return (struct resources){bytes / 1000 + (bytes % 1000 != 0), milli > UINT32_MAX ? UINT32_MAX : (uint32_t)milli,
				  0};
}

void resources_most(const struct conf *c, struct resources *out)
{
	if (strcmp(c->sandbox_backend, "local") == 0)
		*out = (struct resources){c->memory_max, c->cpu_milli, c->pids_max};
	else
		*out = resources_quantities(c->kubernetes_limit_cpu, c->kubernetes_limit_memory);
}

static uint64_t less(uint64_t asked, uint64_t most)
{
	return !asked || (most && most < asked) ? most : asked;
}

struct resources resources_clip(const struct resources *asked, const struct resources *most)
{
	return (struct resources){less(asked->memory, most->memory), (uint32_t)less(asked->cpu_milli, most->cpu_milli),
				  (uint32_t)less(asked->pids, most->pids)};
}

json_t *resources_clipped(const struct resources *asked, const struct resources *most)
{
	json_t *list = json_array();

	if (most->cpu_milli && asked->cpu_milli > most->cpu_milli)
		json_array_append_new(list, json_string("cpu"));
	if (most->memory && asked->memory > most->memory)
		json_array_append_new(list, json_string("memory"));
	if (most->pids && asked->pids > most->pids)
		json_array_append_new(list, json_string("pids"));
	if (json_array_size(list))
		return list;
	json_decref(list);
	return json_null();
}

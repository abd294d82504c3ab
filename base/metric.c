#include "base/metric.h"

#include "base/buf.h"
#include "base/clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const double ends[METRIC_TIMES] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
					  0.5,   1,      2.5,   5,    10,    30,   120, 600};

void metric_times_add(struct metric_times *t, uint64_t duration_ns)
{
	double s = (double)duration_ns / (double)NS_PER_SEC;
	size_t b = 0;

	while (b < METRIC_TIMES && s > ends[b])
		b++;
	t->bucket[b]++;
	t->sum += s;
}

json_t *metric_family(json_t *list, const char *type, const char *name, const char *help)
{
	json_t *each, *f;
	size_t i;

	json_array_foreach(list, i, each)
	{
		const char *own = json_string_value(json_object_get(each, "name"));

		if (own && strcmp(own, name) == 0)
			return each;
	}
	f = json_pack("{s:s,s:s,s:s,s:[]}", "name", name, "help", help, "type", type, "samples");
	return f && json_array_append_new(list, f) == 0 ? f : NULL;
}

static void metric_add(json_t *family, const char *key, const char *label, json_t *sample)
{
	json_t *labels = json_object();

	if (key)
		json_object_set_new(labels, key, json_string(label));
	json_object_set_new(sample, "labels", labels);
	json_array_append_new(json_object_get(family, "samples"), sample);
}

void metric_value(json_t *family, const char *key, const char *label, double value)
{
	metric_add(family, key, label, json_pack("{s:f}", "value", value));
}

void metric_times_value(json_t *family, const char *key, const char *label, const struct metric_times *t)
{
	json_t *buckets = json_array();
	uint64_t n = 0;

	for (size_t b = 0; b < METRIC_TIMES; b++) {
		n += t->bucket[b];
		json_array_append_new(buckets, json_pack("[f,I]", ends[b], (json_int_t)n));
	}
	n += t->bucket[METRIC_TIMES];
	metric_add(family, key, label,
		   json_pack("{s:o,s:f,s:I}", "buckets", buckets, "sum", t->sum, "count", (json_int_t)n));
}

/* ---- text */

static int escaped(struct buf *out, const char *s, bool quotes)
{
	int rc = 0;

	for (; rc == 0 && *s; s++) {
		if (*s == '\\' || (quotes && *s == '"'))
			rc = buf_printf(out, "\\%c", *s);
		else if (*s == '\n')
			rc = buf_append_str(out, "\\n");
		else
			rc = buf_append(out, s, 1);
	}
	return rc;
}

/* NAME{key="value",le="..."} */
static int series(struct buf *out, const char *name, const char *suffix, const json_t *labels, const char *le)
{
	const char *key, *between = "{";
	json_t *value;
	int rc = buf_printf(out, "%s%s", name, suffix);

	json_object_foreach((json_t *)(uintptr_t)labels, key, value)
	{
		if (rc == 0)
			rc = buf_printf(out, "%s%s=\"", between, key);
		if (rc == 0)
			rc = escaped(out, json_is_string(value) ? json_string_value(value) : "", true);
		if (rc == 0)
			rc = buf_append_str(out, "\"");
		between = ",";
	}
	if (rc == 0 && le)
		rc = buf_printf(out, "%sle=\"%s\"", between, le), between = ",";
	if (rc == 0 && *between == ',')
		rc = buf_append_str(out, "}");
	return rc;
}

/* Whole numbers as such, the rest as short as it goes without loss; whatever the locale. */
static void number_text(const json_t *v, char *out, size_t size)
{
	double d = json_number_value(v);

	if (json_is_integer(v) || (d > -1e15 && d < 1e15 && d == (double)(long long)d))
		snprintf(out, size, "%lld", json_is_integer(v) ? json_integer_value(v) : (long long)d);
	else
		snprintf(out, size, "%.9g", d);
	for (char *c = out; *c; c++)
		*c = *c == ',' ? '.' : *c;
}

static int line(struct buf *out, const char *name, const char *suffix, const json_t *sample, const char *le,
		const json_t *value)
{
	char text[40];
	int rc = series(out, name, suffix, json_object_get(sample, "labels"), le);

	number_text(value, text, sizeof(text));
	return rc ? rc : buf_printf(out, " %s\n", text);
}

static int histogram(struct buf *out, const char *name, const json_t *sample)
{
	const json_t *bucket;
	char le[40];
	size_t i;
	int rc = 0;

	json_array_foreach(json_object_get(sample, "buckets"), i, bucket)
	{
		number_text(json_array_get(bucket, 0), le, sizeof(le));
		if (rc == 0)
			rc = line(out, name, "_bucket", sample, le, json_array_get(bucket, 1));
	}
	if (rc == 0)
		rc = line(out, name, "_bucket", sample, "+Inf", json_object_get(sample, "count"));
	if (rc == 0)
		rc = line(out, name, "_sum", sample, NULL, json_object_get(sample, "sum"));
	return rc ? rc : line(out, name, "_count", sample, NULL, json_object_get(sample, "count"));
}

static int family(struct buf *out, const json_t *f)
{
	const char *name = json_string_value(json_object_get(f, "name"));
	const char *type = json_string_value(json_object_get(f, "type"));
	const char *help = json_string_value(json_object_get(f, "help"));
	const json_t *sample;
	size_t i;
	int rc;

	if (!name || !type || !help)
		return 0;
	rc = buf_printf(out, "# HELP %s ", name);
	if (rc == 0)
		rc = escaped(out, help, false);
	if (rc == 0)
		rc = buf_printf(out, "\n# TYPE %s %s\n", name, type);
	json_array_foreach(json_object_get(f, "samples"), i, sample)
	{
		if (rc == 0 && json_object_get(sample, "buckets"))
			rc = histogram(out, name, sample);
		else if (rc == 0)
			rc = line(out, name, "", sample, NULL, json_object_get(sample, "value"));
	}
	return rc;
}

int metric_render(const json_t *list, struct buf *out)
{
	const json_t *f;
	size_t i;
	int rc = 0;

	json_array_foreach(list, i, f)
	{
		if (rc == 0)
			rc = family(out, f);
	}
	return rc;
}

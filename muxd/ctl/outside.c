#include "muxd/ctl/outside.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/slurp.h"
#include "muxd/witness/https.h"
#include "recorder/format/recording.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_MAX   (64 * 1024)
#define HEADS_MAX  (1024 * 1024)
#define LINE_BYTES (16 * 1024)
#define CA_MAX     (256 * 1024)
#define TIMEOUT_NS (30 * NS_PER_SEC)

static int outside_add(struct outside *o, const struct chain_head *h, const char *from, struct err *e)
{
	struct verify_outside *grown;
	char *copy;

	if (o->n >= HEADS_MAX)
		return err_set(e, ERR_TOO_LARGE, "more than %d heads from outside", HEADS_MAX);
	grown = realloc(o->heads, (o->n + 1) * sizeof *grown);
	if (grown)
		o->heads = grown;
	copy = grown ? strdup(from) : NULL;
	if (!copy)
		return err_set(e, ERR_NOMEM, "no memory for heads");
	o->heads[o->n++] = (struct verify_outside){.head = *h, .from = copy};
	return 0;
}

static int outside_load(const char *path, struct chain_head *out, struct err *e)
{
	char text[HEAD_MAX];
	FILE *f = fopen(path, "re");

	if (!f)
		return err_sys(e, errno, "open %s", path);
	size_t n = fread(text, 1, sizeof(text), f);
	bool bad = ferror(f) || n == sizeof(text);
	fclose(f);
	if (bad)
		return err_set(e, ERR_INVAL, "%s is not an exported head", path);
	return chain_head_import(text, n, out, e);
}

int outside_expected(struct outside *o, const struct ctl_args *a, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < a->nvalues; i++) {
		struct chain_head h;

		if (strcmp(a->values[i].name, "expect-head") != 0)
			continue;
		rc = outside_load(a->values[i].value, &h, e);
		if (rc == 0)
			rc = outside_add(o, &h, a->values[i].value, e);
	}
	return rc;
}

/* ---- heads that a witness keeps: a file of lines with JSON, a syslog server's log too, or another muxd over HTTPS */

struct witness_heads {
	struct outside *to;
	const struct id *log_id; /* of the record; NULL: it has none */
	const char *from;
	struct chain_head last; /* of whatever log */
	size_t seen, added;
	bool unasked;
};

/* A witness may keep the heads of several logs: those of this one count. What is no head is passed over. */
static int outside_witness_take(struct witness_heads *w, const json_t *o, struct err *e)
{
	char *text = json_text(o);
	int rc = text && chain_head_import(text, strlen(text), &w->last, NULL) == 0;

	free(text);
	if (!rc)
		return 0;
	w->seen++;
	if (w->log_id && !id_equal(w->log_id, &w->last.log_id))
		return 0;
	w->added++;
	return outside_add(w->to, &w->last, w->from, e);
}

/* The object of a line, behind what a syslog server puts before a message. NULL: none. */
static json_t *object_of(const char *line)
{
	const char *from = strchr(line, '{'), *to = strrchr(line, '}');
	json_t *o = NULL;

	if (from && to > from)
		(void)json_parse(from, (size_t)(to - from) + 1, LINE_BYTES, &o, NULL);
	return o;
}

static int from_file(struct witness_heads *w, struct err *e)
{
	FILE *f = fopen(w->from, "re");
	char line[LINE_BYTES];
	int rc = 0;

	if (!f)
		return err_sys(e, errno, "open %s", w->from);
	while (rc == 0 && fgets(line, sizeof line, f)) {
		json_t *o = object_of(line);
		if (o)
			rc = outside_witness_take(w, o, e);
		json_decref(o);
	}
	if (rc == 0 && ferror(f))
		rc = err_sys(e, errno, "read %s", w->from);
	fclose(f);
	return rc;
}

/* A refused export counts as well: it bears the record's key, so the log has it or there are two logs. */
static int from_answer(struct witness_heads *w, long status, const json_t *answer, struct err *e)
{
	const json_t *each;
	size_t i;
	int rc = 0;

	if (status != 200 || !json_is_array(json_object_get(answer, "heads")))
		return err_set(e, ERR_UNAVAILABLE, "%s answered %ld and no heads", w->from, status);
	json_array_foreach(json_object_get(answer, "heads"), i, each)
	{
		if (rc == 0)
			rc = outside_witness_take(w, json_object_get(each, "head"), e);
	}
	return rc;
}

static int from_url(struct witness_heads *w, const char *ca_file, struct err *e)
{
	char url[1024], id[ID_STR_LEN], *ca = NULL;
	const char *slash = w->from[strlen(w->from) - 1] == '/' ? "" : "/";
	struct https_call call = {.url = url, .timeout_ns = TIMEOUT_NS};
	json_t *answer = NULL;
	size_t len = 0;
	long status = 0;
	int rc = 0;

	/* The verdict tells faults of the log, so it must hear of them. */
	if (!w->log_id) {
		w->unasked = true;
		fprintf(stderr, "muxctl: %s is not asked: nothing in the record tells the id of its log\n", w->from);
		return 0;
	}
	if (ca_file)
		rc = slurp_operand(ca_file, CA_MAX, &ca, &len, e);
	if (rc == 0) {
		id_format(w->log_id, id);
		if ((size_t)snprintf(url, sizeof url, "%s%sv1/witness/heads?log_id=%s&limit=500", w->from, slash, id) >=
		    sizeof url)
			rc = err_set(e, ERR_INVAL, "the URL of the witness is too long");
	}
	call.ca = ca;
	if (rc == 0)
		rc = https_setup(e);
	if (rc == 0)
		rc = https_do(&call, &status, &answer, e);
	if (rc == 0)
		rc = from_answer(w, status, answer, e);
	json_decref(answer);
	slurp_free(ca, len);
	return rc;
}

static int outside_witness_one(struct outside *o, const char *from, const char *ca, const struct id *log_id,
			       struct err *e)
{
	struct witness_heads w = {.to = o, .log_id = log_id, .from = from};
	int rc = strncmp(from, "https://", 8) == 0 ? from_url(&w, ca, e) : from_file(&w, e);

	if (rc || w.unasked)
		return rc;
	if (!w.seen)
		rc = err_set(e, ERR_NOT_FOUND, "%s keeps no head", from);
	/* All of another log: that is for the verdict to say. */
	return rc || w.added ? rc : outside_add(o, &w.last, from, e);
}

static bool log_of_recording(const char *path, struct id *out)
{
	struct recording *r = NULL;
	struct err ignored;

	if (recording_open(path, &r, &ignored))
		return false;
	bool sealed = recording_info(r)->sealed;

	if (sealed)
		*out = recording_info(r)->log_id;
	recording_close(r);
	return sealed;
}

static int outside_witness_shown(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

static void free_names(struct dirent **list, int n)
{
	for (int i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

/* Without a log that can be read each sealed recording still names the one that it belongs to. */
static bool log_of_recordings(const char *record, struct id *out)
{
	char folder[PATH_MAX], path[PATH_MAX];
	struct dirent **days = NULL, **files = NULL;
	bool known = false;

	if ((size_t)snprintf(folder, sizeof folder, "%s/sealed", record) >= sizeof folder)
		return false;
	int ndays = scandir(folder, &days, outside_witness_shown, alphasort);
	for (int d = ndays - 1; !known && d >= 0; d--) {
		if ((size_t)snprintf(folder, sizeof folder, "%s/sealed/%s", record, days[d]->d_name) >= sizeof folder)
			continue;
		int nfiles = scandir(folder, &files, outside_witness_shown, alphasort);
		for (int f = 0; !known && f < nfiles; f++)
			known = (size_t)snprintf(path, sizeof path, "%s/%s", folder, files[f]->d_name) < sizeof path &&
				log_of_recording(path, out);
		if (nfiles >= 0)
			free_names(files, nfiles);
	}
	if (ndays >= 0)
		free_names(days, ndays);
	return known;
}

int outside_witnesses(struct outside *o, const struct ctl_args *a, const char *record, struct err *e)
{
	struct chain_reader *r = NULL;
	struct err ignored;
	struct id log_id;
	bool known = false;
	int rc = 0;

	if (!args_has(a, "witness"))
		return 0;
	if (chain_reader_create(record, 0, &r, &ignored) == 0) {
		struct chain_entry en;

		known = chain_reader_next(r, &en, &ignored) == 1; /* the id is read with the first entry */
		log_id = *chain_reader_log_id(r);
		chain_reader_destroy(r);
	}
	known = known || log_of_recordings(record, &log_id);
	for (size_t i = 0; rc == 0 && i < a->nvalues; i++)
		if (strcmp(a->values[i].name, "witness") == 0)
			rc = outside_witness_one(o, a->values[i].value, args_get(a, "witness-ca"),
						 known ? &log_id : NULL, e);
	return rc;
}

void outside_finish(struct outside *o)
{
	for (size_t i = 0; i < o->n; i++)
		free((char *)o->heads[i].from);
	free(o->heads);
	*o = (struct outside){NULL, 0};
}

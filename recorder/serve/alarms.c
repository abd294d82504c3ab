#include "recorder/serve/alarms.h"

#include "base/err.h"
#include "base/text.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define ALARMS_MAX 16

struct alarm {
	char code[40], message[400], hint[400];
};

struct alarms {
	pthread_mutex_t lock;
	struct alarm list[ALARMS_MAX];
	size_t n;
	bool changed;
};

int alarms_create(struct alarms **out)
{
	struct alarms *a = calloc(1, sizeof *a);

	if (!a)
		return ERR_NOMEM;
	pthread_mutex_init(&a->lock, NULL);
	*out = a;
	return 0;
}

void alarms_destroy(struct alarms *a)
{
	if (!a)
		return;
	pthread_mutex_destroy(&a->lock);
	free(a);
}

static struct alarm *alarms_find(struct alarms *a, const char *code)
{
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->list[i].code, code) == 0)
			return &a->list[i];
	return NULL;
}

void alarms_set(struct alarms *a, const char *code, const char *hint, const char *fmt, ...)
{
	struct alarm in = {"", "", ""}, *at;
	va_list ap;

	if (!a)
		return;
	text_put(in.code, sizeof in.code, code);
	text_put(in.hint, sizeof in.hint, hint);
	va_start(ap, fmt);
	text_vformat(in.message, sizeof in.message, fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&a->lock);
	at = alarms_find(a, in.code);
	if (!at && a->n < ALARMS_MAX)
		at = &a->list[a->n++];
	if (at && memcmp(at, &in, sizeof in) != 0) {
		*at = in;
		a->changed = true;
	}
	pthread_mutex_unlock(&a->lock);
}

void alarms_clear(struct alarms *a, const char *code)
{
	struct alarm *at;

	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	at = alarms_find(a, code);
	if (at) {
		*at = a->list[--a->n];
		a->changed = true;
	}
	pthread_mutex_unlock(&a->lock);
}

json_t *alarms_changed(struct alarms *a)
{
	json_t *list = NULL;

	pthread_mutex_lock(&a->lock);
	if (a->changed)
		list = json_array();
	for (size_t i = 0; list && i < a->n; i++)
		json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "code", a->list[i].code, "message",
						      a->list[i].message, "hint", a->list[i].hint));
	a->changed = a->changed && !list; /* without memory: again at the next call */
	pthread_mutex_unlock(&a->lock);
	return list;
}

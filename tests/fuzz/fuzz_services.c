// tier: check
/*
 * The list that configures services, settings of an agent, and what a service answers to the look at its health: all
 * are strangers'. A list that is taken is taken again as it is, and each of its entries is read; a status is one of
 * HTTP's, whatever follows.
 */
#include "base/err.h"
#include "control/servers/service_def.h"
#include "control/servers/settings_def.h"
#include "muxd/muxlet/probe_status.c"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_entries(const json_t *list)
{
	struct service_def d;
	size_t i;
	json_t *v;

	json_array_foreach(list, i, v)
	{
		if (service_def_read(v, &d, NULL) || !*d.name || !json_array_size(d.argv) ||
		    d.backoff_ms > d.backoff_max_ms || d.attempts < 1 || !service_restart_name(d.restart))
			abort();
		if (d.path && (d.path[0] != '/' || strpbrk(d.path, " \r\n") || !d.port))
			abort();
	}
}

static void check_list(const uint8_t *data, size_t size)
{
	json_t *list = NULL, *taken = NULL, *again = NULL;
	struct err e = {0};

	if (json_parse(data, size, PROGRAM_LIST_MAX, &list, NULL))
		return;
	if (service_list_check(list, &taken, &e) == 0) {
		check_entries(taken);
		if (service_list_check(taken, &again, &e) || !json_equal(taken, again))
			abort();
	} else if (!e.code || !e.message[0]) {
		abort();
	}
	json_decref(again);
	json_decref(taken);
	json_decref(list);
}

/* A change that is taken makes settings that are taken, and made again by it they are the same. */
static void check_settings(const uint8_t *data, size_t size)
{
	json_t *change = NULL, *once, *twice;
	struct err e = {0};

	if (json_parse(data, size, PROGRAM_LIST_MAX, &change, NULL))
		return;
	if (json_is_object(change) && settings_check(change, &e) == 0) {
		once = settings_merge(NULL, change);
		twice = settings_merge(once, change);
		if (!once || !twice || settings_check(once, &e) || !json_equal(once, twice))
			abort();
		json_decref(once);
		json_decref(twice);
	}
	json_decref(change);
}

static void check_status(const char *p, size_t n)
{
	char *whole = malloc(n + 1);
	int status;

	if (!whole)
		return;
	memcpy(whole, p, n);
	status = probe_status(whole, n);
	if (status && (status < 100 || status > 599 || memcmp(whole, "HTTP/1.", 7) != 0))
		abort();
	free(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_list(data, size);
	check_settings(data, size);
	check_status((const char *)data, size);
	return 0;
}

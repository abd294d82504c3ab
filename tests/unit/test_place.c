// tier: check
/* Where a sandbox is to be: what this daemon serves is taken, anything else refused by name, and every one is told. */
#include "base/conf.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/core/hub_state.h"
#include "muxd/hub/core/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct hub *hub_of(const char *backend, const char *cluster, const char *ns)
{
	struct hub *h = calloc(1, sizeof(*h));

	assert_non_null(h);
	assert_int_equal(conf_create(&h->conf), 0);
	free(h->conf->sandbox_backend);
	free(h->conf->kubernetes_cluster_name);
	h->conf->sandbox_backend = strdup(backend);
	h->conf->kubernetes_cluster_name = strdup(cluster);
	text_put(h->p.cluster_namespace, sizeof(h->p.cluster_namespace), ns);
	return h;
}

static void hub_end(struct hub *h)
{
	conf_destroy(h->conf);
	free(h);
}

static void what_is_served_is_taken(void **state)
{
	static const struct {
		const char *backend, *named, *agent;
		struct place asked;
		int rc;
		const char *says;
	} rows[] = {
	    {"kubernetes", "staging", "demo", {"", ""}, 0, NULL},
	    {"kubernetes", "staging", "demo", {"staging", ""}, 0, NULL},
	    {"kubernetes", "staging", "demo", {"", "agents"}, 0, NULL},
	    {"kubernetes", "staging", "demo", {"staging", "agents"}, 0, NULL},
	    {"kubernetes", "", "demo", {"", "agents"}, 0, NULL},
	    {"kubernetes",
	     "staging",
	     "demo",
	     {"prod", ""},
	     ERR_UNSUPPORTED,
	     "no prod here: this daemon serves staging"},
	    {"kubernetes", "staging", "demo", {"prod", "agents"}, ERR_UNSUPPORTED, "cluster: "},
	    {"kubernetes", "staging", "demo", {"staging", "other"}, ERR_UNSUPPORTED, "in other, but in agents"},
	    {"kubernetes", "staging", "demo", {"", "agents-2"}, ERR_UNSUPPORTED, "namespace: "},
	    {"kubernetes", "", "demo", {"staging", ""}, ERR_UNSUPPORTED, "kubernetes.cluster_name"},
	    {"kubernetes", "staging", "agents/pod", {"", "agents"}, ERR_INVAL, "namespace: agents/pod is a pod"},
	    {"kubernetes", "staging", "agents/pod/c", {"staging", ""}, ERR_INVAL, "cluster: agents/pod/c is a pod"},
	    {"kubernetes", "staging", "agents/pod", {"", ""}, 0, NULL},
	    {"local", "staging", "demo", {"staging", ""}, ERR_UNSUPPORTED, "cluster: there is no staging here"},
	    {"local", "staging", "demo", {"", "agents"}, ERR_UNSUPPORTED, "namespace: there is no agents here"},
	    {"local", "", "demo", {"", "default"}, ERR_UNSUPPORTED, "sandbox.backend"},
	    {"local", "", "demo", {"", ""}, 0, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct hub *h = hub_of(rows[i].backend, rows[i].named, "agents");
		struct err e = {0};
		int rc = place_check(h, rows[i].agent, &rows[i].asked, &e);

		if (rc != rows[i].rc || (rc && !strstr(e.message, rows[i].says)))
			fail_msg("row %zu: %s, %s", i, err_name(rc), e.message);
		hub_end(h);
	}
}

static void every_one_is_told(void **state)
{
	static const struct {
		const char *backend, *named, *agent, *app, *wanted;
	} rows[] = {
	    {"kubernetes", "staging", "demo", "billing",
	     "{\"app_id\":\"billing\",\"cluster\":\"staging\",\"name\":\"demo\",\"namespace\":\"agents\"}"},
	    {"kubernetes", "", "demo", "",
	     "{\"app_id\":null,\"cluster\":null,\"name\":\"demo\",\"namespace\":\"agents\"}"},
	    {"local", "staging", "demo", NULL,
	     "{\"app_id\":null,\"cluster\":null,\"name\":\"demo\",\"namespace\":null}"},
	    {"local", "staging", "team/pod/c", NULL,
	     "{\"app_id\":null,\"cluster\":\"staging\",\"name\":\"team/pod/c\",\"namespace\":\"team\"}"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct hub *h = hub_of(rows[i].backend, rows[i].named, "agents");
		json_t *o = place_reference(h, rows[i].agent, rows[i].app);
		char *text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);

		assert_string_equal(text, rows[i].wanted);
		free(text);
		json_decref(o);
		hub_end(h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_served_is_taken),
	    cmocka_unit_test(every_one_is_told),
	};

	return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}

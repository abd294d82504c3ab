// tier: check
/* A sandbox's word about its workspace is not believed beyond the form, and a missing word is told so. */
#include "tests/lib/hub_rig.h"

#include "muxd/hub/agent/survey.c"

#define CHANNEL 7777

static struct hub_rig *rig;
static struct agent *agent;
static struct hub_client client;

static int begin(void **state)
{
	(void)state;
	rig = hub_rig_create(NULL);
	hub_open(rig, &client, SESSION_EXEC, "read x");
	agent = agent_find(rig->hub, "box");
	assert_non_null(agent);
	assert_null(agent->survey); /* files.changes: false */
	rig->hub->conf->file_changes = true;
	assert_non_null(survey_get(agent));
	return 0;
}

static int end(void **state)
{
	(void)state;
	attachment_detach(client.a);
	buf_finish(&client.got);
	memset(&client, 0, sizeof(client));
	hub_rig_destroy(rig);
	return 0;
}

/* A look of which the test is the sandbox. */
static void looks(void)
{
	struct survey *v = agent->survey;

	v->off = v->again = v->failed = false;
	v->named = json_array();
	name_running(agent);
	v->look++;
	v->channel = CHANNEL;
	survey_set_state(agent, SURVEY_LOOKING);
}

static void says(const char *text, size_t n)
{
	struct link_exit x = {.cause = EXIT_EXITED};

	looks();
	assert_true(survey_said(agent, CHANNEL, (const uint8_t *)text, n));
	if (agent->survey->channel)
		assert_true(survey_exited(agent, CHANNEL, &x));
	hub_turns(rig, 20);
}

static const json_t *newest(void)
{
	const json_t *o, *found = NULL;
	size_t i;

	json_array_foreach(rig->audit, i, o) if (strcmp(json_get_text(o, "event"), EVENT) == 0) found = o;
	return found;
}

static void a_workspace_that_is_everything_is_told_once(void **state)
{
	(void)state;
	looks();
	assert_true(survey_exited(agent, CHANNEL, &(struct link_exit){.cause = EXIT_EXITED, .code = EOPNOTSUPP}));
	assert_true(hub_until(rig, hub_audited(rig, EVENT) == 1));
	assert_string_equal(json_get_text(newest(), "outcome"), "unsupported");
	survey_session_ended(client.s);
	assert_int_equal(agent->survey->state, SURVEY_IDLE);
}

static void what_is_no_answer_is_told_once(void **state)
{
	static const char *const bad[] = {"", "{", "[]", "\"x\"", "{} {}", "\xff"};
	unsigned before;

	(void)state;
	before = (unsigned)hub_audited(rig, EVENT);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		says(bad[i], strlen(bad[i]));
		assert_true(hub_until(rig, hub_audited(rig, EVENT) == before + i + 1));
		assert_string_equal(json_get_text(newest(), "outcome"), "error");
		assert_int_equal(agent->survey->state, SURVEY_DUE); /* it is looked again, later */
		assert_null(agent->survey->named);
		agent->survey->state = SURVEY_IDLE;
	}
	looks();
	agent->survey->failed = true; /* as behind a first one */
	assert_true(survey_exited(agent, CHANNEL, &(struct link_exit){.cause = EXIT_KILLED, .code = -1}));
	hub_turns(rig, 20);
	assert_int_equal(hub_audited(rig, EVENT), before + sizeof(bad) / sizeof(bad[0]));
}

static void an_answer_without_an_end_is_cut(void **state)
{
	static char much[ANSWER_MAX + 2];

	(void)state;
	memset(much, ' ', sizeof(much));
	says(much, sizeof(much));
	assert_true(hub_until(rig, newest() && strcmp(json_get_text(newest(), "outcome"), "error") == 0));
	assert_int_equal(agent->survey->channel, 0);
	assert_int_equal(buf_len(&agent->survey->answer), 0);
}

static void only_what_has_the_form_is_told(void **state)
{
	static const char text[] =
	    "{\"created\":2,\"changed\":\"many\",\"deleted\":null,\"left_out\":1e3,\"baseline\":\"yes\",\"evil\":[1],"
	    "\"entries\":[{\"how\":\"created\",\"path\":\"a\\u0007b\",\"type\":\"file\",\"size\":3,\"owner\":\"root\"},"
	    "{\"how\":\"created\"},{\"path\":\"x\"},7,null,[],{\"how\":[],\"path\":\"x\"},"
	    "{\"how\":\"deleted\",\"path\":{\"base64\":\"/w==\",\"more\":1},\"size\":\"big\"}]}";
	const json_t *detail, *list;

	(void)state;
	says(text, sizeof(text) - 1);
	assert_true(hub_until(rig, newest() && strcmp(json_get_text(newest(), "outcome"), "ok") == 0));
	detail = json_object_get(newest(), "detail");
	list = json_object_get(detail, "entries");
	assert_int_equal(json_array_size(list), 2);
	assert_null(json_object_get(json_array_get(list, 0), "owner"));
	assert_int_equal(json_object_size(json_object_get(json_array_get(list, 1), "path")), 1);
	assert_null(json_object_get(json_array_get(list, 1), "size"));
	assert_null(json_object_get(detail, "evil"));
	assert_int_equal(json_integer_value(json_object_get(detail, "created")), 2);
	assert_int_equal(json_integer_value(json_object_get(detail, "changed")), 0);
	assert_true(json_is_false(json_object_get(detail, "baseline")));
	assert_string_equal(json_get_text(json_array_get(json_object_get(detail, "sessions"), 0), "session"),
			    client.s->id_text);
	assert_string_equal(json_get_text(newest(), "session"), client.s->id_text);
}

/* More than one record of the ring holds: in parts, and none is lost. */
static void much_is_told_in_parts(void **state)
{
	struct buf b;
	size_t entries = 0, i;
	const json_t *o;

	(void)state;
	buf_init(&b, ANSWER_MAX);
	assert_int_equal(buf_append_str(&b, "{\"created\":3000,\"entries\":["), 0);
	for (int k = 0; k < 3000; k++)
		assert_int_equal(buf_printf(&b, "%s{\"how\":\"created\",\"path\":\"%0200d\"}", k ? "," : "", k), 0);
	assert_int_equal(buf_append_str(&b, ",{\"how\":\"created\",\"path\":\""), 0);
	for (int k = 0; k < PATH_SAID + 1; k++) /* no path is that long: left out, and nothing waits for it */
		assert_int_equal(buf_append_str(&b, "x"), 0);
	assert_int_equal(buf_append_str(&b, "\"}]}"), 0);
	says((const char *)buf_ptr(&b), buf_len(&b));
	buf_finish(&b);
	assert_true(hub_until(rig, agent->survey->state != SURVEY_TELLING));
	hub_turns(rig, 50);
	json_array_foreach(rig->audit, i, o) entries +=
	    json_array_size(json_object_get(json_object_get(o, "detail"), "entries"));
	assert_int_equal(entries, 3000);
	assert_true(json_integer_value(json_object_get(json_object_get(newest(), "detail"), "part")) > 5);
}

static void what_was_not_looked_at_is_told_so(void **state)
{
	(void)state;
	agent->survey->off = false;
	survey_session_ended(client.s);
	assert_int_equal(agent->survey->state, SURVEY_DUE);
	survey_gone(agent, "it was wiped");
	assert_true(hub_until(rig, newest() && strcmp(json_get_text(newest(), "outcome"), "lost") == 0));
	assert_string_equal(json_get_text(json_object_get(newest(), "detail"), "message"), "it was wiped");
	assert_null(agent->survey);
}

/* Over plain exec nobody looks: nothing was promised, and nothing is lost. */
static void where_nobody_looks_nothing_is_lost(void **state)
{
	unsigned before = hub_audited(rig, EVENT);

	(void)state;
	survey_destroy(agent);
	agent->info.backend = SANDBOX_PLAIN;
	survey_session_ended(client.s);
	assert_null(agent->survey);
	survey_gone(agent, "its pod ended");
	hub_turns(rig, 20);
	assert_int_equal(hub_audited(rig, EVENT), before);
	agent->info.backend = SANDBOX_LOCAL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_workspace_that_is_everything_is_told_once, begin, end),
	    cmocka_unit_test_setup_teardown(what_is_no_answer_is_told_once, begin, end),
	    cmocka_unit_test_setup_teardown(an_answer_without_an_end_is_cut, begin, end),
	    cmocka_unit_test_setup_teardown(only_what_has_the_form_is_told, begin, end),
	    cmocka_unit_test_setup_teardown(much_is_told_in_parts, begin, end),
	    cmocka_unit_test_setup_teardown(what_was_not_looked_at_is_told_so, begin, end),
	    cmocka_unit_test_setup_teardown(where_nobody_looks_nothing_is_lost, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// tier: check
/* Policies: what a file says of calls, which files are refused and where, and what a denial tells. */
#include "base/conf.h"
#include "base/conf_table.h"
#include "base/err.h"
#include "base/record_rule.h"
#include "policy/call.h"
#include "policy/grant_narrow.h"
#include "policy/profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAD "policy: 1\notherwise: deny\nprofiles:\n"
#define ONE  HEAD "- name: a\n  match: {task: x}\n"

#define FIXTURES "tests/fixtures/policy/"

static struct policy *policy_of(const char *text)
{
	struct policy *p = NULL;
	struct err e = {0};

	if (policy_parse(text, strlen(text), "p", &p, &e))
		fail_msg("%s", e.message);
	return p;
}

static char *slurp(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = calloc(1, 1 << 20);

	assert_non_null(f);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
	fclose(f);
	return text;
}

/* ---- the table of cases */

static bool would(const struct policy *p, struct policy_question q)
{
	q.rounds = q.sessions = q.contexts = 1;
	q.timeout_ns = 1;
	return policy_verdict(p, &q).allowed;
}

/* An interpreter is a context whatever begins it, and who comes back to what runs begins nothing. */
static void numbers_limit_what_begins(void **state)
{
	struct policy *p =
	    policy_of("policy: 1\notherwise: deny\nprofiles:\n- name: a\n  match: {kind: staff}\n"
		      "  allow: [context.*, terminal.open]\n  limits: {rounds: 1, sessions: 1, contexts: 1}\n");

	(void)state;
	assert_false(would(p, (struct policy_question){.op = POLICY_CONTEXT_CREATE}));
	assert_false(would(p, (struct policy_question){.op = POLICY_CONTEXT_EXECUTE}));
	assert_false(would(p, (struct policy_question){.op = POLICY_CONTEXT_EXECUTE, .interpreter = true}));
	assert_true(would(p, (struct policy_question){.op = POLICY_CONTEXT_EXECUTE, .opens_nothing = true}));
	assert_false(would(p, (struct policy_question){.op = POLICY_TERMINAL_OPEN}));
	assert_true(would(p, (struct policy_question){.op = POLICY_TERMINAL_OPEN, .opens_nothing = true}));
	policy_destroy(p);
}

/* Requests to servers inside have a size, and a number in a minute; one that was begun, and who looks, have neither. */
static void requests_to_servers_inside_have_budgets(void **state)
{
	struct policy *p = policy_of("policy: 1\notherwise: deny\nprofiles:\n- name: a\n  match: {kind: staff}\n"
				     "  allow: [mcp.call]\n  limits: {mcp_rate: 10, mcp_size: 1KiB}\n");
	struct policy_question q = {.op = POLICY_MCP_CALL, .server = "s", .task = "T", .requests = 9, .bytes = 1024};
	struct err_share limit;
	char rule[POLICY_RULE_MAX], message[256];
	struct verdict v = policy_verdict(p, &q);

	(void)state;
	assert_true(v.allowed);
	q.requests = 10;
	v = policy_verdict(p, &q);
	assert_false(v.allowed);
	verdict_rule(&v, &q, rule);
	assert_string_equal(rule, "a/limits.mcp_rate");
	verdict_message(&v, &q, message, sizeof(message));
	assert_string_equal(message,
			    "task T made 10 requests in the last minute, and profile \"a\" allows 10: wait a few "
			    "seconds");
	assert_true(verdict_limit(&v, &q, &limit));
	assert_string_equal(limit.limit, "limits.mcp_rate");
	assert_true(limit.value == 10 && limit.in_use == 10 && limit.retry_s == 7);
	q.opens_nothing = true;
	assert_true(policy_verdict(p, &q).allowed);
	q = (struct policy_question){.op = POLICY_MCP_CALL, .server = "s", .bytes = 1025};
	v = policy_verdict(p, &q);
	assert_false(verdict_limit(&v, &q, &limit)); /* waiting does not help */
	verdict_rule(&v, &q, rule);
	assert_string_equal(rule, "a/limits.mcp_size");
	verdict_message(&v, &q, message, sizeof(message));
	assert_string_equal(message,
			    "parameters of 1025 bytes are over the 1024 that profile \"a\" lets a request have");
	policy_destroy(p);
}

static void check_case(const struct policy *p, const char *line)
{
	char want[8], want_rule[POLICY_RULE_MAX], rule[POLICY_RULE_MAX], message[256], hint[200];
	struct policy_call call;
	struct verdict v;
	struct err e = {0};
	int at = 0;

	if (sscanf(line, "%7s %95s %n", want, want_rule, &at) != 2)
		fail_msg("no case: %s", line);
	if (policy_call_parse(line + at, &call, &e))
		fail_msg("%s: %s", line, e.message);
	v = policy_verdict(p, &call.q);
	verdict_rule(&v, &call.q, rule);
	if (v.allowed != (strcmp(want, "allow") == 0) || strcmp(rule, want_rule) != 0)
		fail_msg("%s: %s by %s", line, v.allowed ? "allowed" : "denied", rule);
	assert_string_equal(verdict_version(&v), p->version);
	verdict_message(&v, &call.q, message, sizeof(message));
	verdict_hint(&v, &call.q, hint, sizeof(hint));
	if (!*message || !*hint != v.allowed)
		fail_msg("%s: said \"%s\", and what would allow it \"%s\"", line, message, hint);
}

static void test_cases(void **state)
{
	char *policy = slurp(FIXTURES "company.yaml"), *cases = slurp(FIXTURES "cases"), *rest = NULL;
	struct policy *p = policy_of(policy);
	size_t n = 0;

	(void)state;
	for (char *line = strtok_r(cases, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (*line == '#')
			continue;
		check_case(p, line);
		n++;
	}
	assert_true(n >= 200);
	policy_destroy(p);
	free(cases);
	free(policy);
}

/* ---- image and resources of a sandbox that is made */

#define SHAPED                                                                                                         \
	"policy: 1\notherwise: deny\nprofiles:\n"                                                                      \
	"- {name: one, match: {task: one}, allow: ['*'], image: py,\n"                                                 \
	"   resources: {most: {memory: 1Gi, pids: 100}, default: {memory: 512Mi, cpu: 1}}}\n"                          \
	"- {name: two, match: {task: two}, allow: ['*'], image: [py, node, none],\n"                                   \
	"   resources: {most: {memory: 1Gi}, over: clip}}\n"                                                           \
	"- {name: set, match: {task: set}, allow: ['*'], image: {allow: [py, node], default: node}}\n"                 \
	"- {name: any, match: {task: any}, allow: ['*'], image: {default: node}}\n"                                    \
	"- {name: bare, match: {task: bare}, allow: ['*'], image: {allow: [none, py], default: none}}\n"               \
	"- {name: free, match: {task: free}, allow: ['*']}\n"

#define MIB(n) ((uint64_t)(n) << 20)

/* kept: of the agent, from before. Of a denial `image` is its rule. */
static const struct {
	const char *task, *named, *kept;
	uint64_t memory, kept_memory;
	bool allowed;
	const char *image;
	uint64_t made_memory;
	bool gives_image, gives_resources;
} shapes[] = {
    {"one", NULL, NULL, 0, 0, true, "py", MIB(512), true, true},
    {"one", "py", NULL, MIB(600), 0, true, "py", MIB(600), false, true}, /* pids and cpu */
    {"one", "node", NULL, 0, 0, false, "one/image", 0, false, false},
    {"one", "", NULL, 0, 0, false, "one/image", 0, false, false},
    {"one", NULL, "node", 0, MIB(2048), true, "py", MIB(1024), true, true}, /* nobody named them now */
    {"one", NULL, "py", 0, MIB(100), true, "py", MIB(100), false, true},
    {"one", "py", NULL, MIB(1025), 0, false, "one/resources", 0, false, false},
    {"two", NULL, NULL, 0, 0, true, "", MIB(1024), false, true}, /* none is one of the list */
    {"two", NULL, "node", 0, 0, true, "node", MIB(1024), false, true},
    {"two", "x", NULL, 0, 0, false, "two/image", 0, false, false},
    {"two", "py", NULL, MIB(4096), 0, true, "py", MIB(1024), false, true},
    {"set", NULL, NULL, 0, 0, true, "node", 0, true, false},
    {"set", NULL, "py", 0, MIB(9), true, "py", MIB(9), false, false},
    {"set", NULL, "x", 0, 0, true, "node", 0, true, false},
    {"set", "", "py", 0, 0, false, "set/image", 0, false, false},
    {"any", NULL, NULL, 0, 0, true, "node", 0, true, false},
    {"any", "x", NULL, 0, 0, true, "x", 0, false, false},
    {"any", "", "x", 0, 0, true, "", 0, false, false},
    {"bare", NULL, NULL, 0, 0, true, "", 0, false, false},
    {"bare", NULL, "x", 0, 0, true, "", 0, true, false},
    {"free", NULL, "x", 0, MIB(5), true, "x", MIB(5), false, false},
    {"free", "y", "x", MIB(6), MIB(5), true, "y", MIB(6), false, false},
};

static void a_sandbox_has_what_its_profile_says(void **state)
{
	struct policy *p = policy_of(SHAPED);
	unsigned wrong = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct policy_question q = {.op = POLICY_SANDBOX_WAKE,
					    .task = shapes[i].task,
					    .makes = true,
					    .image = shapes[i].named,
					    .kept_image = shapes[i].kept,
					    .resources = {.memory = shapes[i].memory},
					    .kept = {.memory = shapes[i].memory ? 0 : shapes[i].kept_memory}};
		struct verdict v = policy_verdict(p, &q);
		struct policy_shape s = {.image = ""};
		char rule[POLICY_RULE_MAX];
		bool fine = v.allowed == shapes[i].allowed;

		verdict_rule(&v, &q, rule);
		if (v.allowed)
			verdict_shape(&v, &q, &s);
		fine = fine && strcmp(v.allowed ? s.image : rule, shapes[i].image) == 0 &&
		       (!v.allowed ||
			(s.resources.memory == shapes[i].made_memory && s.gives_image == shapes[i].gives_image &&
			 s.gives_resources == shapes[i].gives_resources));
		if (!fine)
			print_error("row %zu: %d by %s: image \"%s\", memory %llu, gives %d %d\n", i, v.allowed, rule,
				    s.image, (unsigned long long)s.resources.memory, s.gives_image, s.gives_resources),
			    wrong++;
		q.makes = false; /* in one that is there nothing of it is asked */
		assert_true(policy_verdict(p, &q).allowed);
	}
	assert_int_equal(wrong, 0);
	policy_destroy(p);
}

static void assert_denied(const struct policy *p, const struct policy_question *q, const char *want,
			  const char *message, const char *needs)
{
	struct verdict v = policy_verdict(p, q);
	char rule[POLICY_RULE_MAX], text[256], hint[200];

	assert_false(v.allowed);
	verdict_rule(&v, q, rule);
	assert_string_equal(rule, want);
	verdict_message(&v, q, text, sizeof(text));
	assert_string_equal(text, message);
	verdict_hint(&v, q, hint, sizeof(hint));
	assert_string_equal(hint, needs);
}

/* A pod template of its own may say what it likes; a sandbox of the pool is as it is. */
static void nothing_goes_round_a_shape(void **state)
{
	struct policy *p = policy_of(SHAPED);
	struct policy_question q = {.op = POLICY_SANDBOX_WAKE, .task = "one", .makes = true, .own_template = true};

	(void)state;
	assert_denied(p, &q, "one/image",
		      "profile \"one\" says which image a sandbox has, and a pod template of its own may say otherwise",
		      "no pod template of the agent's own");
	q.task = "any";
	assert_true(policy_verdict(p, &q).allowed);
	q = (struct policy_question){.op = POLICY_LEASE_HOLD, .task = "one", .makes = true, .fixed = true};
	assert_denied(p, &q, "one/image", "profile \"one\" does not allow a sandbox without an image",
		      "none in image of profile one, which has: py");
	q.task = "two";
	assert_true(policy_verdict(p, &q).allowed);
	q.resources.memory = MIB(2048); /* it cannot be clipped */
	assert_denied(p, &q, "two/resources", "a sandbox of the pool has more memory than profile \"two\" allows",
		      "more in resources.most.memory of profile two");
	q = (struct policy_question){.op = POLICY_SANDBOX_WAKE, .task = "one", .makes = true, .image = "x"};
	assert_denied(p, &q, "one/image", "profile \"one\" does not allow a sandbox of image x",
		      "x in image of profile one, which has: py");
	q.image = NULL;
	q.resources.pids = 101;
	assert_denied(p, &q, "one/resources", "pids of 101 is over the 100 that profile \"one\" allows",
		      "more in resources.most.pids of profile one, or over: clip");
	policy_destroy(p);
}

/* A call that was judged before is asked of what it makes alone: of neither its operation nor a number. */
static void what_was_judged_is_asked_of_its_shape_alone(void **state)
{
	struct policy *p =
	    policy_of("policy: 1\notherwise: deny\nprofiles:\n"
		      "- {name: a, match: {task: x}, allow: [round.start], image: py, limits: {rounds: 1}}\n");
	struct policy_question q = {.op = POLICY_FILE_READ, .task = "x", .judged = true, .makes = true, .rounds = 9};

	(void)state;
	assert_true(policy_verdict(p, &q).allowed);
	q.op = POLICY_ROUND_START;
	assert_true(policy_verdict(p, &q).allowed);
	q.image = "x";
	assert_denied(p, &q, "a/image", "profile \"a\" does not allow a sandbox of image x",
		      "x in image of profile a, which has: py");
	q.task = "nobody's";
	assert_true(policy_verdict(p, &q).allowed);
	policy_destroy(p);
}

/* ---- what is recorded */

#define RECORDED                                                                                                       \
	"policy: 1\notherwise: as_granted\nprofiles:\n"                                                                \
	"- {name: all, match: {task: all}, allow: ['*'], record: full}\n"                                              \
	"- {name: less, match: {task: less}, allow: ['*'], record: {rule: truncated, head: 1KiB}}\n"                   \
	"- {name: some, match: {task: some}, allow: ['*'], record: [{session: round, rule: metadata},\n"               \
	"   {session: file, rule: full}]}\n"                                                                           \
	"- {name: order, match: {task: order}, allow: ['*'], record: [{session: terminal, rule: full},\n"              \
	"   {rule: metadata}, {session: port, rule: truncated, head: 0, tail: 2MiB}]}\n"                               \
	"- {name: none, match: {task: none}, allow: ['*']}\n"

static void a_profile_says_what_is_recorded(void **state)
{
	static const struct {
		const char *task, *session, *by; /* by NULL: the configuration says */
		enum conf_rule_kind kind;
		uint64_t head, tail;
	} rows[] = {
	    {"all", "round", "all/record", RULE_FULL, 0, 0},
	    {"all", "terminal", "all/record", RULE_FULL, 0, 0},
	    {"all", "mcp", "all/record", RULE_FULL, 0, 0},
	    {"all", "file", NULL, RULE_FULL, 0, 0}, /* whole files are named by themselves */
	    {"all", "port", NULL, RULE_FULL, 0, 0},
	    {"less", "exec", "less/record", RULE_TRUNCATED, 1024, CONF_RULE_TAIL},
	    {"some", "round", "some/record", RULE_METADATA, 0, 0},
	    {"some", "file", "some/record", RULE_FULL, 0, 0},
	    {"some", "terminal", NULL, RULE_FULL, 0, 0},
	    {"order", "terminal", "order/record", RULE_FULL, 0, 0},
	    {"order", "exec", "order/record", RULE_METADATA, 0, 0},
	    {"order", "port", "order/record", RULE_TRUNCATED, 0, MIB(2)},
	    {"order", "file", NULL, RULE_FULL, 0, 0},
	    {"none", "round", NULL, RULE_FULL, 0, 0},
	    {"other", "round", NULL, RULE_FULL, 0, 0},
	};
	struct policy *p = policy_of(RECORDED);
	unsigned wrong = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct policy_question q = {.op = POLICY_ROUND_START, .task = rows[i].task};
		struct verdict v = policy_verdict(p, &q);
		struct record_rule r;

		assert_true(v.allowed);
		policy_record_for(v.profile, rows[i].session, &r);
		if (r.given != (rows[i].by != NULL) || strcmp(r.by, rows[i].by ? rows[i].by : "") != 0 ||
		    r.kind != rows[i].kind || r.head != rows[i].head || r.tail != rows[i].tail)
			print_error("row %zu: %s by \"%s\"\n", i, record_rule_kind_name(r.kind), r.by), wrong++;
	}
	assert_int_equal(wrong, 0);
	policy_destroy(p);
}

/* ---- against the configuration */

static struct conf *conf_of(const char *text)
{
	struct conf *c = NULL;
	struct err e = {0};

	if (conf_parse(text, strlen(text), "c", &c, &e))
		fail_msg("%s", e.message);
	return c;
}

static void profiles_stay_within_the_configuration(void **state)
{
	static const char digest[] = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	static const struct {
		const char *backend, *policy, *message; /* NULL: it is fine */
	} rows[] = {
	    {"local", "  image: python\n", NULL},
	    {"local", "  image: [none, python]\n  resources: {most: {pids: 9}}\n", NULL},
	    {"local", "  image: none\n", NULL},
	    {"local", "  image: pyhton\n",
	     "p:7:10: image of profile \"a\": pyhton is not among sandbox.images, did you mean python?"},
	    {"local", "  image: [python, zebra]\n",
	     "p:7:19: image of profile \"a\": zebra is not among sandbox.images"},
	    {"local", "  image: {default: pod}\n",
	     "p:7:20: image of profile \"a\": sandbox.images has no archive and no dir for pod, which a sandbox of "
	     "this "
	     "machine needs"},
	    {"kubernetes", "  image: pod\n  resources: {most: {cpu: 2}}\n", NULL},
	    {"kubernetes", "  image: python\n",
	     "p:7:10: image of profile \"a\": sandbox.images has no ref for python, which a pod needs"},
	    {"kubernetes", "  resources: {most: {cpu: 2, pids: 9}}\n",
	     "p:7:14: resources of profile \"a\": pids are not for pods: the node's kubelet limits their processes"},
	};
	unsigned wrong = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char conf[400], text[400];
		struct err e = {0};
		struct conf *c;
		struct policy *p;

		snprintf(conf, sizeof(conf),
			 "sandbox: {backend: %s, images: [{name: python, archive: /a.tar, digest: '%s'}, {name: pod, "
			 "ref: x}]}\nkubernetes: {kubeconfig: /k}\n",
			 rows[i].backend, digest);
		snprintf(text, sizeof(text), ONE "  allow: []\n%s", rows[i].policy);
		c = conf_of(conf);
		p = policy_of(text);
		if (policy_check_conf(p, c, &e) != (rows[i].message ? ERR_CONFIG : 0) ||
		    strcmp(e.message, rows[i].message ? rows[i].message : "") != 0)
			print_error("row %zu: said \"%s\"\n", i, e.message), wrong++;
		policy_destroy(p);
		conf_destroy(c);
	}
	assert_int_equal(wrong, 0);
}

/* Without a policy, and where no profile matches. */
static void test_otherwise(void **state)
{
	struct policy *p = policy_of("policy: 1\notherwise: as_granted\nprofiles: []\n");
	struct policy_question q = {.op = POLICY_TERMINAL_OPEN, .principal = "alice"};
	char rule[POLICY_RULE_MAX];
	struct verdict v = policy_verdict(NULL, &q);

	(void)state;
	assert_true(v.allowed);
	verdict_rule(&v, &q, rule);
	assert_string_equal(rule, "");
	assert_string_equal(verdict_version(&v), "");
	v = policy_verdict(p, &q);
	assert_true(v.allowed);
	verdict_rule(&v, &q, rule);
	assert_string_equal(rule, "otherwise");
	policy_destroy(p);
	p = policy_of("policy: 1\notherwise: deny\n");
	assert_false(policy_verdict(p, &q).allowed);
	policy_destroy(p);
}

/* ---- what is refused, and where */

static const struct {
	const char *text, *message;
} errors[] = {
    {"", "p:1:1: there is nothing in the policy: it begins with policy: 1"},
    {"[1]", "p:1:1: the policy is not a mapping of keys to values"},
    {"otherwise: deny\n", "p:1:1: the file begins with its form: policy: 1"},
    {"policy: 2\notherwise: deny\n", "p:1:9: the file begins with its form: policy: 1"},
    {"policy: 1\n", "p:1:1: otherwise says what holds where no profile matches: deny, or as_granted"},
    {"policy: 1\notherwise: allow\n",
     "p:2:12: otherwise says what holds where no profile matches: deny, or as_granted"},
    {"policy: 1\notherwise: deny\nprofile: []\n",
     "p:3:1: unknown key \"profile\" in the policy, did you mean profiles?"},
    {"policy: 1\notherwise: deny\nzebra: []\n",
     "p:3:1: unknown key \"zebra\" in the policy, known are: policy|otherwise|profiles|about"},
    {"policy: 1\notherwise: deny\notherwise: deny\n", "p:3:1: otherwise stands twice in the policy"},
    {"policy: 1\notherwise: deny\nprofiles: {}\n", "p:3:11: profiles of the policy is not a list"},
    {HEAD "- x\n", "p:4:3: a profile is not a mapping of keys to values"},
    {HEAD "- match: {task: x}\n  allow: []\n", "p:4:3: a profile has no name"},
    {HEAD "- name: Big\n", "p:4:9: \"Big\" is no name of a profile: up to 64 of a-z, 0-9, - _ and ."},
    {HEAD "- name: otherwise\n", "p:4:9: \"otherwise\" is no name of a profile: up to 64 of a-z, 0-9, - _ and ."},
    {HEAD "- name: a\n  nam: b\n", "p:5:3: unknown key \"nam\" in a profile, did you mean name?"},
    {HEAD "- name: a\n  allow: []\n",
     "p:4:3: match of profile \"a\" says nothing: give it task, agent, principal or kind"},
    {HEAD "- name: a\n  match: {}\n",
     "p:5:10: match of profile \"a\" says nothing: give it task, agent, principal or kind"},
    {HEAD "- name: a\n  match: {tasks: x}\n", "p:5:11: tasks of match is written task, for one or a list"},
    {HEAD "- name: a\n  match: {tas: x}\n", "p:5:11: unknown key \"tas\" in match, did you mean task?"},
    {HEAD "- name: a\n  match: {task: []}\n",
     "p:5:17: task of match is empty, which is nobody: leave it out, or name somebody"},
    {HEAD "- name: a\n  match: {task: {x: y}}\n", "p:5:17: task of match is neither a name nor a list of names"},
    {HEAD "- name: a\n  match: {task: [x, x]}\n", "p:5:21: x stands twice in task"},
    {HEAD "- name: a\n  match: {task: 'a b'}\n",
     "p:5:17: task has a name with a space, a control or one of ?[]{}\\: `*` alone stands for other characters"},
    {HEAD "- name: a\n  match: {task: 'a?'}\n",
     "p:5:17: task has a name with a space, a control or one of ?[]{}\\: `*` alone stands for other characters"},
    {HEAD "- name: a\n  match: {kind: robot}\n",
     "p:5:17: kind 'robot' is not known; there are staff, agent, auditor and service"},
    {HEAD "- name: a\n  match: {reason: x}\n", "p:5:11: reason of match is not supported: who asks chooses it"},
    {ONE, "p:4:3: allow of profile \"a\" is no list of operations: [] allows nothing"},
    {ONE "  allow: round.start\n", "p:6:10: allow of profile \"a\" is no list of operations: [] allows nothing"},
    {ONE "  allow: [round.strat]\n", "p:6:11: there is no operation \"round.strat\", did you mean round.start?"},
    {ONE "  allow: [shell]\n", "p:6:11: there is no operation \"shell\": muxctl policy operations lists them"},
    {ONE "  allow: [fil.*]\n", "p:6:11: there is no operation \"fil.*\""},
    {ONE "  allow: [fi*]\n", "p:6:11: \"fi*\" is no group of operations, as file.* or *"},
    {ONE "  allow:\n  - round.start\n  - file.read\n  - round.start\n",
     "p:9:5: round.start stands twice in allow of profile \"a\": first in line 7"},
    {ONE "  allow: [[x]]\n", "p:6:11: an entry of allow is no operation"},
    {ONE "  allow:\n  - file.read: {paths: [a]}\n    file.write: {paths: [a]}\n",
     "p:7:5: an entry of allow names one operation: begin the next with a dash"},
    {ONE "  allow:\n  - file.*: {paths: [a]}\n", "p:7:13: options are of one operation: name it in place of file.*"},
    {ONE "  allow:\n  - round.start: {paths: [a]}\n", "p:7:18: round.start has no options: write it by itself"},
    {ONE "  allow:\n  - file.read: {path: [a]}\n", "p:7:17: unknown key \"path\" in file.read, did you mean paths?"},
    {ONE "  allow:\n  - file.read: {paths: []}\n", "p:7:24: paths of file.read is no list of patterns with an entry"},
    {ONE "  allow:\n  - file.read: {paths: [/etc/passwd]}\n",
     "p:7:25: \"/etc/passwd\" is no path below the workspace, as src/** or out/*.csv"},
    {ONE "  allow:\n  - file.read: {paths: [a/../b]}\n", "p:7:25: \"a/../b\" is no path below the workspace"},
    {ONE "  allow:\n  - file.read: {paths: ['[a]']}\n", "p:7:25: \"[a]\" has []{} or \\: of patterns there are"},
    {ONE "  allow:\n  - file.read: {paths: [a, a]}\n", "p:7:28: a stands twice in paths of file.read"},
    {ONE "  allow:\n  - port.open: {ports: [0]}\n", "p:7:25: ports holds what is neither a port (8080) nor a range"},
    {ONE "  allow:\n  - port.open: {ports: [65536]}\n",
     "p:7:25: ports holds what is neither a port (8080) nor a range"},
    {ONE "  allow:\n  - port.open: {ports: [80x]}\n",
     "p:7:25: \"80x\" is neither a port (8080) nor a range (3000-3999)"},
    {ONE "  allow:\n  - port.open: {ports: [90-80]}\n", "p:7:25: the range 90-80 ends before it begins"},
    {ONE "  allow:\n  - mcp.call: {servers: [a]}\n",
     "p:7:25: servers is no mapping of 1 to 64 servers to lists of tools"},
    {ONE "  allow:\n  - session.watch: {principals: []}\n",
     "p:7:33: principals of session.watch is empty, which is nobody"},
    {ONE "  allow: []\n  limits: {rounds: 1}\n",
     "p:7:20: rounds limits what profile \"a\" does not allow: name round.start under allow"},
    {ONE "  allow: [round.start]\n  limits: {file_size: 1MiB}\n",
     "p:7:23: file_size limits what profile \"a\" does not"},
    {ONE "  allow: [round.start]\n  limits: {round_time: 0s}\n",
     "p:7:24: round_time is 0, which allows nothing: leave the operation out of allow"},
    {ONE "  allow: [round.start]\n  limits: {round_time: soon}\n", "p:7:24: round_time is no duration, as 90s or 10m"},
    {ONE "  allow: [round.start]\n  limits: {rounds: -1}\n", "p:7:20: rounds is no number from 1 to 1000000"},
    {ONE "  allow: [file.read]\n  limits: {file_size: big}\n", "p:7:23: file_size is no size, as 512KiB or 1MiB"},
    {ONE "  allow: [round.start]\n  limits: {round_tme: 1s}\n",
     "p:7:12: unknown key \"round_tme\" in limits, did you mean round_time?"},
    {ONE "  allow: [round.start]\n  limits: {cpu: 1}\n", "p:7:12: cpu of limits is written under resources"},
    {ONE "  allow: []\n  images: a\n", "p:7:3: images of a profile is written image, for one or a list"},
    {ONE "  allow: []\n  image: []\n", "p:7:10: image of profile \"a\" is empty, which is no sandbox at all"},
    {ONE "  allow: []\n  image: [a, b, a]\n", "p:7:17: a stands twice in image"},
    {ONE "  allow: []\n  image: [none, none]\n", "p:7:17: none stands twice in image"},
    {ONE "  allow: []\n  image: 'a*'\n", "p:7:10: \"a*\" of image is no name of an image: a letter or digit"},
    {ONE "  allow: []\n  image: [[a]]\n", "p:7:11: image has an entry that is no name"},
    {ONE "  allow: []\n  image: {}\n", "p:7:10: image of profile \"a\" says nothing: give it allow, default or both"},
    {ONE "  allow: []\n  image: {alow: a}\n", "p:7:11: unknown key \"alow\" in image, did you mean allow?"},
    {ONE "  allow: []\n  image: {allow: {a: b}}\n", "p:7:18: image of profile \"a\" is neither a name nor a list"},
    {ONE "  allow: []\n  image: {allow: [a, b], default: c}\n",
     "p:7:35: default of image of profile \"a\" is not among those that it allows"},
    {ONE "  allow: []\n  image: {allow: a, default: none}\n",
     "p:7:30: default of image of profile \"a\" is not among those that it allows"},
    {ONE "  allow: []\n  image: {default: [a]}\n", "p:7:20: default of image is no name"},
    {ONE "  allow: []\n  resources: {}\n",
     "p:7:14: resources of profile \"a\" says nothing: give it most, default or both"},
    {ONE "  allow: []\n  resources: {memory: 1Gi}\n", "p:7:15: memory of resources is written under most or default"},
    {ONE "  allow: []\n  resources: {most: {}}\n", "p:7:21: most of resources says nothing: give it cpu, memory or"},
    {ONE "  allow: []\n  resources: {most: {disk: 1}}\n", "p:7:22: unknown key \"disk\" in most, known are: cpu|"},
    {ONE "  allow: []\n  resources: {most: {memory: big}}\n",
     "p:7:30: memory of most: resources.memory is no quantity"},
    {ONE "  allow: []\n  resources: {most: {memory: [1]}}\n", "p:7:30: memory of most: resources.memory is no"},
    {ONE "  allow: []\n  resources: {most: {pids: many}}\n", "p:7:28: pids of most: "},
    {ONE "  allow: []\n  resources: {most: {pids: 8x}}\n", "p:7:28: pids of most: is no number of processes, as 200"},
    {ONE "  allow: []\n  resources: {most: {pids: 1}}\n", "p:7:28: pids of most: "},
    {ONE "  allow: []\n  resources: {most: {cpu: 1}, over: trim}\n",
     "p:7:37: over says what comes of more than the most: refuse, or clip"},
    {ONE "  allow: []\n  resources: {default: {cpu: 1}, over: clip}\n",
     "p:7:40: over is of resources.most, which profile \"a\" does not have"},
    {ONE "  allow: []\n  resources: {most: {cpu: 1}, default: {cpu: 1001m}}\n",
     "p:7:40: default of resources is more than most of profile \"a\""},
    {ONE "  allow: []\n  record: ful\n", "p:7:11: rule of record is \"ful\": did you mean full?"},
    {ONE "  allow: []\n  record: zebra\n", "p:7:11: rule of record is \"zebra\", not one of full|truncated|metadata"},
    {ONE "  allow: []\n  record: []\n", "p:7:11: record of profile \"a\" is empty: without it record.rules"},
    {ONE "  allow: []\n  record: {session: round}\n", "p:7:11: an entry of record names no rule"},
    {ONE "  allow: []\n  record: {rules: full}\n", "p:7:12: unknown key \"rules\" in record, did you mean rule?"},
    {ONE "  allow: []\n  record: {rule: [full]}\n", "p:7:18: rule of record is \"\", not one of"},
    {ONE "  allow: []\n  record: {rule: full, session: rounds}\n",
     "p:7:33: session of record is \"rounds\": did you mean round?"},
    {ONE "  allow: []\n  record: {rule: full, kind: agent}\n",
     "p:7:24: kind of record is written under match of the profile"},
    {ONE "  allow: []\n  record: {rule: full, floor: true}\n",
     "p:7:24: floor of record is the configuration's, in record.rules"},
    {ONE "  allow: []\n  record: {rule: full, head: 1KiB}\n",
     "p:7:30: head of record goes with the rule truncated only"},
    {ONE "  allow: []\n  record: {rule: truncated, tail: big}\n", "p:7:35: tail of record is no size"},
    {ONE "  allow: []\n  record:\n  - {session: file, rule: full}\n  - {session: file, rule: metadata}\n",
     "p:9:15: session file stands twice in record of profile \"a\""},
    {ONE "  allow: []\n  record:\n  - rule: full\n  - {session: round, rule: metadata}\n",
     "p:9:15: session round of record can never match: the entry for every session comes before it"},
    {ONE "  allow: []\n  record: [{rule: full}, 7]\n", "p:7:26: record is not a mapping of keys to values"},
    {ONE "  allow: []\n  watch: [alice]\n", "p:7:3: watch of a profile is written session.watch under allow"},
    {ONE "  allow: []\n  deny: [file.read]\n",
     "p:7:3: deny of a profile is not needed: what allow does not name is denied"},
    {ONE "  allow: []\n- name: a\n  match: {task: y}\n  allow: []\n",
     "p:7:9: profile \"a\" stands twice: first in line 4"},
    {ONE "  allow: []\n- name: b\n  match: {task: x}\n  allow: []\n",
     "p:7:3: profile \"b\" can never match: \"a\" in line 4 comes first and matches all that it does"},
    {HEAD "- name: a\n  match: {task: 'x-*'}\n  allow: []\n- name: b\n  match: {task: ['x-1', 'x-*-y'], kind: agent}\n "
	  " allow: []\n",
     "p:7:3: profile \"b\" can never match"},
    {HEAD "- name: a\n  match: {kind: [staff, agent]}\n  allow: []\n- name: b\n  match: {kind: agent, agent: lib}\n  "
	  "allow: []\n",
     "p:7:3: profile \"b\" can never match"},
    {HEAD "- name: a\n  match: {task: '*'}\n  allow: []\n- name: b\n  match: {agent: lib}\n  allow: []\n",
     "p:7:3: profile \"b\" can never match"},
    {HEAD "- name: a\n\tmatch: x\n", "p:5:1: found a tab character that violates indentation"},
    {"policy: 1\n---\npolicy: 1\n", "p:3:1: a second document begins; one is expected"},
    {"policy: 1\nabout: \xff\n", "p: is not UTF-8 text"},
};

static void test_refused(void **state)
{
	unsigned wrong = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct policy *p = NULL;
		struct err e = {0};
		int rc = policy_parse(errors[i].text, strlen(errors[i].text), "p", &p, &e);

		if (rc != ERR_CONFIG || p || strncmp(e.message, errors[i].message, strlen(errors[i].message)) != 0)
			print_error("%s\nwas to say: %s\nsaid:       %s\n", errors[i].text, errors[i].message,
				    e.message),
			    wrong++;
	}
	assert_int_equal(wrong, 0);
}

/* Two that overlap and neither covers the other are both reached. */
static void test_not_covered(void **state)
{
	static const char *const pairs[][2] = {
	    {"{task: x, kind: agent}", "{task: x}"}, {"{task: 'a*'}", "{task: '*a'}"},
	    {"{agent: lib}", "{task: '*'}"},         {"{kind: agent}", "{kind: [agent, staff]}"},
	    {"{task: [a, b]}", "{task: [b, c]}"},    {"{principal: 'x-*-y'}", "{principal: 'x-*'}"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		char text[400];

		snprintf(text, sizeof(text),
			 HEAD "- {name: a, match: %s, allow: []}\n- {name: b, match: %s, allow: []}\n", pairs[i][0],
			 pairs[i][1]);
		policy_destroy(policy_of(text));
	}
}

static void test_sizes(void **state)
{
	static char text[POLICY_TEXT_MAX + 2];
	struct policy *p = NULL;
	struct err e = {0};

	(void)state;
	memset(text, ' ', sizeof(text) - 1);
	memcpy(text, "policy: 1\notherwise: deny\n#", 26);
	assert_int_equal(policy_parse(text, POLICY_TEXT_MAX, "p", &p, &e), 0);
	assert_int_equal(strlen(p->version), 16);
	assert_int_equal(strlen(p->sha256), 64);
	policy_destroy(p);
	p = NULL;
	assert_int_equal(policy_parse(text, POLICY_TEXT_MAX + 1, "p", &p, &e), ERR_CONFIG);
	assert_null(p);
	assert_string_equal(e.message, "p: 262145 bytes, 262144 are allowed");
}

static void test_names(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool yes;
	} table[] = {
	    {"*", "", true},         {"*", "a/b", true},      {"a*", "a", true},       {"a*b*c", "a-b-b-c", true},
	    {"a*b", "a-b-c", false}, {"", "", true},          {"", "a", false},        {"a", "A", false},
	    {"*a*a*", "a", false},   {"x-*-y", "x--y", true}, {"x-*-y", "x-y", false}, {"**", "z", true}};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (policy_name_match(table[i].pattern, table[i].text) != table[i].yes)
			fail_msg("%s of %s", table[i].text, table[i].pattern);
}

/* A copy has the profile of what it is a copy of, and no other by its name. */
static void a_copy_is_under_its_agents_profile(void **state)
{
	struct policy *p = policy_of("policy: 1\notherwise: deny\nprofiles:\n"
				     "- name: copies\n  match: {agent: 'demo-*'}\n  allow: [terminal.open]\n"
				     "- name: it\n  match: {agent: demo}\n  allow: [file.read]\n");

	(void)state;
	assert_true(would(p, (struct policy_question){.op = POLICY_FILE_READ, .agent = "demo"}));
	assert_true(would(p, (struct policy_question){.op = POLICY_FILE_READ, .agent = "demo-fork-0123456789ab"}));
	assert_false(would(p, (struct policy_question){.op = POLICY_TERMINAL_OPEN, .agent = "demo-fork-0123456789ab"}));
	assert_true(would(p, (struct policy_question){.op = POLICY_TERMINAL_OPEN, .agent = "demo-fork"}));
	policy_destroy(p);
}

/* ---- calls, as people write them */

static void test_calls(void **state)
{
	static const char *const bad[][2] = {
	    {"", "a call begins with its operation, as file.write path=src/a.c"},
	    {"file.raed", "there is no operation \"file.raed\", did you mean file.read?"},
	    {"file.read src", "\"src\" is no KEY=VALUE"},
	    {"file.read pth=src", "unknown word \"pth\", did you mean path?"},
	    {"file.read kind=robot", "kind 'robot' is not known"},
	    {"port.open port=70000", "port=70000 is no number up to 65535"},
	    {"round.start time=soon", "time=soon is no duration, as 90s or 10m"},
	    {"file.write size=big", "size=big is no size, as 512KiB or 1MiB"},
	};
	struct policy_call c;
	struct err e = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(policy_call_parse(bad[i][0], &c, &e), ERR_INVAL);
		if (strncmp(e.message, bad[i][1], strlen(bad[i][1])) != 0)
			fail_msg("%s: %s", bad[i][0], e.message);
	}
	assert_int_equal(policy_call_parse("file.read task=t path=src/**", &c, &e), 0);
	assert_string_equal(c.q.path, "src");
	assert_true(c.q.tree);
	for (size_t i = 0; i < POLICY_OPS; i++)
		assert_int_equal(policy_op_find(policy_op_name((enum policy_op)i)), i);
}

/* ---- a grant's files within a profile's */

static struct grant_paths paths(const char *text)
{
	struct grant_paths p = {.given = text != NULL};

	if (text)
		snprintf(p.text, sizeof(p.text), "%s", text);
	return p;
}

static void test_files_meet(void **state)
{
	static const struct {
		const char *a, *b, *both;
	} table[] = {{NULL, NULL, NULL},
		     {"src/**\n", NULL, "src/**\n"},
		     {NULL, "src/**\n", "src/**\n"},
		     {"src/**\n", "src/a/**\ndocs/**\n", "src/a/**\n"},
		     {"**\n", "x\ny\n", "x\ny\n"},
		     {"x\n", "x\n", "x\n"},
		     {"a/**\n", "b/**\n", ""}};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct grant_files a = {.read = paths(table[i].a), .size_max = 10},
				   b = {.read = paths(table[i].b), .size_max = 5}, out = {0};

		grant_files_meet(&a, &b, &out);
		assert_int_equal(out.read.given, table[i].both != NULL);
		assert_string_equal(out.read.text, table[i].both ? table[i].both : "");
		assert_false(out.write.given);
		assert_int_equal(out.size_max, 5);
		a.size_max = 0;
		grant_files_meet(&a, &b, &out);
		assert_int_equal(out.size_max, 5);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_cases),
	    cmocka_unit_test(a_sandbox_has_what_its_profile_says),
	    cmocka_unit_test(a_profile_says_what_is_recorded),
	    cmocka_unit_test(nothing_goes_round_a_shape),
	    cmocka_unit_test(what_was_judged_is_asked_of_its_shape_alone),
	    cmocka_unit_test(profiles_stay_within_the_configuration),
	    cmocka_unit_test(test_otherwise),
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_sizes),
	    cmocka_unit_test(test_not_covered),
	    cmocka_unit_test(test_names),
	    cmocka_unit_test(a_copy_is_under_its_agents_profile),
	    cmocka_unit_test(test_calls),
	    cmocka_unit_test(test_files_meet),
	    cmocka_unit_test(numbers_limit_what_begins),
	    cmocka_unit_test(requests_to_servers_inside_have_budgets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

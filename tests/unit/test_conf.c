// tier: check
#include "base/clock.h"
#include "base/conf.h"
#include "base/conf_table.h"
#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RULES_31 "a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a "

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define KEY "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJhZGJhZGJhZGJhZGJhZGJhZGJhZGJhZGJhZGJhZGJh ann@host"

static int parse(const char *text, struct conf **out, struct err *e)
{
	return conf_parse(text, strlen(text), "muxd.yaml", out, e);
}

static struct conf *parsed(const char *text)
{
	struct conf *c = NULL;
	struct err e = {0};
	if (parse(text, &c, &e) < 0)
		fail_msg("%s", e.message);
	return c;
}

static void assert_defaults(const struct conf *c)
{
	assert_string_equal(c->listen_https, "");
	assert_string_equal(c->log_level, "info");
	assert_int_equal(c->journal_size, 64 * MIB);
	assert_false(c->release_durable);
	assert_true(c->mask_input);
	assert_int_equal(c->record_min_free, 64 * MIB);
	assert_int_equal(c->record_retain_ns, 0);
	assert_int_equal(c->grant_ttl_ns, 900 * NS_PER_SEC);
	assert_int_equal(c->grant_ttl_max_ns, 86400 * NS_PER_SEC);
	assert_int_equal(c->grant_warn_ns, 60 * NS_PER_SEC);
	assert_int_equal(c->nstaff, 0);
	assert_int_equal(c->ssh_max_connections, 500);
	assert_int_equal(c->ssh_keepalive_max, 4);
	assert_int_equal(c->api_max_body, MIB);
	assert_int_equal(c->session_linger_ns, 900 * NS_PER_SEC);
	assert_int_equal(c->round_head, 512 * KIB);
	assert_int_equal(c->round_argv_max, 128 * KIB);
	assert_int_equal(c->workspace_size, 1024 * MIB);
	assert_int_equal(c->pids_max, 512);
	assert_int_equal(c->sandbox_uid_base, 64900);
	assert_int_equal(c->nrules, 1);
	assert_string_equal(c->rules[0].kind, "*");
	assert_string_equal(c->rules[0].session, "*");
	assert_int_equal(c->rules[0].rule, RULE_TRUNCATED);
	assert_int_equal(c->rules[0].head, 256 * KIB);
	assert_int_equal(c->rules[0].tail, 256 * KIB);
}

static void nothing_written_means_defaults(void **state)
{
	(void)state;
	static const char *const texts[] = {"", "# only a comment\n", "---\n", "log:\nssh: ~\n", "staff: []\n"};
	struct conf *c = NULL;
	assert_int_equal(conf_create(&c), 0);
	assert_defaults(c);
	conf_destroy(c);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		c = parsed(texts[i]);
		assert_defaults(c);
		conf_destroy(c);
	}
	conf_destroy(NULL);
}

static void every_default_is_within_its_bounds(void **state)
{
	(void)state;
	size_t n;
	const struct conf_key *keys = conf_keys(&n);
	struct conf *c = NULL;
	assert_int_equal(conf_create(&c), 0);
	for (size_t i = 0; i < n; i++) {
		struct err e = {0};
		assert_true(strlen(keys[i].help) > 5);
		if (keys[i].type != CONF_LIST && conf_key_set(c, &keys[i], keys[i].value, &e) < 0)
			fail_msg("%s: %s", keys[i].path, e.message);
		assert_ptr_equal(conf_key_nearest(keys[i].path), keys[i].path);
	}
	conf_destroy(c);
}

static void what_is_printed_can_be_read(void **state)
{
	(void)state;
	char *text = conf_describe();
	size_t n;
	const struct conf_key *keys = conf_keys(&n);
	assert_non_null(text);
	struct conf *c = parsed(text);
	assert_defaults(c);
	conf_destroy(c);
	for (size_t i = 0; i < n; i++) {
		char name[100];
		const char *dot = strchr(keys[i].path, '.');
		snprintf(name, sizeof(name), "%s:", dot ? dot + 1 : keys[i].path);
		assert_non_null(strstr(text, name));
	}
	free(text);
}

static void reads_every_kind_of_value(void **state)
{
	(void)state;
	struct conf *c = parsed("listen: {https: '127.0.0.1:8443', ssh: \"[::1]:2222\"}\n"
				"log: {level: 'info,link=debug', format: json}\n"
				"journal: {size: 1MiB, dir: /run/muxd}\n"
				"record:\n  release: durable\n  mask_unechoed_input: no\n  retain: 30d\n"
				"ssh: {max_connections: 7, keepalive: 0, rekey: 2 GiB}\n"
				"grants: {ttl: 1h30m}\n"
				"rounds: {head: 0, argv_max: 64KiB}\n"
				"sandbox: {memory: 1000000000, shell: /bin/zsh}\n");
	assert_string_equal(c->listen_https, "127.0.0.1:8443");
	assert_string_equal(c->listen_ssh, "[::1]:2222");
	assert_string_equal(c->log_level, "info,link=debug");
	assert_string_equal(c->log_format, "json");
	assert_int_equal(c->journal_size, MIB);
	assert_true(c->release_durable);
	assert_false(c->mask_input);
	assert_int_equal(c->record_retain_ns, UINT64_C(30) * 86400 * NS_PER_SEC);
	assert_int_equal(c->ssh_max_connections, 7);
	assert_int_equal(c->ssh_keepalive_ns, 0);
	assert_int_equal(c->ssh_rekey_bytes, 2048 * MIB);
	assert_int_equal(c->grant_ttl_ns, 5400 * NS_PER_SEC);
	assert_int_equal(c->round_head, 0);
	assert_int_equal(c->round_argv_max, 64 * KIB);
	assert_int_equal(c->memory_max, 1000000000);
	assert_string_equal(c->sandbox_shell, "/bin/zsh");
	conf_destroy(c);
}

static void rules_end_with_one_for_everything(void **state)
{
	(void)state;
	struct conf *c = parsed("record:\n"
				"  rules:\n"
				"    - {kind: agent, session: round, rule: metadata}\n"
				"    - {kind: auditor, rule: full, floor: true}\n"
				"    - {rule: truncated, session: terminal, head: 1MiB, tail: 0}\n");
	assert_int_equal(c->nrules, 4);
	assert_string_equal(c->rules[0].kind, "agent");
	assert_string_equal(c->rules[0].session, "round");
	assert_int_equal(c->rules[0].rule, RULE_METADATA);
	assert_int_equal(c->rules[1].rule, RULE_FULL);
	assert_true(c->rules[1].floor);
	assert_false(c->rules[0].floor);
	assert_false(c->rules[3].floor);
	assert_int_equal(c->rules[2].head, MIB);
	assert_int_equal(c->rules[2].tail, 0);
	assert_string_equal(c->rules[3].kind, "*");
	assert_int_equal(c->rules[3].rule, RULE_TRUNCATED);
	conf_destroy(c);
	c = parsed("record: {rules: [{rule: full}]}");
	assert_int_equal(c->nrules, 1);
	assert_int_equal(c->rules[0].rule, RULE_FULL);
	conf_destroy(c);
}

static void staff_log_in_by_key(void **state)
{
	(void)state;
	struct conf *c = parsed("staff:\n"
				"  - principal: ann@example.org\n"
				"    keys: ['" KEY "']\n"
				"    agents: [demo, 'prod/web-0/main']\n"
				"    scopes: [terminal, observe]\n"
				"    ttl: 5m\n"
				"  - {principal: bob, keys: '" KEY "', agents: '*', scopes: 'terminal,rounds'}\n");
	assert_int_equal(c->nstaff, 2);
	assert_string_equal(c->staff[0].principal, "ann@example.org");
	assert_int_equal(c->staff[0].nkeys, 1);
	assert_string_equal(c->staff[0].keys[0], KEY);
	assert_int_equal(c->staff[0].nagents, 2);
	assert_string_equal(c->staff[0].agents[1], "prod/web-0/main");
	assert_string_equal(c->staff[0].scopes, "terminal,observe");
	assert_int_equal(c->staff[0].ttl_ns, 300 * NS_PER_SEC);
	assert_string_equal(c->staff[1].agents[0], "*");
	assert_string_equal(c->staff[1].scopes, "terminal,rounds");
	assert_int_equal(c->staff[1].ttl_ns, c->grant_ttl_ns);
	conf_destroy(c);
}

static void a_cluster_is_described(void **state)
{
	(void)state;
	struct conf *c = parsed("sandbox: {backend: kubernetes}\n"
				"kubernetes:\n"
				"  kubeconfig: /etc/muxd/a:/etc/muxd/b\n"
				"  context: dev\n"
				"  namespace: agents\n"
				"  cluster_name: staging-1\n"
				"  image: registry.example:5000/tools@sha256:0011\n"
				"  runtime_class: gvisor\n"
				"  request_cpu: 0.1\n"
				"  limit_memory: 1Gi\n"
				"  limit_ephemeral:  ''\n"
				"  workspace: claim\n"
				"  create_timeout: 120s\n"
				"  labels: {team: tools, example.org/cost-centre: '7', empty: }\n");
	assert_string_equal(c->sandbox_backend, "kubernetes");
	assert_string_equal(c->kubernetes_kubeconfig, "/etc/muxd/a:/etc/muxd/b");
	assert_string_equal(c->kubernetes_namespace, "agents");
	assert_string_equal(c->kubernetes_cluster_name, "staging-1");
	assert_string_equal(c->kubernetes_request_cpu, "0.1");
	assert_string_equal(c->kubernetes_request_memory, "512Mi");
	assert_string_equal(c->kubernetes_limit_memory, "1Gi");
	assert_string_equal(c->kubernetes_limit_ephemeral, "");
	assert_string_equal(c->kubernetes_workspace, "claim");
	assert_string_equal(c->kubernetes_backend, "auto");
	assert_int_equal(c->kubernetes_create_timeout_ns, 120 * NS_PER_SEC);
	assert_int_equal(c->kubernetes_nlabels, 3);
	assert_string_equal(c->kubernetes_labels[1].key, "example.org/cost-centre");
	assert_string_equal(c->kubernetes_labels[1].value, "7");
	assert_string_equal(c->kubernetes_labels[2].value, "");
	conf_destroy(c);
	c = parsed("kubernetes: {kubeconfig: in-cluster}");
	assert_string_equal(c->sandbox_backend, "local");
	assert_string_equal(c->kubernetes_kubeconfig, CONF_IN_CLUSTER);
	conf_destroy(c);
}

static void mistakes_are_named_with_their_place(void **state)
{
	(void)state;
	static const struct {
		const char *text, *message;
	} rows[] = {
	    {"log:\n  levle: debug\n", "muxd.yaml:2:3: unknown key \"log.levle\", did you mean log.level?"},
	    {"logs:\n  level: debug\n", "muxd.yaml:1:1: unknown key \"logs\", did you mean log?"},
	    {"# c\n\nssh: {max_conections: 3}\n",
	     "muxd.yaml:3:7: unknown key \"ssh.max_conections\", did you mean ssh.max_connections?"},
	    {"level: debug\n", "muxd.yaml:1:1: unknown key \"level\", did you mean log.level?"},
	    {"log.level: debug\n", "muxd.yaml:1:1: key \"log.level\" is written as a section with the name inside it, "
				   "not with a dot"},
	    {"zzzzzzzzz: 1\n", "muxd.yaml:1:1: unknown key \"zzzzzzzzz\" (muxd serve --print-config shows all)"},
	    {"ssh:\n  max_connections: many\n", "muxd.yaml:2:20: ssh.max_connections is \"many\", not a whole number"},
	    {"ssh: {max_connections: 0}", "muxd.yaml:1:24: ssh.max_connections is 0, 1 to 100000 is allowed"},
	    {"ssh: {max_connections: 99999999999999999999999}",
	     "muxd.yaml:1:24: ssh.max_connections is \"99999999999999999999999\", not a whole number"},
	    {"ssh: {max_connections: }", "muxd.yaml:1:24: ssh.max_connections has no value"},
	    {"ssh: {max_connections: [1]}", "muxd.yaml:1:24: ssh.max_connections is not a single value"},
	    {"ssh: 7", "muxd.yaml:1:6: ssh is not a section with keys inside it"},
	    {"[a]", "muxd.yaml:1:1: the configuration is not a mapping of sections"},
	    {"? [a]\n: b\n", "muxd.yaml:1:3: a key is not a name"},
	    {"grants: {ttl: 15}", "muxd.yaml:1:15: grants.ttl is \"15\", not a duration such as 90s, 15m, 1h30m or 2d"},
	    {"grants: {ttl: 0}", "muxd.yaml:1:15: grants.ttl is 0, 1s to 3650d is allowed"},
	    {"grants: {ttl: 25h}", "muxd.yaml:1:15: grants.ttl is longer than grants.ttl_max"},
	    {"grants: {ttl_max: 5m}", "muxd.yaml:1:19: grants.ttl is longer than grants.ttl_max"},
	    {"rounds: {timeout: 2d}", "muxd.yaml:1:19: rounds.timeout is longer than rounds.timeout_max"},
	    {"journal: {size: 3MiB}", "muxd.yaml:1:17: journal.size is not a power of two"},
	    {"journal: {size: 64 mib}",
	     "muxd.yaml:1:17: journal.size is \"64 mib\", not a size such as 512KiB, 64MiB or 1GB"},
	    {"journal: {dir: run}", "muxd.yaml:1:16: journal.dir is a path that does not begin with /"},
	    {"api: {max_body: 1mb}",
	     "muxd.yaml:1:17: api.max_body is \"1mb\", not a size such as 512KiB, 64MiB or 1GB"},
	    {"api: {max_body: 18446744073709551617}",
	     "muxd.yaml:1:17: api.max_body is \"18446744073709551617\", not a size such as 512KiB, 64MiB or 1GB"},
	    {"log: {format: jason}", "muxd.yaml:1:15: log.format is \"jason\": did you mean json?"},
	    {"log: {format: xml}", "muxd.yaml:1:15: log.format is \"xml\", known are: text|json"},
	    {"log: {level: loud}",
	     "muxd.yaml:1:14: log.level is wrong: log level \"loud\" is not known: error, warn, info, debug or trace"},
	    {"record: {mask_unechoed_input: maybe}",
	     "muxd.yaml:1:31: record.mask_unechoed_input is \"maybe\", neither true nor false"},
	    {"listen: {https: '8443'}", "muxd.yaml:1:17: listen.https is not HOST:PORT, as in 127.0.0.1:8443"},
	    {"log: {level: info, level: warn}", "muxd.yaml:1:20: log.level stands twice, first at line 1"},
	    {"record: {rules: [{rule: ful}]}", "muxd.yaml:1:25: record.rules: rule is \"ful\": did you mean full?"},
	    {"record: {rules: [{kind: staff}]}",
	     "muxd.yaml:1:18: an entry of record.rules names no rule: full, truncated or metadata"},
	    {"record: {rules: [{rule: full, head: 1}]}",
	     "muxd.yaml:1:18: head and tail of record.rules go with the rule truncated only"},
	    {"record: {rules: [{rule: full, knd: agent}]}",
	     "muxd.yaml:1:31: unknown key \"knd\" in record.rules, did you mean kind?"},
	    {"record: {rules: {rule: full}}", "muxd.yaml:1:17: record.rules is not a list"},
	    {"record: {rules: [full]}",
	     "muxd.yaml:1:18: an entry of record.rules is not a mapping of kind|session|rule|head|tail|floor"},
	    {"staff: [{principal: ann}]", "muxd.yaml:1:9: an entry of staff has no keys"},
	    {"staff: [{principal: ann, keys: [x], agents: '*', scopes: terminal}]",
	     "muxd.yaml:1:33: staff: keys is not an OpenSSH public key (ssh-ed25519 AAAA...)"},
	    {"staff: [{principal: ann, keys: ['ssh-ed25519 AA!A'], agents: '*', scopes: terminal}]",
	     "muxd.yaml:1:33: staff: keys is not an OpenSSH public key: its base64 is broken"},
	    {"staff: [{principal: ann, keys: '" KEY "', agents: Demo, scopes: terminal}]",
	     "muxd.yaml:1:133: staff: agents: agent name has \"D\" at character 1: a to z, 0 to 9 and inner dashes are "
	     "allowed"},
	    {"staff: [{principal: ann, keys: '" KEY "', agents: '*', scopes: 'a b'}]",
	     "muxd.yaml:1:146: staff: scopes is not a list of scopes such as terminal,observe"},
	    {"staff: [{principal: ann, keys: '" KEY "', agents: '*', scopes: terminal, ttl: 25h}]",
	     "muxd.yaml:1:8: the ttl of ann is longer than grants.ttl_max"},
	    {"sandbox: {backend: kubernetes}",
	     "muxd.yaml:1:20: sandbox.backend is kubernetes, and kubernetes.kubeconfig names no cluster"},
	    {"sandbox: {backend: kubernets}",
	     "muxd.yaml:1:20: sandbox.backend is \"kubernets\": did you mean kubernetes?"},
	    {"kubernets: {namespace: a}", "muxd.yaml:1:1: unknown key \"kubernets\", did you mean kubernetes?"},
	    {"kubernetes:\n  kube_config: /etc/x\n",
	     "muxd.yaml:2:3: unknown key \"kubernetes.kube_config\", did you mean kubernetes.kubeconfig?"},
	    {"kubernetes: {kubeconfig: ~/.kube/config}", "muxd.yaml:1:26: kubernetes.kubeconfig is neither in-cluster "
							 "nor a path that begins with / (several: with : "
							 "between them)"},
	    {"kubernetes: {kubeconfig: '/a:b'}", "muxd.yaml:1:26: kubernetes.kubeconfig is neither in-cluster nor a "
						 "path that begins with / (several: with : "
						 "between them)"},
	    {"kubernetes: {kubeconfig: in-cluster, context: dev}",
	     "muxd.yaml:1:47: kubernetes.context goes with a kubeconfig; in-cluster has none"},
	    {"kubernetes: {cluster_name: a.b}", "muxd.yaml:1:28: kubernetes.cluster_name is no name of a cluster: 1 to "
						"63 of a to z, 0 to 9 and inner dashes are "
						"allowed"},
	    {"kubernetes: {namespace: Dev}",
	     "muxd.yaml:1:25: kubernetes.namespace is no namespace: 1 to 63 of a to z, 0 to 9 and inner dashes are "
	     "allowed"},
	    {"kubernetes: {image: ''}", "muxd.yaml:1:21: kubernetes.image is empty: pods need an image"},
	    {"kubernetes: {image: 'a b'}",
	     "muxd.yaml:1:21: kubernetes.image is no image, as in registry.example/team/tools:1.2"},
	    {"kubernetes: {runtime_class: g_visor}", "muxd.yaml:1:29: kubernetes.runtime_class is no name of an object "
						     "in Kubernetes: labels of a to z, 0 to 9 and "
						     "inner dashes, joined by dots"},
	    {"kubernetes: {limit_memory: 2GiB}", "muxd.yaml:1:28: kubernetes.limit_memory is \"2GiB\", not a quantity "
						 "above 0 such as 100m, 2, 512Mi or 5Gi"},
	    {"kubernetes: {request_cpu: 0}",
	     "muxd.yaml:1:27: kubernetes.request_cpu is \"0\", not a quantity above 0 such as 100m, 2, 512Mi or 5Gi"},
	    {"kubernetes: {workspace: disk}", "muxd.yaml:1:25: kubernetes.workspace is \"disk\", known are: "
					      "claim|emptydir|memory"},
	    {"kubernetes: {backend: linked}", "muxd.yaml:1:23: kubernetes.backend is \"linked\": did you mean "
					      "link?"},
	    {"listen: {tls_cert: /a}", "muxd.yaml:1:20: listen.tls_cert and listen.tls_key go together"},
	    {"listen: {tls_key: a}", "muxd.yaml:1:19: listen.tls_key is a path that does not begin with /"},
	    {"kubernetes: {staff_ttl: 0s}", "muxd.yaml:1:25: kubernetes.staff_ttl is 0s, 1s to 3650d is allowed"},
	    {"kubernetes: {staff_scopes: 'a b'}",
	     "muxd.yaml:1:28: kubernetes.staff_scopes is not a list of scopes such as terminal,observe"},
	    {"kubernetes: {labels: [a]}", "muxd.yaml:1:22: kubernetes.labels is not a mapping of labels"},
	    {"kubernetes: {labels: {agent_id: x}}", "muxd.yaml:1:23: kubernetes.labels: label agent_id is muxd's own"},
	    {"kubernetes: {labels: {a/b/c: x}}",
	     "muxd.yaml:1:23: kubernetes.labels: \"a/b/c\" is no key of a label, as in team or example.org/team"},
	    {"kubernetes: {labels: {a: 'x y'}}", "muxd.yaml:1:23: kubernetes.labels: the value of label a is wrong: up "
						 "to 63 letters, digits, and -_. inside"},
	    {"kubernetes: {labels: {a: x, a: y}}", "muxd.yaml:1:29: kubernetes.labels: a stands twice"},
	    {"filespace: {ignore: \"a\\t" RULES_31 RULES_31 "\"}",
	     "muxd.yaml:1:21: filespace.ignore has 63 rules, and 62 are as many as there may be"},
	    {"log: {level: info}\n---\nlog: {}\n", "muxd.yaml:3:1: a second document begins; one is expected"},
	    {"log: {level: info", "muxd.yaml:2:1: did not find expected ',' or '}'"},
	    {"log: \"a\\x00b\"\n", "muxd.yaml:1:6: log is not a section with keys inside it"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct conf *c = NULL;
		struct err e = {0};
		int rc = parse(rows[i].text, &c, &e);
		if (rc == 0)
			fail_msg("accepted: %s", rows[i].text);
		assert_string_equal(e.message, rows[i].message);
		assert_int_equal(rc, ERR_CONFIG);
		assert_int_equal(e.code, ERR_CONFIG);
		assert_null(c);
	}
}

static void bytes_that_are_no_text_are_refused(void **state)
{
	(void)state;
	struct conf *c = NULL;
	struct err e = {0};
	assert_int_equal(conf_parse("log: \xff\xfe", 7, "x", &c, &e), ERR_CONFIG);
	assert_int_equal(conf_parse("a\0b", 3, "x", &c, &e), ERR_CONFIG);
	char *big = malloc(2 * MIB);
	memset(big, '#', 2 * MIB);
	assert_int_equal(conf_parse(big, 2 * MIB, "x", &c, &e), ERR_CONFIG);
	free(big);
}

static void loads_a_file(void **state)
{
	(void)state;
	char path[] = "/tmp/muxd-test-conf-XXXXXX";
	struct conf *c = NULL;
	struct err e = {0};
	int fd = mkstemp(path);
	assert_int_equal(write(fd, "sessions: {max: 3}\n", 19), 19);
	assert_int_equal(conf_load(path, &c, &e), 0);
	assert_int_equal(c->sessions_max, 3);
	conf_destroy(c);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, "sessions: {mx: 3}\n", 18, 0), 18);
	assert_int_equal(conf_load(path, &c, &e), ERR_CONFIG);
	assert_memory_equal(e.message, path, strlen(path));
	close(fd);
	unlink(path);
	assert_int_equal(conf_load(path, &c, &e), ERR_NOT_FOUND);
	assert_non_null(strstr(e.message, path));
}

/* The beginning of a text, a part of it many times, its end. */
static char *repeated(const char *head, const char *part, size_t times, const char *tail)
{
	size_t nhead = strlen(head), n = strlen(part);
	char *text = malloc(nhead + n * times + strlen(tail) + 1);

	assert_non_null(text);
	memcpy(text, head, nhead);
	for (size_t i = 0; i < times; i++)
		memcpy(text + nhead + i * n, part, n);
	strcpy(text + nhead + n * times, tail);
	return text;
}

/* libyaml alone would take minutes for the first: its time grows with the square of what is open. */
static void what_is_too_deep_or_too_much_is_refused_at_once(void **state)
{
	(void)state;
	static const struct {
		const char *head, *part;
		size_t times;
		const char *tail, *message;
	} rows[] = {
	    {"", "[", 1000000, "", "muxd.yaml:1:65: lists and mappings inside each other: 64 at most"},
	    {"log: ", "{a: ", 200000, "", "muxd.yaml:1:258: lists and mappings inside each other: 64 at most"},
	    {"", "- ", 500000, "", "muxd.yaml:1:129: lists and mappings inside each other: 64 at most"},
	    {"a: 1\n---\n", "[", 1000000, "", "muxd.yaml:3:65: lists and mappings inside each other: 64 at most"},
	    {"log: [\n", "1,\n", 300000, "]", "muxd.yaml:1:6: log is not a section with keys inside it"},
	    {"", "a:\n", 300000, "", "muxd.yaml:10001:1: too many keys in one mapping: 10000 at most"},
	    {"log: [\n", "&a 1,\n", 100000, "]", "muxd.yaml:1002:1: too many anchors: 1000 at most"},
	    {"", "[", 64, "", "muxd.yaml:2:1: did not find expected node content"}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *text = repeated(rows[i].head, rows[i].part, rows[i].times, rows[i].tail);
		struct conf *c = NULL;
		struct err e = {0};

		assert_int_equal(parse(text, &c, &e), ERR_CONFIG);
		assert_string_equal(e.message, rows[i].message);
		assert_null(c);
		free(text);
	}
}

/* By what the list says and not by what is in it: the entries here are none. */
static void a_list_that_is_too_long_says_how_long_it_may_be(void **state)
{
	static const struct {
		const char *head, *part;
		size_t most;
		const char *tail, *message;
	} rows[] = {
	    {"witnesses: [", "{},", 16, "]", "muxd.yaml:1:12: witnesses has more than 16 entries"},
	    {"witness: {pushers: [", "{},", 256, "]}", "muxd.yaml:1:20: witness.pushers has more than 256 entries"},
	    {"edge: {known: [", "{},", 256, "]}", "muxd.yaml:1:15: edge.known has more than 256 entries"},
	    {"issuers: [", "{},", 16, "]", "muxd.yaml:1:10: issuers has more than 16 entries"},
	    {"sandbox: {images: [", "{},", 64, "]}", "muxd.yaml:1:19: sandbox.images has more than 64 entries"},
	    {"record: {rules: [", "{},", 256, "]}", "muxd.yaml:1:17: record.rules has more than 256 entries"},
	    {"lifecycle: {agents: [", "{},", 1000, "]}", "muxd.yaml:1:21: lifecycle.agents has more than 1000 entries"},
	    {"staff: [", "{},", 1000, "]", "muxd.yaml:1:8: staff has more than 1000 entries"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (size_t more = 0; more < 2; more++) {
			char *text = repeated(rows[i].head, rows[i].part, rows[i].most + more, rows[i].tail);
			struct conf *c = NULL;
			struct err e = {0};

			assert_int_equal(parse(text, &c, &e), ERR_CONFIG);
			assert_int_equal(strcmp(e.message, rows[i].message) == 0, more);
			free(text);
		}
	}
}

static void as_many_entries_as_there_may_be(void **state)
{
	char labels[64 * 16 + 64] = "kubernetes: {labels: {";
	size_t len = strlen(labels);
	char *rules = repeated("record: {rules: [", "{kind: staff, rule: full},", 256, "]}");
	struct conf *c = parsed(rules);
	struct err e = {0};

	(void)state;
	assert_int_equal(c->nrules, 257); /* and the one for everything */
	conf_destroy(c);
	free(rules);
	for (int i = 0; i < 65; i++)
		len += (size_t)snprintf(labels + len, sizeof(labels) - len, "l%d: v,", i);
	strcpy(labels + len, "}}");
	assert_int_equal(parse(labels, &c, &e), ERR_CONFIG);
	assert_string_equal(e.message, "muxd.yaml:1:22: kubernetes.labels has more than 64 entries");
	strcpy(labels + len - strlen("l64: v,"), "}}");
	c = parsed(labels);
	assert_int_equal(c->kubernetes_nlabels, 64);
	conf_destroy(c);
}

static void sizes_have_units(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t n;
	} rows[] = {{"0", 0},
		    {"7", 7},
		    {"7B", 7},
		    {"1KiB", KIB},
		    {"3 MiB", 3 * MIB},
		    {"2kB", 2000},
		    {"1TiB", KIB * KIB * MIB},
		    {"5GB", UINT64_C(5000000000)}};
	static const char *const wrong[] = {"", "KiB", "-1", "1.5MiB", "1mib", "1 M", "99999999999999TiB", "1KiBx"};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t n = 1;
		assert_int_equal(conf_parse_size(rows[i].text, &n), 0);
		assert_int_equal(n, rows[i].n);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		uint64_t n = 42;
		assert_int_equal(conf_parse_size(wrong[i], &n), ERR_INVAL);
		assert_int_equal(n, 42);
	}
}

static void the_environment_goes_first(void **state)
{
	static const struct {
		const char *name, *value, *fault; /* NULL: taken */
	} rows[] = {{"POOL_SIZE", "7", NULL},
		    {"POOL_SIZE", "", NULL},
		    {"POOL_SIZE", "1001", "POOL_SIZE (pool.size)"},
		    {"POOL_SIZE", "many", "POOL_SIZE (pool.size)"},
		    {"LEASE_TTL_SECONDS", "90", NULL},
		    {"LEASE_TTL_SECONDS", "172800", NULL}, /* over leases.ttl_max, which follows */
		    {"LEASE_TTL_SECONDS", "15m", "LEASE_TTL_SECONDS is not a number of seconds"},
		    {"SANDBOX_TIMEOUT_SECONDS", "0", "SANDBOX_TIMEOUT_SECONDS (leases.run_timeout)"},
		    {"SANDBOX_IMAGE", "registry.example/agent:1", NULL},
		    {"SANDBOX_IMAGE", "not an image", "SANDBOX_IMAGE (kubernetes.image)"}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct conf *c = NULL;
		struct err e = {0};

		assert_int_equal(conf_parse("pool: {size: 3}\n", 16, "t", &c, &e), 0);
		setenv(rows[i].name, rows[i].value, 1);
		int rc = conf_environment(c, &e);
		unsetenv(rows[i].name);
		if (!rc != !rows[i].fault || (rc && !strstr(e.message, rows[i].fault)))
			fail_msg("%s=%s: %s", rows[i].name, rows[i].value, rc ? e.message : "taken");
		assert_int_equal(c->pool_size, i == 0 ? 7 : 3);
		if (!rc)
			assert_true(c->lease_ttl_ns <= c->lease_ttl_max_ns);
		conf_destroy(c);
	}
}

#define ISSUER(more) "issuers:\n  - {name: x, audience: a, agents: demo, scopes: rounds, " more "}\n"
#define AT_X         "issuer: \"https://x\""

static void issuers_are_described(void **state)
{
	static const struct {
		const char *text, *fault;
	} rows[] = {
	    {ISSUER(AT_X), NULL},
	    {ISSUER(AT_X ", ttl: 1h, kinds: \"agent,service\", require: [\"a=b\", \"c=d*\"], exchanges: 0"), NULL},
	    {ISSUER("issuer: \"http://127.0.0.1:80\", loopback: true"), NULL},
	    {ISSUER("ttl: 1h"), "issuer is missing"},
	    {ISSUER("issuer: \"http://127.0.0.1:80\""), "goes with loopback"},
	    {ISSUER("issuer: \"http://localhost\", loopback: true"), "127.0.0.1 and [::1] alone"},
	    {ISSUER("issuer: \"http://127.0.0.1.example.org\", loopback: true"), "127.0.0.1 and [::1] alone"},
	    {ISSUER("issuer: \"ftp://x\""), "no URL"},
	    {ISSUER("issuer: \"https://u@x\""), "no URL"},
	    {ISSUER(AT_X ", principal: \"{a}{b}\""), "without a / between"},
	    {ISSUER(AT_X ", principal: \"x/{\""), "a brace"},
	    {ISSUER(AT_X ", require: \"a\""), "no claim=value"},
	    {ISSUER(AT_X ", require: \"a=*\""), "no value"},
	    {ISSUER(AT_X ", kinds: root"), "none of staff"},
	    {ISSUER(AT_X ", skew: 6m"), "five minutes"},
	    {ISSUER(AT_X ", keep: 1m"), "keep no shorter"},
	    {ISSUER(AT_X ", scope: rounds"), "did you mean scopes"},
	    {"issuers:\n  - {name: x, audience: a, scopes: rounds, " AT_X "}\n", "agents is missing"},
	    {ISSUER(AT_X) "  - {name: x, audience: b, agents: demo, scopes: rounds, " AT_X "}\n", "stands twice"},
	    {ISSUER(AT_X) "  - {name: y, audience: a, agents: demo, scopes: rounds, " AT_X "}\n",
	     "one URL and audience"},
	    {ISSUER(AT_X ", reason: \"MCP of {sub}\", task: \"{repo}\""), NULL},
	    {ISSUER(AT_X ", reason: \"MCP of {sub\""), "a brace"},
	    {ISSUER(AT_X ", reason: \" \""), "no text"},
	    {ISSUER(AT_X ", task: a"), "which reason opens"},
	    {"issuers:\n  - {name: x, audience: a, agents: [a, b], scopes: rounds, reason: r, " AT_X "}\n",
	     "one entry in agents"},
	    {"issuers:\n  - {name: x, audience: a, agents: [a, b], agents_claim: c, scopes: rounds, reason: r, " AT_X
	     "}\n",
	     NULL},
	    {ISSUER(AT_X ", reason: r") "  - {name: y, audience: b, agents: demo, scopes: rounds, reason: r, issuer: "
					"\"https://y\"}\n",
	     "one audience"}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct conf *c = NULL;
		struct err e = {0};
		int rc = conf_parse(rows[i].text, strlen(rows[i].text), "t", &c, &e);

		if (rc == 0)
			rc = conf_environment(c, &e);
		if (!rc != !rows[i].fault || (rc && !strstr(e.message, rows[i].fault)))
			fail_msg("%s: %s", rows[i].text, rc ? e.message : "taken");
		conf_destroy(c);
	}
}

static void an_issuer_comes_from_the_environment(void **state)
{
	static const char one[] = ISSUER("ttl: 1h"), none[] = "pool: {size: 3}\n";
	struct conf *c = NULL;
	struct err e = {0};

	(void)state;
	setenv("AUTH_TOKEN_ISSUER", "https://env", 1);
	setenv("JWKS_URL", "https://env/keys", 1);
	assert_int_equal(conf_parse(one, strlen(one), "t", &c, &e), 0);
	assert_int_equal(conf_environment(c, &e), 0);
	assert_string_equal(c->issuers[0].issuer, "https://env");
	assert_string_equal(c->issuers[0].jwks_url, "https://env/keys");
	assert_string_equal(c->issuers[0].principal, "x:{sub}");
	conf_destroy(c);
	assert_int_equal(conf_parse(none, strlen(none), "t", &c, &e), 0);
	assert_int_equal(conf_environment(c, &e), ERR_CONFIG);
	assert_non_null(strstr(e.message, "AUTH_TOKEN_ISSUER"));
	conf_destroy(c);
	unsetenv("AUTH_TOKEN_ISSUER");
	unsetenv("JWKS_URL");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(issuers_are_described),
	    cmocka_unit_test(an_issuer_comes_from_the_environment),
	    cmocka_unit_test(nothing_written_means_defaults),
	    cmocka_unit_test(every_default_is_within_its_bounds),
	    cmocka_unit_test(what_is_printed_can_be_read),
	    cmocka_unit_test(reads_every_kind_of_value),
	    cmocka_unit_test(rules_end_with_one_for_everything),
	    cmocka_unit_test(staff_log_in_by_key),
	    cmocka_unit_test(a_cluster_is_described),
	    cmocka_unit_test(mistakes_are_named_with_their_place),
	    cmocka_unit_test(bytes_that_are_no_text_are_refused),
	    cmocka_unit_test(loads_a_file),
	    cmocka_unit_test(what_is_too_deep_or_too_much_is_refused_at_once),
	    cmocka_unit_test(a_list_that_is_too_long_says_how_long_it_may_be),
	    cmocka_unit_test(as_many_entries_as_there_may_be),
	    cmocka_unit_test(sizes_have_units),
	    cmocka_unit_test(the_environment_goes_first),
	};
	return cmocka_run_group_tests_name("conf", tests, NULL, NULL);
}

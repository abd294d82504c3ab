#include "base/conf_table.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/persist.h"
#include "base/ports.h"
#include "base/prefix.h"

#include <stdlib.h>
#include <string.h>

#define KIB    UINT64_C(1024)
#define MIB    (KIB * 1024)
#define GIB    (MIB * 1024)
#define TIB    (GIB * 1024)
#define MINUTE (60 * NS_PER_SEC)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

#define STRING_MAX 4096

static int check_ports(const char *value, struct err *e)
{
	return ports_check(value, e);
}

static int check_persist(const char *value, struct err *e)
{
	return persist_check(value, e);
}

static int check_prefixes(const char *value, struct err *e)
{
	return prefix_list_check(value, e);
}

static int check_absolute(const char *value, struct err *e)
{
	if (*value && *value != '/')
		return err_set(e, ERR_CONFIG, "is a path that does not begin with /");
	return 0;
}

/* A token would be read on the way to another machine. */
static int check_store_url(const char *value, struct err *e)
{
	static const char *const near[] = {"https://", "http://127.", "http://localhost", "http://[::1]"};

	for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++)
		if (!*value || strncmp(value, near[i], strlen(near[i])) == 0)
			return 0;
	return err_set(e, ERR_CONFIG, "is not https://HOST/PATH, or http:// of this machine");
}

static int check_power_of_two(const char *value, struct err *e)
{
	uint64_t n = 0;

	/* What is no size at all is refused by its type. */
	if (conf_parse_size(value, &n) == 0 && (n & (n - 1)))
		return err_set(e, ERR_CONFIG, "is not a power of two");
	return 0;
}

static int check_address(const char *value, struct err *e)
{
	const char *colon = strrchr(value, ':');

	if (*value && (!colon || colon == value || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")]))
		return err_set(e, ERR_CONFIG, "is not HOST:PORT, as in 127.0.0.1:8443");
	return 0;
}

/* Which scopes exist is policy's; here only what cannot be a list of them is refused. */
int conf_check_scopes(const char *text, struct err *e)
{
	size_t len = strlen(text);

	if (len == 0 || len > CONF_SCOPES_MAX || strspn(text, "abcdefghijklmnopqrstuvwxyz,") != len || text[0] == ',' ||
	    text[len - 1] == ',' || strstr(text, ",,"))
		return err_set(e, ERR_CONFIG, "is not a list of scopes such as terminal,observe");
	return 0;
}

/* As the rules are cut apart where they are used. */
static int check_ignore(const char *value, struct err *e)
{
	unsigned n = 0;

	for (const char *p = value; p && *p; p += strcspn(p, CONF_SPACES)) {
		p += strspn(p, CONF_SPACES);
		n += *p != '\0';
	}
	return n <= CONF_IGNORE_RULES_MAX ? 0
					  : err_set(e, ERR_CONFIG, "has %u rules, and %d are as many as there may be",
						    n, CONF_IGNORE_RULES_MAX);
}

static int check_weights(const char *value, struct err *e)
{
	char agent[128];

	for (const char *p = value; p && *p;) {
		unsigned weight;

		if (!conf_weight_next(&p, agent, sizeof(agent), &weight))
			return err_set(e, ERR_CONFIG,
				       "is no list of agents and weights from 1 to %d, as demo=200,ci-*=25",
				       CONF_WEIGHT_MAX);
	}
	return 0;
}

static int check_cpu_counts(const char *value, struct err *e)
{
	if (strcmp(value, "true") == 0 || strcmp(value, "yes") == 0 || strcmp(value, "on") == 0)
		return err_set(
		    e, ERR_CONFIG,
		    "is true, which is not supported: processor time inside does not reset the idle timer. Run "
		    "what must not be stopped as a round, which holds it");
	return 0;
}

#define AT(field) offsetof(struct conf, field)

static const struct conf_key keys[] = {
    {"listen.https", CONF_STRING, AT(listen_https), "", 0, 0, NULL, check_address,
     "Address of the API door, HOST:PORT; empty: what the command line says."},
    {"listen.ssh", CONF_STRING, AT(listen_ssh), "", 0, 0, NULL, check_address,
     "Address of the SSH door, HOST:PORT; empty: what the command line says."},
    {"listen.tls_cert", CONF_STRING, AT(listen_tls_cert), "", 0, 0, NULL, check_absolute,
     "Certificate of the API door and its chain, a PEM file; empty: a self-signed one in the state directory."},
    {"listen.tls_key", CONF_STRING, AT(listen_tls_key), "", 0, 0, NULL, check_absolute,
     "Its private key, a PEM file without a pass phrase. Both are read when the daemon starts."},
    {"listen.gateways", CONF_STRING, AT(listen_gateways), "", 0, 0, NULL, check_prefixes,
     "Addresses that many people come from (proxies, NAT, load balancers), with larger shares of the doors: addresses "
     "and prefixes, as 10.0.0.5,2001:db8::/48. Empty: none."},
    {"log.level", CONF_STRING, AT(log_level), "info", 0, 0, NULL, log_spec_check,
     "error, warn, info, debug or trace; by subsystem: info,link=debug."},
    {"log.format", CONF_CHOICE, AT(log_format), "text", 0, 0, "text|json", NULL, "One line an event, as text or JSON."},
    {"journal.dir", CONF_STRING, AT(journal_dir), "", 0, 0, NULL, check_absolute,
     "Where the journal ring lies (tmpfs); empty: a directory in /dev/shm named after the state directory."},
    {"journal.size", CONF_SIZE, AT(journal_size), "64MiB", MIB, 16 * GIB, NULL, check_power_of_two,
     "Size of the journal ring, a power of two; it is allocated at start, and stays as it is while the ring holds what "
     "is not on the disk yet."},
    {"record.release", CONF_FLAG, AT(release_durable), "journaled", 0, 0, "journaled|durable", NULL,
     "When clients see a byte: once it is journaled, or once it is on the disk."},
    {"record.rules", CONF_LIST, 0, NULL, 0, 0, NULL, NULL,
     "What recordings keep; the first match wins. kind: staff, agent, auditor, service or \"*\"; session: terminal, "
     "exec, round, file or \"*\" (all but file, of which metadata is kept where no rule names it); rule: full, "
     "truncated "
     "(head and tail are kept) or metadata."},
    {"record.mask_unechoed_input", CONF_BOOL, AT(mask_input), "true", 0, 0, NULL, NULL,
     "Input that the terminal does not echo is recorded as its length only."},
    {"record.typed_ahead_wait", CONF_DURATION, AT(typed_ahead_ns), "30ms", 0, MINUTE, NULL, NULL,
     "For how long what is typed behind an Enter, in one write of at most 512 bytes with it, may wait for the "
     "terminal's mode, so that a password typed ahead of its prompt is masked; a third of that where no line "
     "editor reads; all waits of a session together, and a twentieth of the time. 0: nothing waits."},
    {"record.min_free", CONF_SIZE, AT(record_min_free), "64MiB", MIB, TIB, NULL, NULL,
     "Free space below which nothing new may start."},
    {"record.retain", CONF_DURATION, AT(record_retain_ns), "0", 0, 3650 * DAY, NULL, NULL,
     "How long sealed recordings are kept; 0: for ever. A shorter time takes effect after record.retain_wait."},
    {"record.retain_wait", CONF_DURATION, AT(record_retain_wait_ns), "24h", 0, 365 * DAY, NULL, NULL,
     "How long a shorter record.retain waits before anything is removed by it, counted from the event config.loaded in "
     "the audit log; a shorter waiting time itself waits for as long as the one before."},
    {"record.segment_size", CONF_SIZE, AT(record_segment_size), "64MiB", MIB, 4 * GIB, NULL, NULL,
     "Size at which the segment log begins a new file."},
    {"grants.ttl", CONF_DURATION, AT(grant_ttl_ns), "15m", NS_PER_SEC, 3650 * DAY, NULL, NULL,
     "How long a grant lasts when nobody says."},
    {"grants.ttl_max", CONF_DURATION, AT(grant_ttl_max_ns), "24h", NS_PER_SEC, 3650 * DAY, NULL, NULL,
     "The longest grant that may be made."},
    {"grants.renew_max", CONF_DURATION, AT(grant_renew_max_ns), "0", 0, 3650 * DAY, NULL, NULL,
     "How long a grant may last with all its renewals, from when it was issued first; 0: its holder cannot renew it."},
    {"grants.warn", CONF_DURATION, AT(grant_warn_ns), "60s", 0, DAY, NULL, NULL,
     "How long before its grant ends a session is warned."},
    {"staff", CONF_LIST, 0, NULL, 0, 0, NULL, NULL,
     "Who may log in by public key: principal, keys (OpenSSH lines), agents (names or \"*\"), scopes, ttl."},
    {"ssh.max_connections", CONF_NUMBER, AT(ssh_max_connections), "500", 1, 100000, NULL, NULL, "Connections at once."},
    {"ssh.max_per_address", CONF_NUMBER, AT(ssh_max_per_address), "400", 1, 100000, NULL, NULL,
     "Connections at once from one address."},
    {"ssh.max_per_gateway", CONF_NUMBER, AT(ssh_max_per_gateway), "450", 1, 100000, NULL, NULL,
     "Connections at once from one of listen.gateways."},
    {"ssh.max_auth_tries", CONF_NUMBER, AT(ssh_max_auth_tries), "6", 1, 100, NULL, NULL,
     "Failed log-ins after which a connection is closed."},
    {"ssh.max_channels", CONF_NUMBER, AT(ssh_max_channels), "10", 1, 1000, NULL, NULL,
     "Sessions at once on one connection."},
    {"ssh.login_grace", CONF_DURATION, AT(ssh_login_grace_ns), "60s", NS_PER_SEC, HOUR, NULL, NULL, "Time to log in."},
    {"ssh.keepalive", CONF_DURATION, AT(ssh_keepalive_ns), "15s", 0, HOUR, NULL, NULL,
     "How often a silent client is asked whether it is there; 0: never."},
    {"ssh.keepalive_max", CONF_NUMBER, AT(ssh_keepalive_max), "4", 1, 1000, NULL, NULL,
     "Questions without an answer after which it is gone."},
    {"ssh.rekey", CONF_SIZE, AT(ssh_rekey_bytes), "1GiB", MIB, TIB, NULL, NULL,
     "Bytes after which session keys are made anew."},
    {"api.max_body", CONF_SIZE, AT(api_max_body), "1MiB", KIB, 64 * MIB, NULL, NULL, "Largest request body."},
    {"api.max_connections", CONF_NUMBER, AT(api_max_connections), "1000", 1, 100000, NULL, NULL,
     "Connections at once."},
    {"api.max_per_address", CONF_NUMBER, AT(api_max_per_address), "200", 1, 100000, NULL, NULL,
     "Connections at once from one address."},
    {"api.max_per_gateway", CONF_NUMBER, AT(api_max_per_gateway), "800", 1, 100000, NULL, NULL,
     "Connections at once from one of listen.gateways; its connect_rate is as much larger."},
    {"api.connect_rate", CONF_NUMBER, AT(api_connect_rate), "200", 1, 100000, NULL, NULL,
     "New connections a second from one address; twice as many after a quiet time."},
    {"api.header_timeout", CONF_DURATION, AT(api_header_timeout_ns), "10s", NS_PER_SEC, HOUR, NULL, NULL,
     "Time to send the header of a request."},
    {"api.idle_timeout", CONF_DURATION, AT(api_idle_timeout_ns), "75s", NS_PER_SEC, DAY, NULL, NULL,
     "How long a silent connection is kept."},
    {"metrics.open_on_loopback", CONF_BOOL, AT(metrics_open_on_loopback), "false", 0, 0, NULL, NULL,
     "Whether GET /metrics from a loopback address needs no credential. Whoever can open a connection there reads it."},
    {"metrics.token_file", CONF_STRING, AT(metrics_token_file), "", 0, 0, NULL, NULL,
     "Path of a file with a token on each line (32 to 512 characters) that opens /metrics and nothing else, read again "
     "at each use; net (uid 64801) has to be able to read it. Empty: none."},
    {"sessions.linger", CONF_DURATION, AT(session_linger_ns), "15m", 0, 30 * DAY, NULL, NULL,
     "How long a terminal waits for a client after the last one left."},
    {"sessions.max", CONF_NUMBER, AT(sessions_max), "2000", 1, 1000000, NULL, NULL,
     "Sessions at once; of these one principal that is not staff may have three quarters. Staff may open 64 beyond "
     "it."},
    {"sessions.max_per_agent", CONF_NUMBER, AT(sessions_max_per_agent), "500", 1, 1000000, NULL, NULL,
     "Sessions at once in one sandbox, 1000 at most whatever stands here. Staff may open 16 beyond it."},
    {"rounds.timeout", CONF_DURATION, AT(round_timeout_ns), "10m", NS_PER_MS, 3650 * DAY, NULL, NULL,
     "Timeout of a round that names none."},
    {"rounds.timeout_max", CONF_DURATION, AT(round_timeout_max_ns), "24h", NS_PER_SEC, 3650 * DAY, NULL, NULL,
     "The longest timeout a round may ask for."},
    {"rounds.wait_max", CONF_DURATION, AT(round_wait_max_ns), "60s", 0, HOUR, NULL, NULL,
     "How long a call may wait for its round."},
    {"rounds.kill_grace", CONF_DURATION, AT(round_kill_grace_ns), "2s", 0, HOUR, NULL, NULL,
     "Time between TERM and KILL."},
    {"rounds.head", CONF_SIZE, AT(round_head), "512KiB", 0, 64 * MIB, NULL, NULL,
     "Bytes of each stream's beginning in an answer."},
    {"rounds.tail", CONF_SIZE, AT(round_tail), "512KiB", 0, 64 * MIB, NULL, NULL,
     "Bytes of each stream's end in an answer."},
    {"rounds.keep", CONF_DURATION, AT(round_keep_ns), "15m", NS_PER_SEC, 30 * DAY, NULL, NULL,
     "How long a finished round's answer stays at hand; the record has it longer."},
    {"rounds.keep_max", CONF_NUMBER, AT(round_keep_max), "100", 1, 100000, NULL, NULL,
     "Finished sessions at hand at once; older ones are answered from the record."},
    {"rounds.keep_size", CONF_SIZE, AT(round_keep_size), "32MiB", MIB, 1024 * MIB, NULL, NULL,
     "Bytes of answers at hand at once."},
    {"rounds.pty", CONF_BOOL, AT(round_pty), "false", 0, 0, NULL, NULL,
     "Rounds may have a terminal, where their grant has scope terminal as well."},
    {"rounds.argv_max", CONF_SIZE32, AT(round_argv_max), "128KiB", KIB, MIB, NULL, NULL,
     "Bytes of arguments and environment together."},
    {"rounds.output_keep", CONF_DURATION, AT(output_keep_ns), "24h", 0, 30 * DAY, NULL, NULL,
     "How long the whole output of a round is kept behind its end, apart from what its recording keeps; record.retain, "
     "where that is shorter. 0: it is not kept."},
    {"rounds.output_keep_max", CONF_NUMBER, AT(output_keep_max), "10000", 1, 10000000, NULL, NULL,
     "Rounds of one agent whose output is kept."},
    {"rounds.output_keep_size", CONF_SIZE, AT(output_keep_size), "1GiB", MIB, 1024 * TIB, NULL, NULL,
     "Bytes on the disk, compressed, for the output of one agent's rounds; past it the oldest round's goes."},
    {"rounds.output_keep_stream", CONF_SIZE, AT(output_keep_stream), "256MiB", MIB, TIB, NULL, NULL,
     "Bytes on the disk, compressed, for one stream of one round; past it the oldest middle goes: the first eighth and "
     "the newest bytes stay."},
    {"rounds.output_keep_total", CONF_SIZE, AT(output_keep_total), "16GiB", MIB, 1024 * TIB, NULL, NULL,
     "Bytes on the disk for all of it. With less than twice record.min_free left on the disk the oldest goes, whatever "
     "the limits."},
    {"files.timeout", CONF_DURATION, AT(file_timeout_ns), "10m", NS_PER_SEC, 3650 * DAY, NULL, NULL,
     "Timeout of a file transfer that names none."},
    {"files.timeout_max", CONF_DURATION, AT(file_timeout_max_ns), "24h", NS_PER_SEC, 3650 * DAY, NULL, NULL,
     "The longest timeout a file transfer may ask for."},
    {"files.changes", CONF_BOOL, AT(file_changes), "true", 0, 0, NULL, NULL,
     "Behind the end of rounds and terminals the workspace is looked at, and the audit log told what changed."},
    {"filespace.url", CONF_STRING, AT(filespace_url), "", 0, 0, NULL, check_store_url,
     "The owner's file store, https://HOST/PATH (docs/filespace.md); http:// for one on this machine. Empty: there is "
     "none, and workspaces are not synced."},
    {"filespace.token_file", CONF_STRING, AT(filespace_token_file), "", 0, 0, NULL, check_absolute,
     "A file with the bearer token that the store is shown, over TLS alone. Read again each minute."},
    {"filespace.ca_file", CONF_STRING, AT(filespace_ca_file), "", 0, 0, NULL, check_absolute,
     "Certificates (PEM) that the store's may hang on; empty: the system's."},
    {"filespace.ignore", CONF_STRING, AT(filespace_ignore), "", 0, 0, NULL, check_ignore,
     "Rules as in .gitignore, separated by white space, 62 at most, of what is not synced: node_modules/ *.o. Of a "
     "workspace; .muxd is "
     "never synced."},
    {"filespace.timeout", CONF_DURATION, AT(filespace_timeout_ns), "30s", NS_PER_SEC / 10, HOUR, NULL, NULL,
     "How long one request to the store may take. A sync is tried twice."},
    {"filespace.max_files", CONF_NUMBER, AT(filespace_max_files), "20000", 1, 100000, NULL, NULL,
     "Files of one workspace, and of its space in the store; a sync of more is refused before it begins."},
    {"filespace.max_file_size", CONF_SIZE, AT(filespace_max_file_size), "16MiB", KIB, 64 * MIB, NULL, NULL,
     "A larger file stays where it is, and the sync says so."},
    {"artifacts.keep", CONF_DURATION, AT(artifact_keep_ns), "7d", 0, 3650 * DAY, NULL, NULL,
     "How long an artifact is kept, from its put on; what stands here then is what counts for it. 0: until it is "
     "deleted."},
    {"artifacts.size", CONF_SIZE, AT(artifact_size), "16GiB", MIB, 1024 * TIB, NULL, NULL,
     "Bytes on the disk for all artifacts; the same content is there once. None is made with less than twice "
     "record.min_free left on the disk."},
    {"artifacts.size_max", CONF_SIZE, AT(artifact_size_max), "1GiB", KIB, 1024 * TIB, NULL, NULL,
     "Bytes of one artifact."},
    {"artifacts.task_size", CONF_SIZE, AT(artifact_task_size), "4GiB", KIB, 1024 * TIB, NULL, NULL,
     "Bytes of all artifacts of one principal in one task."},
    {"artifacts.task_max", CONF_NUMBER, AT(artifact_task_max), "1000", 1, 100000, NULL, NULL,
     "Artifacts of one principal in one task."},
    {"pool.size", CONF_NUMBER, AT(pool_size), "0", 0, 1000, NULL, NULL,
     "Sandboxes kept ready for leases, at least; 0: each lease has one made. The environment's POOL_SIZE goes first."},
    {"pool.max", CONF_NUMBER, AT(pool_max), "0", 0, 1000, NULL, NULL,
     "And at most: as many as were asked for within ten seconds of the last ten minutes; 0, or less than the size: the "
     "size."},
    {"pool.fill", CONF_NUMBER, AT(pool_fill), "2", 1, 64, NULL, NULL, "Sandboxes of the pool that are made at once."},
    {"leases.max", CONF_NUMBER, AT(leases_max), "100", 1, 10000, NULL, NULL, "Leases that live at once."},
    {"leases.ttl", CONF_DURATION, AT(lease_ttl_ns), "15m", NS_PER_SEC, 365 * DAY, NULL, NULL,
     "Time of a lease that names none, from each heartbeat on. The environment's LEASE_TTL_SECONDS goes first."},
    {"leases.ttl_max", CONF_DURATION, AT(lease_ttl_max_ns), "24h", NS_PER_SEC, 365 * DAY, NULL, NULL,
     "The longest time a lease may ask for."},
    {"leases.wait", CONF_DURATION, AT(lease_wait_ns), "30s", NS_PER_SEC, HOUR, NULL, NULL,
     "How long a call waits for a sandbox when none is ready."},
    {"leases.retain", CONF_DURATION, AT(lease_retain_ns), "30d", 0, 3650 * DAY, NULL, NULL,
     "How long ended leases and their runs are kept; 0: for ever."},
    {"leases.run_timeout", CONF_DURATION, AT(run_timeout_ns), "10m", NS_PER_SEC, 30 * DAY, NULL, NULL,
     "Timeout of a run where neither the call nor its workflow names one. The environment's SANDBOX_TIMEOUT_SECONDS "
     "goes first."},
    {"leases.run_timeout_max", CONF_DURATION, AT(run_timeout_max_ns), "24h", NS_PER_SEC, 30 * DAY, NULL, NULL,
     "The longest timeout a run or one of its steps may ask for."},
    {"policy.file", CONF_STRING, AT(policy_file), "", 0, 0, NULL, check_absolute,
     "Task profiles (docs/policy.md); read again with the configuration. Empty: what grants allow is allowed."},
    {"shares.rounds_per_principal", CONF_NUMBER, AT(share_most[CONF_SHARE_ROUNDS][CONF_SHARE_PRINCIPAL]), "0", 0,
     1000000, NULL, NULL,
     "Rounds and executions of one principal at a time; 0: no limit of its own. Staff are not counted."},
    {"shares.rounds_per_task", CONF_NUMBER, AT(share_most[CONF_SHARE_ROUNDS][CONF_SHARE_TASK]), "0", 0, 1000000, NULL,
     NULL, "Rounds and executions of one task at a time; 0: no limit of its own. Staff are not counted."},
    {"shares.rounds_per_agent", CONF_NUMBER, AT(share_most[CONF_SHARE_ROUNDS][CONF_SHARE_AGENT]), "0", 0, 1000000, NULL,
     NULL, "Rounds and executions of one agent at a time; 0: no limit of its own. Staff are not counted."},
    {"shares.sessions_per_principal", CONF_NUMBER, AT(share_most[CONF_SHARE_SESSIONS][CONF_SHARE_PRINCIPAL]), "0", 0,
     1000000, NULL, NULL,
     "Terminals, programs over SSH and connections to ports of one principal at a time; 0: no limit of its own."},
    {"shares.sessions_per_task", CONF_NUMBER, AT(share_most[CONF_SHARE_SESSIONS][CONF_SHARE_TASK]), "0", 0, 1000000,
     NULL, NULL,
     "Terminals, programs over SSH and connections to ports of one task at a time; 0: no limit of its own."},
    {"shares.sessions_per_agent", CONF_NUMBER, AT(share_most[CONF_SHARE_SESSIONS][CONF_SHARE_AGENT]), "0", 0, 1000000,
     NULL, NULL,
     "Terminals, programs over SSH and connections to ports of one agent at a time; 0: no limit of its own."},
    {"shares.contexts_per_principal", CONF_NUMBER, AT(share_most[CONF_SHARE_CONTEXTS][CONF_SHARE_PRINCIPAL]), "0", 0,
     1000000, NULL, NULL, "Interpreters of contexts of one principal at a time; 0: no limit of its own."},
    {"shares.contexts_per_task", CONF_NUMBER, AT(share_most[CONF_SHARE_CONTEXTS][CONF_SHARE_TASK]), "0", 0, 1000000,
     NULL, NULL, "Interpreters of contexts of one task at a time; 0: no limit of its own."},
    {"shares.contexts_per_agent", CONF_NUMBER, AT(share_most[CONF_SHARE_CONTEXTS][CONF_SHARE_AGENT]), "0", 0, 1000000,
     NULL, NULL, "Interpreters of contexts of one agent at a time; 0: no limit of its own."},
    {"shares.input_rate_per_principal", CONF_SIZE, AT(share_input_rate[CONF_SHARE_PRINCIPAL]), "0", 0, TIB, NULL, NULL,
     "Bytes a second that programs of one principal are sent together, keys not counted; 0: no limit."},
    {"shares.input_rate_per_task", CONF_SIZE, AT(share_input_rate[CONF_SHARE_TASK]), "0", 0, TIB, NULL, NULL,
     "Bytes a second that programs of one task are sent together, keys not counted; 0: no limit."},
    {"shares.input_rate_per_agent", CONF_SIZE, AT(share_input_rate[CONF_SHARE_AGENT]), "0", 0, TIB, NULL, NULL,
     "Bytes a second that programs of one agent are sent together, keys not counted; 0: no limit."},
    {"shares.output_rate_per_principal", CONF_SIZE, AT(share_output_rate[CONF_SHARE_PRINCIPAL]), "0", 0, TIB, NULL,
     NULL, "Bytes a second that programs of one principal print together; past it they wait. 0: no limit."},
    {"shares.output_rate_per_task", CONF_SIZE, AT(share_output_rate[CONF_SHARE_TASK]), "0", 0, TIB, NULL, NULL,
     "Bytes a second that programs of one task print together; past it they wait. 0: no limit."},
    {"shares.output_rate_per_agent", CONF_SIZE, AT(share_output_rate[CONF_SHARE_AGENT]), "0", 0, TIB, NULL, NULL,
     "Bytes a second that programs of one agent print together; past it they wait. 0: no limit."},
    {"shares.artifacts_per_principal", CONF_NUMBER, AT(share_artifacts[CONF_SHARE_PRINCIPAL]), "0", 0, 10000000, NULL,
     NULL, "Artifacts of one principal, in all tasks; 0: no limit. artifacts.task_max is a task's."},
    {"shares.artifact_size_per_principal", CONF_SIZE, AT(share_artifact_size[CONF_SHARE_PRINCIPAL]), "0", 0, 1024 * TIB,
     NULL, NULL, "Bytes of all artifacts of one principal; 0: no limit. artifacts.task_size is a task's."},
    {"shares.artifacts_per_agent", CONF_NUMBER, AT(share_artifacts[CONF_SHARE_AGENT]), "0", 0, 10000000, NULL, NULL,
     "Artifacts of one agent, in all tasks; 0: no limit. artifacts.task_max is a task's."},
    {"shares.artifact_size_per_agent", CONF_SIZE, AT(share_artifact_size[CONF_SHARE_AGENT]), "0", 0, 1024 * TIB, NULL,
     NULL, "Bytes of all artifacts of one agent; 0: no limit. artifacts.task_size is a task's."},
    {"shares.beside_rate", CONF_SIZE, AT(share_beside_rate), "8MiB", 0, TIB, NULL, NULL,
     "Bytes a second that programs of one agent print together past a burst of 32 MiB, when another agent began "
     "something within ten seconds; 0: no limit. By its weight more or less."},
    {"shares.record_per_agent", CONF_SIZE, AT(share_record), "0", 0, 1024 * TIB, NULL, NULL,
     "Bytes that one agent may add to the record in a day, as its rules keep them, uncompressed; 0: no limit."},
    {"shares.record_low", CONF_SIZE, AT(share_record_low), "256MiB", 0, 1024 * TIB, NULL, NULL,
     "With less than that free on the record's disk, an agent that added more than an even share in a day begins "
     "nothing new and waits; others go on until record.min_free. 0: all go on until then."},
    {"shares.weights", CONF_STRING, AT(share_weights), "", 0, 0, NULL, check_weights,
     "Weights of sandboxes of this machine where processor time is short, by agent: demo=200,ci-*=25; the first that "
     "fits, 1 to 10000, 100 without. A running sandbox keeps its own."},
    {"router.ports", CONF_STRING, AT(router_ports), "1024-65535", 0, 0, NULL, check_ports,
     "Ports in sandboxes that may be connected to: numbers and ranges, as 3000,8000-8999. Empty: none."},
    {"router.runtime", CONF_BOOL, AT(router_runtime), "false", 0, 0, NULL, NULL,
     "Answer port 8888 of sandboxes here, with the calls of agent-sandbox's runtime (docs/agent-sandbox.md)."},
    {"router.answer_timeout", CONF_DURATION, AT(router_answer_timeout_ns), "5m", NS_PER_SEC, DAY, NULL, NULL,
     "How long a server in a sandbox may take until its answer begins."},
    {"router.idle_timeout", CONF_DURATION, AT(router_idle_timeout_ns), "1h", NS_PER_SEC, 30 * DAY, NULL, NULL,
     "A routed connection on which nothing moves for so long is closed."},
    {"sandbox.backend", CONF_CHOICE, AT(sandbox_backend), "local", 0, 0, "local|kubernetes", NULL,
     "Where the sandboxes of agents are. Pods by their own name (namespace/pod) are reached whatever stands here."},
    {"sandbox.workspace_size", CONF_SIZE, AT(workspace_size), "1GiB", 16 * MIB, 16 * TIB, NULL, NULL,
     "Hard cap of /workspace, on either backend."},
    {"sandbox.memory", CONF_SIZE, AT(memory_max), "2GiB", 16 * MIB, 16 * TIB, NULL, NULL,
     "Memory of one sandbox; an eighth of it, from 32 to 128 MiB, is not for programs on the local backend."},
    {"sandbox.pids", CONF_NUMBER, AT(pids_max), "512", 8, 4194304, NULL, NULL,
     "Processes and threads that programs may be at once in one sandbox; 80 more are kept for muxlet and staff."},
    {"sandbox.cpu_milli", CONF_NUMBER, AT(cpu_milli), "2000", 10, 1024000, NULL, NULL,
     "Thousandths of a processor for one sandbox."},
    {"sandbox.shell", CONF_STRING, AT(sandbox_shell), "", 0, 0, NULL, check_absolute,
     "Login shell; empty: bash where there is one, else sh."},
    {"sandbox.persist", CONF_STRING, AT(sandbox_persist), "", 0, 0, NULL, check_persist,
     "Paths outside /workspace that outlive a sleep, as /var/lib/app, /opt/venv; on the local backend."},
    {"sandbox.images", CONF_LIST, 0, NULL, 0, 0, NULL, NULL,
     "Images that agents may have in place of the host's programs: name, archive or dir (an OCI image) and digest; for "
     "pods ref. docs/images.md."},
    {"sandbox.image_size", CONF_SIZE, AT(image_size), "8GiB", MIB, 16 * TIB, NULL, NULL,
     "How much an image may unpack to on this machine."},
    {"sandbox.create_timeout", CONF_DURATION, AT(sandbox_create_timeout_ns), "30s", NS_PER_SEC, HOUR, NULL, NULL,
     "How long a sandbox on this machine may take to be ready."},
    {"kubernetes.kubeconfig", CONF_STRING, AT(kubernetes_kubeconfig), "", 0, 0, NULL, conf_check_kubeconfig,
     "Path of a kubeconfig (several: with : between them), or in-cluster for what a pod is given; empty: no cluster."},
    {"kubernetes.context", CONF_STRING, AT(kubernetes_context), "", 0, 0, NULL, NULL,
     "Context of the kubeconfig; empty: its current-context."},
    {"kubernetes.namespace", CONF_STRING, AT(kubernetes_namespace), "", 0, 0, NULL, conf_check_namespace,
     "Namespace of the sandboxes that muxd makes; empty: the context's."},
    {"kubernetes.cluster_name", CONF_STRING, AT(kubernetes_cluster_name), "", 0, 0, NULL, conf_check_cluster_name,
     "Name by which a caller may ask for this cluster, and that is told of sandboxes in it; empty: none may be named."},
    {"kubernetes.image", CONF_STRING, AT(kubernetes_image), "busybox", 0, 0, NULL, conf_check_image_needed,
     "Image of a sandbox."},
    {"kubernetes.pull_policy", CONF_CHOICE, AT(kubernetes_pull_policy), "IfNotPresent", 0, 0,
     "Always|IfNotPresent|Never", NULL, "When images are fetched."},
    {"kubernetes.init_image", CONF_STRING, AT(kubernetes_init_image), "", 0, 0, NULL, conf_check_image,
     "Image that holds muxlet, for an init container that copies it; empty: muxlet is looked for in the image, else "
     "sent there."},
    {"kubernetes.muxlet_path", CONF_STRING, AT(kubernetes_muxlet_path), "/usr/local/bin/muxlet", 0, 0, NULL,
     check_absolute, "Where muxlet lies in image, init_image and ephemeral_image."},
    {"kubernetes.ephemeral_image", CONF_STRING, AT(kubernetes_ephemeral_image), "", 0, 0, NULL, conf_check_image,
     "Image that holds muxlet, for an ephemeral container in a pod of others that muxlet does not get into (it stays "
     "as long as the pod); empty: none is added."},
    {"kubernetes.runtime_class", CONF_STRING, AT(kubernetes_runtime_class), "", 0, 0, NULL, conf_check_object,
     "Runtime class of the pods, such as gvisor; empty: the cluster's default."},
    {"kubernetes.request_cpu", CONF_STRING, AT(kubernetes_request_cpu), "100m", 0, 0, NULL, conf_check_quantity,
     "Processor time requested, as a quantity of Kubernetes; empty: none."},
    {"kubernetes.request_memory", CONF_STRING, AT(kubernetes_request_memory), "512Mi", 0, 0, NULL, conf_check_quantity,
     "Memory requested; empty: none."},
    {"kubernetes.request_ephemeral", CONF_STRING, AT(kubernetes_request_ephemeral), "", 0, 0, NULL, conf_check_quantity,
     "Ephemeral storage requested; empty: what the limit says, Kubernetes takes that."},
    {"kubernetes.limit_cpu", CONF_STRING, AT(kubernetes_limit_cpu), "2", 0, 0, NULL, conf_check_quantity,
     "Limit of processor time; empty: none."},
    {"kubernetes.limit_memory", CONF_STRING, AT(kubernetes_limit_memory), "2Gi", 0, 0, NULL, conf_check_quantity,
     "Limit of memory; empty: none."},
    {"kubernetes.limit_ephemeral", CONF_STRING, AT(kubernetes_limit_ephemeral), "5Gi", 0, 0, NULL, conf_check_quantity,
     "Limit of ephemeral storage; empty: none."},
    {"kubernetes.workspace", CONF_CHOICE, AT(kubernetes_workspace), "emptydir", 0, 0, "claim|emptydir|memory", NULL,
     "What /workspace is: a claim that outlives the pod, an emptyDir on the node's disk, or one in memory; "
     "sandbox.workspace_size is its size."},
    {"kubernetes.storage_class", CONF_STRING, AT(kubernetes_storage_class), "", 0, 0, NULL, conf_check_object,
     "Storage class of claims; empty: the cluster's default."},
    {"kubernetes.snapshot_class", CONF_STRING, AT(kubernetes_snapshot_class), "", 0, 0, NULL, conf_check_object,
     "Class of the VolumeSnapshots of claims; empty: the cluster's default for their driver."},
    {"kubernetes.node_timeout", CONF_DURATION, AT(kubernetes_node_timeout_ns), "60s", 0, HOUR, NULL, NULL,
     "How long the cluster waits for a node that is lost before it takes its pods away; 0: its own default."},
    {"kubernetes.hold", CONF_CHOICE, AT(kubernetes_hold), "pod", 0, 0, "pod|sandbox", NULL,
     "What an agent's sandbox is to the cluster: a pod, or a Sandbox of agents.x-k8s.io, whose controller makes the "
     "pod."},
    {"kubernetes.sandbox_api", CONF_CHOICE, AT(kubernetes_sandbox_api), "auto", 0, 0, "auto|v1alpha1|v1beta1", NULL,
     "Version of agents.x-k8s.io in which muxd speaks of a Sandbox; auto: the newest of these that the cluster "
     "serves."},
    {"kubernetes.warm_pool", CONF_STRING, AT(kubernetes_warm_pool), "", 0, 0, NULL, conf_check_object,
     "SandboxWarmPool out of which sandboxes are claimed, with kubernetes.hold: sandbox; empty: muxd makes them."},
    {"kubernetes.backend", CONF_CHOICE, AT(kubernetes_backend), "auto", 0, 0, "auto|link|plain", NULL,
     "How sessions reach a pod: through muxlet (link), by an exec each (plain), or through muxlet where it can run."},
    {"kubernetes.plain_programs", CONF_NUMBER, AT(kubernetes_plain_programs), "64", 1, 1000, NULL, NULL,
     "Programs that run at a time in one container that is reached by an exec each; fewer where the cluster refuses "
     "more."},
    {"kubernetes.plain_wait", CONF_DURATION, AT(kubernetes_plain_wait_ns), "5m", NS_PER_SEC, HOUR, NULL, NULL,
     "How long such a program waits for its turn."},
    {"kubernetes.create_timeout", CONF_DURATION, AT(kubernetes_create_timeout_ns), "2m", NS_PER_SEC, HOUR, NULL, NULL,
     "How long a pod may take to be ready."},
    {"kubernetes.admission_user", CONF_STRING, AT(kubernetes_admission_user), "", 0, 0, NULL, NULL,
     "Who this daemon is to the cluster, such as system:serviceaccount:muxd:muxd: the only one that its admission "
     "webhook "
     "lets into the sandboxes; empty: no webhook."},
    {"kubernetes.admission_namespaces", CONF_STRING, AT(kubernetes_admission_namespaces), "", 0, 0, NULL,
     conf_check_namespaces,
     "Namespaces of sandboxes besides kubernetes.namespace, a,b, into which the webhook lets nobody by way of a node's "
     "kubelet (nodes/proxy); the others it learns by their label."},
    {"kubernetes.staff", CONF_BOOL, AT(kubernetes_staff), "false", 0, 0, NULL, NULL,
     "Whoever may exec into a pod by the cluster's own rules may open a grant for it with a token of the cluster."},
    {"kubernetes.staff_audience", CONF_STRING, AT(kubernetes_staff_audience), "muxd", 0, 0, NULL, NULL,
     "Audience that such a token must have; empty: that of the API server."},
    {"kubernetes.staff_scopes", CONF_STRING, AT(kubernetes_staff_scopes), "terminal,rounds,files,observe,drive", 0, 0,
     NULL, conf_check_scopes, "The most that such a grant may hold."},
    {"kubernetes.staff_ttl", CONF_DURATION, AT(kubernetes_staff_ttl_ns), "1h", NS_PER_SEC, 3650 * DAY, NULL, NULL,
     "The longest that such a grant may last; grants.ttl_max bounds it too."},
    {"kubernetes.pod_template", CONF_STRING, AT(kubernetes_pod_template), "", 0, 0, NULL, check_absolute,
     "A file with a pod template, YAML or JSON, that is merged over every pod muxd makes; empty: none."},
    {"kubernetes.pod_template_config_maps", CONF_STRING, AT(kubernetes_template_config_maps), "", 0, 0, NULL,
     conf_check_objects, "ConfigMaps that a pod template may name, a,b; empty: none."},
    {"kubernetes.pod_template_secrets", CONF_STRING, AT(kubernetes_template_secrets), "", 0, 0, NULL,
     conf_check_objects, "Secrets that a pod template may mount or take variables from, a,b; empty: none."},
    {"kubernetes.pod_template_claims", CONF_STRING, AT(kubernetes_template_claims), "", 0, 0, NULL, conf_check_objects,
     "PersistentVolumeClaims that a pod template may mount, a,b; empty: none."},
    {"kubernetes.pod_template_priority_classes", CONF_STRING, AT(kubernetes_template_priorities), "", 0, 0, NULL,
     conf_check_objects, "Priority classes that an agent's own pod template may name, a,b; empty: none."},
    {"kubernetes.pod_template_per_create", CONF_CHOICE, AT(kubernetes_template_per_create), "nobody", 0, 0,
     "nobody|admin|lifecycle", NULL,
     "Scope that may give an agent a pod template of its own with a resume or a fork. With lifecycle, whoever holds it "
     "reaches every ConfigMap, Secret and claim of the three lists."},
    {"kubernetes.labels", CONF_LIST, 0, NULL, 0, 0, NULL, NULL,
     "Labels of every pod and claim that muxd makes, a mapping; agent_id and compute_session_id are muxd's own."},
    {"lifecycle.idle_ttl", CONF_DURATION, AT(life_idle_ttl_ns), "1h", 0, 3650 * DAY, NULL, NULL,
     "How long nothing happens before a sandbox is snapshotted and stopped; 0: never. A running round or transfer "
     "holds "
     "the timer."},
    {"lifecycle.idle_warning", CONF_DURATION, AT(life_idle_warning_ns), "60s", 0, DAY, NULL, NULL,
     "How long before that stop attached terminals are warned; 0: not at all."},
    {"lifecycle.hold_attached", CONF_BOOL, AT(life_hold_attached), "false", 0, 0, NULL, NULL,
     "A terminal that is attached and silent holds the timer."},
    {"lifecycle.cpu_counts", CONF_BOOL, AT(life_cpu_counts), "false", 0, 0, NULL, check_cpu_counts,
     "Whether work inside that nobody watches is activity. Only false is supported."},
    {"lifecycle.ttl", CONF_DURATION, AT(life_ttl_ns), "0", 0, 3650 * DAY, NULL, NULL,
     "How long a sandbox lives after it was made or forked, whatever happens in it; 0: no end."},
    {"lifecycle.ttl_action", CONF_CHOICE, AT(life_ttl_action), "stop", 0, 0, "stop|delete", NULL,
     "What happens then: a stop with a snapshot, or sandbox, workspace and snapshots go for ever."},
    {"lifecycle.at_rest", CONF_CHOICE, AT(life_at_rest), "drop", 0, 0, "drop|keep", NULL,
     "The workspace of a stopped sandbox whose snapshot is ready: drop it, and restore it at the next start, or keep "
     "it."},
    {"lifecycle.terminate", CONF_CHOICE, AT(life_terminate), "keep", 0, 0, "keep|snapshot", NULL,
     "What an end by request does with the workspace when its reason says nothing else: keep it as it is, or take a "
     "snapshot."},
    {"lifecycle.snapshot_reasons", CONF_STRING, AT(life_snapshot_reasons), "", 0, 0, NULL, NULL,
     "Reasons of an end, by their first words, with commas between them, for which a snapshot is taken."},
    {"lifecycle.keep_reasons", CONF_STRING, AT(life_keep_reasons), "", 0, 0, NULL, NULL,
     "The same, for which none is taken."},
    {"lifecycle.keep_snapshots", CONF_NUMBER, AT(life_keep_snapshots), "10", 1, 100000, NULL, NULL,
     "Snapshots of an agent that are kept; the oldest go first, the current one never."},
    {"lifecycle.forks_max", CONF_NUMBER, AT(life_forks_max), "64", 1, 100000, NULL, NULL,
     "Forks without a name of their own that an agent has at a time, asleep or not."},
    {"lifecycle.keep_age", CONF_DURATION, AT(life_keep_age_ns), "30d", 0, 3650 * DAY, NULL, NULL,
     "Age at which a snapshot that is not the current one goes; 0: never."},
    {"lifecycle.start_timeout", CONF_DURATION, AT(life_start_timeout_ns), "120s", NS_PER_SEC, DAY, NULL, NULL,
     "How long a call waits for a sandbox to be restored and started; the start itself goes on."},
    {"lifecycle.snapshot_timeout", CONF_DURATION, AT(life_snapshot_timeout_ns), "5m", NS_PER_SEC, DAY, NULL, NULL,
     "How long a snapshot may take, with its proof; a restore may take four times as long."},
    {"lifecycle.speed", CONF_NUMBER, AT(life_speed), "1", 1, 1000000, NULL, NULL,
     "For tests: the clock of idle_ttl, idle_warning, ttl and keep_age runs that many times faster. Nothing else "
     "does."},
    {"lifecycle.agents", CONF_LIST, 0, NULL, 0, 0, NULL, NULL,
     "Agents that do otherwise: agent (a name, or the beginning of names and *), idle_ttl, ttl, ttl_action, "
     "hold_attached, at_rest. The first entry that fits counts."},
    {"issuers", CONF_LIST, 0, NULL, 0, 0, NULL, NULL,
     "Outside issuers whose tokens are exchanged for grants: name, issuer (its URL), jwks_url, audience, ca, typ, "
     "loopback, principal, require, kinds, kind_claim, agents, agents_claim, scopes, scopes_claim, ttl, lifetime, "
     "skew, "
     "refresh, keep, timeout, exchanges, reason, task. docs/issuers.md says what each means."},
    {"witnesses", CONF_LIST, 0, NULL, 0, 0, NULL, NULL,
     "Whom the record's signed heads are carried to: name, kind (file, https, muxd, syslog, timestamp, s3), path, url "
     "or "
     "address, server_name, ca, tsa_ca, credential (a file with a bearer token), certificate, certificate_key, region, "
     "lock, lock_mode, key "
     "(of its receipts), interval, timeout, on_seal, refuse_after."},
    {"witness.pushers", CONF_LIST, 0, NULL, 0, 0, NULL, NULL,
     "Other daemons whose heads this one keeps and countersigns: name, log_id, keys (public record keys), merge (true: "
     "the entries of that log are kept beside this one's, too)."},
    {"edge.centre", CONF_STRING, AT(edge_centre), "", 0, 0, NULL, conf_check_https_url,
     "Of an edge (muxd serve --edge): the URL of its centre's API door, which it asks for revocations."},
    {"edge.centre_keys", CONF_STRING, AT(edge_centre_keys), "", 0, 0, NULL, check_absolute,
     "Of an edge: a file with the centre's id and the public keys of its leases, as muxctl edge show prints there."},
    {"edge.ca", CONF_STRING, AT(edge_ca), "", 0, 0, NULL, check_absolute,
     "Of an edge: certificates that the centre's may hang on, a PEM file; those of the system do not count."},
    {"edge.poll", CONF_DURATION, AT(edge_poll_ns), "2s", NS_PER_SEC, MINUTE, NULL, NULL,
     "How often an edge asks its centre for revocations."},
    {"edge.state_max", CONF_DURATION, AT(edge_state_max_ns), "10m", 5 * NS_PER_SEC, DAY, NULL, NULL,
     "How old what an edge knows of revocations may be: from then on it refuses every lease."},
    {"edge.lease_max", CONF_DURATION, AT(edge_lease_max_ns), "10m", NS_PER_SEC, DAY, NULL, NULL,
     "The longest lease: what a centre mints, and what an edge takes. It is the default, too."},
    {"edge.known", CONF_LIST, 0, NULL, 0, 0, NULL, NULL,
     "Edges that this daemon is the centre of: name, id and key, as muxctl edge show prints there."},
    {"privsep.net_user", CONF_STRING, AT(net_user), "", 0, 0, NULL, NULL,
     "User of the process with the doors, a name or a number; empty: 64801."},
    {"privsep.recorder_user", CONF_STRING, AT(recorder_user), "", 0, 0, NULL, NULL,
     "User of the recorder, a name or a number; empty: 64802."},
    {"privsep.sandbox_uid_base", CONF_NUMBER, AT(sandbox_uid_base), "64900", 1000, 2000000000, NULL, NULL,
     "First of the user numbers that sandboxes run as: one for each agent that has a directory, running or asleep. "
     "After 65519 come 65536 to 99999; 60000 at most."},
};

#define NKEYS (sizeof(keys) / sizeof(keys[0]))

const struct conf_key *conf_keys(size_t *out_n)
{
	*out_n = NKEYS;
	return keys;
}

int conf_parse_size(const char *s, uint64_t *out)
{
	static const struct {
		const char *name;
		uint64_t factor;
	} units[] = {{"", 1},
		     {"B", 1},
		     {"KiB", KIB},
		     {"MiB", MIB},
		     {"GiB", GIB},
		     {"TiB", TIB},
		     {"KB", 1000},
		     {"kB", 1000},
		     {"MB", 1000000},
		     {"GB", 1000000000},
		     {"TB", UINT64_C(1000000000000)}};
	size_t digits = strspn(s, "0123456789");
	uint64_t n = 0;

	if (digits == 0 || digits > 18)
		return ERR_INVAL;
	for (size_t i = 0; i < digits; i++)
		n = n * 10 + (uint64_t)(s[i] - '0');
	s += digits;
	s += strspn(s, " ");
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(units[i].name, s) != 0)
			continue;
		if (n > UINT64_MAX / units[i].factor)
			return ERR_INVAL;
		*out = n * units[i].factor;
		return 0;
	}
	return ERR_INVAL;
}

/* Edit distance; words longer than the row are far away from everything. */
static size_t distance(const char *a, size_t alen, const char *b, size_t blen)
{
	size_t row[64];

	if (alen >= 64 || blen >= 64)
		return SIZE_MAX;
	for (size_t j = 0; j <= blen; j++)
		row[j] = j;
	for (size_t i = 1; i <= alen; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= blen; j++) {
			size_t change = diagonal + (a[i - 1] != b[j - 1]);
			diagonal = row[j];
			size_t add = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
			row[j] = change < add ? change : add;
		}
	}
	return row[blen];
}

static size_t distance_allowed(size_t len)
{
	return len / 4 < 2 ? len / 3 + (len < 3) : len / 4;
}

const char *conf_key_nearest(const char *path)
{
	const char *leaf = strrchr(path, '.') ? strrchr(path, '.') + 1 : path;
	size_t best = distance_allowed(strlen(path)) + 1;
	const char *found = NULL;

	for (size_t i = 0; i < NKEYS; i++) {
		size_t d = distance(path, strlen(path), keys[i].path, strlen(keys[i].path));
		if (d < best) {
			best = d;
			found = keys[i].path;
		}
	}
	/* The right name in the wrong section, or without one. */
	for (size_t i = 0; i < NKEYS && !found; i++) {
		const char *dot = strchr(keys[i].path, '.');
		if (dot && strcmp(dot + 1, leaf) == 0)
			found = keys[i].path;
	}
	return found;
}

const char *conf_choice_nearest(const char *choices, const char *word, size_t *out_len)
{
	size_t best = distance_allowed(strlen(word)) + 1;
	const char *found = NULL;

	while (*choices) {
		size_t len = strcspn(choices, "|");
		size_t d = distance(word, strlen(word), choices, len);
		if (d < best) {
			best = d;
			found = choices;
			*out_len = len;
		}
		choices += len + (choices[len] == '|');
	}
	return found;
}

/* Which of "a|b|c" it is; -1 when none. */
static int choice_index(const char *choices, const char *word)
{
	for (int i = 0; *choices; i++) {
		size_t len = strcspn(choices, "|");
		if (strlen(word) == len && strncmp(word, choices, len) == 0)
			return i;
		choices += len + (choices[len] == '|');
	}
	return -1;
}

static int set_string(char **field, const char *text, struct err *e)
{
	if (strlen(text) > STRING_MAX)
		return err_set(e, ERR_CONFIG, "has more than %d characters", STRING_MAX);
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return err_set(e, ERR_CONFIG, "has a control character");
	char *copy = strdup(text);
	if (!copy)
		return err_set(e, ERR_NOMEM, "no memory for the configuration");
	free(*field);
	*field = copy;
	return 0;
}

static int no_choice(const struct conf_key *k, const char *text, struct err *e)
{
	size_t len = 0;
	const char *near = conf_choice_nearest(k->choices, text, &len);

	if (near)
		return err_set(e, ERR_CONFIG, "is \"%.64s\": did you mean %.*s?", text, (int)len, near);
	return err_set(e, ERR_CONFIG, "is \"%.64s\", known are: %s", text, k->choices);
}

static int set_bool(bool *field, const char *text, struct err *e)
{
	bool yes = choice_index("true|yes|on", text) >= 0;

	if (!yes && choice_index("false|no|off", text) < 0)
		return err_set(e, ERR_CONFIG, "is \"%.64s\", neither true nor false", text);
	*field = yes;
	return 0;
}

/* The bounds as one would write them. */
static int out_of_bounds(const struct conf_key *k, const char *text, struct err *e)
{
	char min[64], max[64];

	if (k->type == CONF_DURATION) {
		clock_format_duration(k->min, min, sizeof(min));
		clock_format_duration(k->max, max, sizeof(max));
		return err_set(e, ERR_CONFIG, "is %.64s, %s to %s is allowed", text, min, max);
	}
	return err_set(e, ERR_CONFIG, "is %.64s, %llu to %llu is allowed", text, (unsigned long long)k->min,
		       (unsigned long long)k->max);
}

static int read_amount(const struct conf_key *k, const char *text, uint64_t *out, struct err *e)
{
	uint64_t v = 0;

	if (k->type == CONF_DURATION && strcmp(text, "0") != 0 && clock_parse_duration(text, &v) < 0)
		return err_set(e, ERR_CONFIG, "is \"%.64s\", not a duration such as 90s, 15m, 1h30m or 2d", text);
	if ((k->type == CONF_SIZE || k->type == CONF_SIZE32) && conf_parse_size(text, &v) < 0)
		return err_set(e, ERR_CONFIG, "is \"%.64s\", not a size such as 512KiB, 64MiB or 1GB", text);
	if (k->type == CONF_NUMBER && (strspn(text, "0123456789") != strlen(text) || conf_parse_size(text, &v) < 0))
		return err_set(e, ERR_CONFIG, "is \"%.64s\", not a whole number", text);
	if (v < k->min || v > k->max)
		return out_of_bounds(k, text, e);
	*out = v;
	return 0;
}

static int set_amount(void *field, const struct conf_key *k, const char *text, struct err *e)
{
	uint64_t v = 0;
	int rc = read_amount(k, text, &v, e);

	if (rc < 0)
		return rc;
	if (k->type == CONF_NUMBER || k->type == CONF_SIZE32)
		*(uint32_t *)field = (uint32_t)v;
	else
		*(uint64_t *)field = v;
	return 0;
}

int conf_key_set(struct conf *c, const struct conf_key *k, const char *text, struct err *e)
{
	void *field = (char *)c + k->offset;

	if (k->check) {
		struct err why = {0};
		int rc = k->check(text, &why);
		if (rc < 0)
			return err_set(e, ERR_CONFIG, rc == ERR_CONFIG ? "%s" : "is wrong: %s", why.message);
	}
	switch (k->type) {
	case CONF_CHOICE:
		if (choice_index(k->choices, text) < 0)
			return no_choice(k, text, e);
		return set_string(field, text, e);
	case CONF_STRING:
		return set_string(field, text, e);
	case CONF_FLAG:
		if (choice_index(k->choices, text) < 0)
			return no_choice(k, text, e);
		*(bool *)field = choice_index(k->choices, text) == 1;
		return 0;
	case CONF_BOOL:
		return set_bool(field, text, e);
	case CONF_NUMBER:
	case CONF_SIZE:
	case CONF_SIZE32:
	case CONF_DURATION:
		return set_amount(field, k, text, e);
	case CONF_LIST:
		break;
	}
	return err_set(e, ERR_CONFIG, "is a list");
}

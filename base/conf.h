/*
 * conf.h - the configuration: one YAML file, one table of keys, defaults for all.
 *
 * The table in conf.c (key, type, default, bounds, one line of help) makes the
 * parser, `muxd serve --print-config` and docs/man/muxd.conf.5. Unknown keys,
 * wrong types and values out of bounds are ERR_CONFIG with line and column.
 * The monitor reads the file and hands its text to the other processes.
 *
 * A conf is read-only after loading; strings belong to it.
 */
#ifndef BASE_CONF_H
#define BASE_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum conf_rule_kind { RULE_FULL, RULE_TRUNCATED, RULE_METADATA };

/* Which bytes a sealed recording keeps. First match wins; the last rule matches everything. */
struct conf_rule {
	char *kind;    /* staff, agent, auditor, service or "*" */
	char *session; /* terminal, exec, round, file, port, or "*": the first three */
	enum conf_rule_kind rule;
	uint64_t head; /* bytes kept at the start: of a stream (round, exec), of a burst (terminal) */
	uint64_t tail; /* bytes kept at its end */
	bool floor;    /* a profile may have more kept of these, never less (record_rule.h) */
};

/* A person of staff who may log in by public key; the reason is asked for at the prompt. */
struct conf_staff {
	char *principal;
	char **keys; /* OpenSSH one-line public keys */
	size_t nkeys;
	char **agents; /* names, or "*" */
	size_t nagents;
	char *scopes; /* "terminal,observe" */
	uint64_t ttl_ns;
};

/* A witness that the record's signed heads are sent to, docs/witness.md. */
struct conf_witness {
	char *name;
	char *kind;       /* a row of the table in conf_witness.c */
	char *path;       /* file */
	char *url;        /* https, muxd, timestamp */
	char *address;    /* syslog: HOST:PORT, [HOST]:PORT */
	char *name_there; /* syslog: the name that its certificate must have; NULL: the host of the address */
	char *ca;         /* certificates that its own may hang on, a PEM file; NULL: the system's */
	char *tsa_ca;     /* timestamp: certificates that the signer's may hang on, a PEM file */
	char *certificate, *certificate_key; /* PEM files with which this side shows itself; NULL: none */
	char *credential;                    /* a file: a bearer token; NULL: none */
	char *region;                        /* s3 */
	char *lock_mode;                     /* s3: compliance, governance; NULL: compliance */
	char *key; /* base64url, of its receipts; NULL: they are taken at the carrier's word */
	uint64_t interval_ns, timeout_ns;
	uint64_t lock_ns;         /* s3: how long each head is kept from deletion */
	uint64_t refuse_after_ns; /* 0: never */
	bool on_seal;
};

/* An image that sandboxes may have, docs/images.md: archive or dir with digest on this machine, ref for pods. */
#define CONF_IMAGE_NAME_MAX   128
#define CONF_IMAGE_DIGEST_LEN 71 /* "sha256:" and its digits */
struct conf_image {
	char *name;
	char *archive, *dir; /* absolute paths; NULL: not this one */
	char *digest;        /* "sha256:..." */
	char *ref;           /* as pods name it */
};

/* An outside issuer whose tokens are exchanged for grants, docs/issuers.md. Claims are members of its tokens. */
struct conf_issuer {
	char *name;
	char *issuer;    /* its URL, as its tokens' iss has it, byte by byte */
	char *jwks_url;  /* of its keys; NULL: its discovery document names them */
	char *audience;  /* that its tokens must be for, and for nobody else */
	char *ca;        /* certificates that its own may hang on, a PEM file; NULL: the system's */
	char *typ;       /* that the header must have; NULL: "JWT" or none */
	bool loopback;   /* http:// on a loopback address will do */
	char *principal; /* "ci/{sub}": claims in braces */
	char **require;  /* "claim=value", "claim=beginning*": each must hold */
	size_t nrequire;
	char *kinds; /* "agent,service": the first where no claim says which */
	char *kind_claim;
	char **agents; /* names, beginnings of names with a star, or "*" */
	size_t nagents;
	char *agents_claim;   /* those of them that the token is for; NULL: all */
	char *scopes;         /* the most */
	char *scopes_claim;   /* those of them that the token is for; NULL: all */
	uint64_t ttl_ns;      /* the most */
	uint64_t lifetime_ns; /* the longest that a token may last */
	uint64_t skew_ns;     /* between its clock and this one, for what is yet to begin */
	uint64_t refresh_ns;  /* keys older than that are asked for anew */
	uint64_t keep_ns;     /* and count until then, where they cannot be had */
	uint64_t timeout_ns;  /* of one fetch */
	uint64_t exchanges;   /* of one token; 0: any number */
	char *reason; /* why, of a token that is shown at /mcp: claims in braces; NULL: it opens nothing there */
	char *task;   /* the task of such a grant, the same; NULL: none */
};

/* What a receipt of that kind says: "written", "answered", "countersigned", "sent", "timestamped". "": no such kind. */
const char *conf_witness_proof(const char *kind);
/* Is a witness of that kind sent the log's entries, and not its heads alone? */
bool conf_witness_takes_entries(const char *kind);

/* Another muxd whose heads this one keeps and countersigns. */
struct conf_pusher {
	char *name, *log_id;
	char **keys; /* base64url: public record keys that it signed or signs with */
	size_t nkeys;
	bool merge; /* its entries are kept here, too (recorder/chain/merged.h) */
};

/* An edge that this daemon is the centre of (docs/edge.md). */
struct conf_edge {
	char *name, *id; /* id: its instance id */
	char *key;       /* base64url: the public key of its calls */
};

/* A label of every pod that muxd makes. */
struct conf_label {
	char *key, *value;
};

/* What one agent, or those whose names begin so ("ci-*"), do otherwise than the section lifecycle says. */
struct conf_life_agent {
	char *agent;
	uint64_t idle_ttl_ns, ttl_ns; /* UINT64_MAX: not said */
	char *ttl_action, *at_rest;   /* NULL: not said */
	int hold_attached;            /* -1: not said */
};

/* Owners of shares (muxd/hub/record/share.h), and what each may have at a time. */
enum conf_share_of { CONF_SHARE_PRINCIPAL, CONF_SHARE_TASK, CONF_SHARE_AGENT, CONF_SHARE_OFS };
enum conf_share { CONF_SHARE_ROUNDS, CONF_SHARE_SESSIONS, CONF_SHARE_CONTEXTS, CONF_SHARES };

#define CONF_WEIGHT     100 /* of an agent that shares.weights does not name */
#define CONF_WEIGHT_MAX 10000

#define CONF_SPACES           " \t\r\n\v\f" /* between the rules of filespace.ignore */
#define CONF_IGNORE_RULES_MAX 62

#define CONF_IN_CLUSTER "in-cluster"

struct conf {
	/* listen: "" = take the command line's */
	char *listen_https, *listen_ssh;
	char *listen_tls_cert, *listen_tls_key; /* both or neither; "": a certificate of muxd's own */
	char *listen_gateways;                  /* base/prefix.h; "": none */
	char *log_level;                        /* log.level: "info" */
	char *log_format;                       /* log.format: text, json */
	/* journal.* */
	char *journal_dir; /* "" = /dev/shm/muxd-<hash of the state path> */
	uint64_t journal_size;
	/* record.* */
	bool release_durable; /* record.release: journaled, durable */
	struct conf_rule *rules;
	size_t nrules;
	bool mask_input;           /* record.mask_unechoed_input: true */
	uint64_t typed_ahead_ns;   /* record.typed_ahead_wait: 0 = nothing waits */
	uint64_t record_min_free;  /* record.min_free: below it new sessions are refused */
	uint64_t record_retain_ns; /* record.retain: 0 = for ever */
	uint64_t record_retain_wait_ns;
	uint64_t record_segment_size; /* record.segment_size */
	/* grants.* */
	uint64_t grant_ttl_ns, grant_ttl_max_ns, grant_renew_max_ns, grant_warn_ns; /* 15m, 24h, 0, 60s */
	struct conf_staff *staff;
	size_t nstaff;
	/* ssh.* */
	uint32_t ssh_max_connections, ssh_max_per_address, ssh_max_per_gateway, ssh_max_auth_tries, ssh_max_channels;
	uint64_t ssh_login_grace_ns, ssh_keepalive_ns, ssh_rekey_bytes;
	uint32_t ssh_keepalive_max;
	/* api.* */
	uint64_t api_max_body;
	uint32_t api_max_connections, api_max_per_address, api_max_per_gateway, api_connect_rate;
	uint64_t api_header_timeout_ns, api_idle_timeout_ns;
	/* metrics.* */
	bool metrics_open_on_loopback;
	char *metrics_token_file; /* "": none */
	/* sessions.*, rounds.* */
	uint64_t session_linger_ns; /* 15m */
	uint32_t sessions_max, sessions_max_per_agent;
	char descriptors[256]; /* what was cut for want of them, base/descriptors.h; "": nothing */
	uint64_t round_timeout_ns, round_timeout_max_ns, round_wait_max_ns, round_kill_grace_ns;
	uint64_t round_head, round_tail, round_keep_ns; /* answer limits per stream; how long a result stays at hand */
	uint32_t round_keep_max;                        /* finished sessions at hand at once */
	uint64_t round_keep_size;                       /* and bytes of their answers */
	uint32_t round_argv_max;                        /* bytes of argv and environment together */
	bool round_pty;                                 /* rounds may have a terminal */
	uint64_t output_keep_ns;  /* rounds.output_keep: how long whole output is kept behind a round's end; 0: not */
	uint32_t output_keep_max; /* rounds of one agent */
	uint64_t output_keep_size, output_keep_stream, output_keep_total; /* bytes of an agent, a stream, all */
	/* files.* */
	uint64_t file_timeout_ns, file_timeout_max_ns;
	bool file_changes;
	char *filespace_url; /* "": there is no file store (docs/filespace.md) */
	char *filespace_token_file, *filespace_ca_file, *filespace_ignore;
	uint64_t filespace_timeout_ns, filespace_max_file_size;
	uint32_t filespace_max_files;
	/* artifacts.* */
	uint64_t artifact_keep_ns; /* 0: for ever */
	uint64_t artifact_size, artifact_size_max, artifact_task_size;
	uint32_t artifact_task_max;
	/* pool.*, leases.* */
	uint32_t pool_size, pool_max, pool_fill, leases_max;
	uint64_t lease_ttl_ns, lease_ttl_max_ns, lease_wait_ns, lease_retain_ns;
	uint64_t run_timeout_ns, run_timeout_max_ns; /* leases.run_timeout, .run_timeout_max */
	/* policy.* */
	char *policy_file; /* "": none */
	/* shares.*: 0: no limit */
	uint32_t share_most[CONF_SHARES][CONF_SHARE_OFS];
	uint64_t share_input_rate[CONF_SHARE_OFS], share_output_rate[CONF_SHARE_OFS]; /* bytes a second */
	uint32_t share_artifacts[CONF_SHARE_OFS]; /* a task's is artifact_task_max */
	uint64_t share_artifact_size[CONF_SHARE_OFS];
	uint64_t share_beside_rate, share_record, share_record_low; /* of an agent: bytes a second, bytes a day; free */
	char *share_weights;                                        /* conf_weight() */
	/* router.* */
	bool router_runtime;
	char *router_ports; /* base/ports.h; "": none */
	uint64_t router_answer_timeout_ns, router_idle_timeout_ns;
	/* sandbox.* */
	char *sandbox_backend; /* local, kubernetes: where agents without a slash in their name are */
	uint64_t workspace_size, memory_max;
	uint32_t pids_max, cpu_milli;
	char *sandbox_shell;   /* "" = bash where there is one, else sh */
	char *sandbox_persist; /* base/persist.h; "": none */
	struct conf_image *images;
	size_t nimages;
	uint64_t image_size; /* bytes that one may unpack to */
	uint64_t sandbox_create_timeout_ns;
	/* kubernetes.*: strings are "" where nothing is said; quantities as Kubernetes writes them */
	char *kubernetes_kubeconfig; /* path, paths with ':', or CONF_IN_CLUSTER; "": no cluster */
	char *kubernetes_context, *kubernetes_namespace;
	char *kubernetes_cluster_name; /* what callers call this cluster; "": nobody may name one */
	char *kubernetes_image, *kubernetes_pull_policy, *kubernetes_init_image;
	char *kubernetes_ephemeral_image;
	char *kubernetes_muxlet_path; /* where muxlet lies in image and init_image */
	char *kubernetes_runtime_class;
	char *kubernetes_request_cpu, *kubernetes_request_memory, *kubernetes_request_ephemeral;
	char *kubernetes_limit_cpu, *kubernetes_limit_memory, *kubernetes_limit_ephemeral;
	char *kubernetes_workspace; /* claim, emptydir, memory; its size is workspace_size */
	char *kubernetes_storage_class, *kubernetes_snapshot_class;
	uint64_t kubernetes_node_timeout_ns; /* 0: the cluster's default */
	char *kubernetes_warm_pool;
	char *kubernetes_hold, *kubernetes_sandbox_api; /* pod, sandbox; auto, v1alpha1, v1beta1 */
	char *kubernetes_backend;                       /* auto, link, plain */
	uint32_t kubernetes_plain_programs;             /* of one container at a time */
	uint64_t kubernetes_plain_wait_ns;
	uint64_t kubernetes_create_timeout_ns;
	char *kubernetes_admission_user;       /* who muxd is to the cluster; "": the webhook answers nobody */
	char *kubernetes_admission_namespaces; /* with sandboxes, besides kubernetes_namespace: "a,b" */
	bool kubernetes_staff;                 /* who may exec in Kubernetes may open a grant */
	char *kubernetes_staff_audience, *kubernetes_staff_scopes;
	uint64_t kubernetes_staff_ttl_ns;
	char *kubernetes_pod_template;         /* a file; "": none */
	char *kubernetes_template_config_maps; /* that a template may name: "a,b" */
	char *kubernetes_template_secrets, *kubernetes_template_claims;
	char *kubernetes_template_priorities; /* likewise, of an agent's own: "a,b" */
	char *kubernetes_template_per_create; /* who may give an agent one of its own: nobody, admin, lifecycle */
	struct conf_label *kubernetes_labels;
	size_t kubernetes_nlabels;
	/* lifecycle.*: durations of the clock that lifecycle.speed makes faster, but for start and snapshot_timeout */
	uint64_t life_idle_ttl_ns, life_idle_warning_ns; /* 1h, 60s; 0: never */
	bool life_hold_attached, life_cpu_counts;
	uint64_t life_ttl_ns;  /* 0: none */
	char *life_ttl_action; /* stop, delete */
	char *life_at_rest;    /* drop, keep: the workspace of a stopped sandbox once its snapshot is ready */
	char *life_terminate;  /* keep, snapshot: of an end whose reason says nothing else */
	char *life_snapshot_reasons, *life_keep_reasons; /* "a,b": first words of reasons */
	uint32_t life_keep_snapshots, life_forks_max;
	uint64_t life_keep_age_ns; /* 0: for ever */
	uint64_t life_start_timeout_ns, life_snapshot_timeout_ns;
	uint32_t life_speed;
	struct conf_life_agent *life_agents;
	size_t life_nagents;
	struct conf_issuer *issuers;
	size_t nissuers;
	struct conf_witness *witnesses;
	size_t nwitnesses;
	struct conf_pusher *pushers; /* witness.pushers */
	size_t npushers;
	/* edge.*: of a daemon that is one, and of the centre of others */
	char *edge_centre, *edge_centre_keys, *edge_ca;
	uint64_t edge_poll_ns, edge_state_max_ns, edge_lease_max_ns; /* 2s, 10m, 10m */
	struct conf_edge *edges;                                     /* edge.known */
	size_t nedges;
	/* privsep.* */
	char *net_user, *recorder_user; /* names or numbers; "" = built-in numbers */
	uint32_t sandbox_uid_base;
};

/* All defaults. */
int conf_create(struct conf **out);
/* text: YAML, or empty. name: for messages. ERR_CONFIG: "muxd.yaml:3:7: unknown key ..., did you mean ...". */
int conf_parse(const char *text, size_t len, const char *name, struct conf **out, struct err *e);
int conf_load(const char *path, struct conf **out, struct err *e);
void conf_destroy(struct conf *c);
/* Of an agent by the text of shares.weights (NULL: ""), the first entry that fits. */
unsigned conf_weight(const char *weights, const char *agent);
/* NULL: nobody of that name is staff. */
const struct conf_staff *conf_staff_find(const struct conf *c, const char *principal);
/* May this person reach the agent, or the pod? */
bool conf_staff_covers(const struct conf_staff *s, const char *agent);
/* NULL: there is none of that name. */
const struct conf_image *conf_image_find(const struct conf *c, const char *name);
/* May an agent have it, where this configuration makes its sandbox? ERR_IMAGE_DENIED. */
int conf_image_allowed(const struct conf *c, const char *name, struct err *e);
const struct conf_issuer *conf_issuer_find(const struct conf *c, const char *name);
/* The first whose tokens open /mcp, or the next behind that name; NULL: there is none. */
const struct conf_issuer *conf_issuer_shown(const struct conf *c, const char *behind);
/*
 * What the environment says goes before what the file says: POOL_SIZE, SANDBOX_IMAGE, SANDBOX_TIMEOUT_SECONDS,
 * LEASE_TTL_SECONDS; AUTH_TOKEN_ISSUER and JWKS_URL of the one entry of issuers. Empty is as unset. ERR_CONFIG names
 * the variable.
 */
int conf_environment(struct conf *c, struct err *e);
/* Every key with its default and help, as YAML, to be freed. */
char *conf_describe(void);

#endif

/*
 * link_probe.c - the provider of pods and the link, without the daemon: one program in one pod, like kubectl exec.
 *
 *	link_probe [-n NS] [-i IMAGE] [-I INIT_IMAGE] [-p PULL_POLICY] [-c CPU] [-r RUNTIME_CLASS] [-w
 *claim|emptydir|memory]
 *		[-s WORKSPACE_BYTES] [-t SECONDS] [-m BYTE_OF_MASTER] KUBECONFIG VERB NAME [ARGS]
 *
 * VERB: exec NAME PROGRAM ARGS... (stdin, stdout, stderr; its exit code), attach NAME (like exec, but never makes a
 *pod), stat, destroy, wipe, resolve, drop_workspace NAME; list; take NAME ID, snapshots [NAME], drop NAME ID, restore
 *NAME FROM ID [ro]. -S SNAPSHOT_CLASS, -C STORAGE_CLASS, -t also bounds take and restore, -N seconds a lost node holds
 *a pod, -H VERSION|auto: held by a Sandbox, -W POOL out of that pool, -T SECONDS until it ends. It says on stderr what
 *it got, as lines of "probe: ...". Losses of the stream are taken up again, as the hub does.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "control/kube/client/kube_creds.h"
#include "control/kube/client/kubeconfig.h"
#include "control/kube/client/rest.h"
#include "control/kube/exec/remotecommand.h"
#include "control/kube/pods/provider.h"
#include "muxd/link/link.h"
#include "tests/lib/asks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#define WINDOW (1024 * 1024)

struct probe {
	unsigned not_found;
	uv_loop_t loop;
	uv_timer_t retry, pump;
	struct kube *kube;
	struct sandbox_provider *p;
	struct link *link;
	const char *verb, *name;
	const char *const *argv;
	struct id linked;
	uint64_t timeout_ns;
	uint64_t ttl_ns; /* of its Sandbox; 0: none */
	bool over, opened, eof, eof_sent;
	int code;
	uint64_t have[3], in_offset, consumed;
	uint8_t in[65536];
	size_t in_len;
	unsigned streams;
	uint32_t channel; /* numbers are never used twice in a muxlet's life */
};

static void finish(struct probe *b, int code)
{
	b->over = true;
	b->code = code;
	uv_stop(&b->loop);
}

static void feed(struct probe *b)
{
	while (b->opened && link_state(b->link) == LINK_UP) {
		if (!b->in_len && !b->eof) {
			struct pollfd p = {.fd = 0, .events = POLLIN};
			ssize_t n;

			if (poll(&p, 1, 0) <= 0)
				return;
			n = read(0, b->in, sizeof(b->in));
			b->eof = n <= 0;
			b->in_len = n > 0 ? (size_t)n : 0;
		}
		if (b->in_len) {
			ssize_t took = link_input(b->link, b->channel, b->in_offset, b->in, b->in_len);

			if (took <= 0)
				return;
			b->in_offset += (uint64_t)took;
			b->in_len -= (size_t)took;
			memmove(b->in, b->in + took, b->in_len);
			continue;
		}
		if (b->eof && !b->eof_sent) {
			b->eof_sent = true;
			(void)link_input_eof(b->link, b->channel, b->in_offset);
		}
		return;
	}
}

static void on_pump(uv_timer_t *t)
{
	feed(t->data);
}

static void open_it(struct probe *b)
{
	struct link_open o = {
	    .channel = b->channel, .argv = b->argv, .grace_ms = 1000, .stdin_open = true, .window = WINDOW};
	struct err e = {0};

	if (id_new(&o.session) || link_open(b->link, &o, &e)) {
		fprintf(stderr, "probe: open: %s\n", e.message);
		finish(b, 99);
	}
	b->opened = true;
}

static void on_up(void *arg, const struct link_channel_info *list, size_t n)
{
	struct probe *b = arg;

	fprintf(stderr, "probe: up, stream %u, %zu channels\n", ++b->streams, n);
	if (!b->opened) {
		b->channel = 1 + (uint32_t)getpid() * 16;
		for (size_t i = 0; i < n; i++) {
			b->channel = list[i].channel >= b->channel ? list[i].channel + 1 : b->channel;
			(void)link_forget(b->link, list[i].channel);
		}
		open_it(b);
		feed(b);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		uint64_t have[3] = {list[i].input_consumed, b->have[1], b->have[2]};

		if (list[i].channel != b->channel)
			continue;
		if (list[i].input_consumed != b->in_offset) {
			fprintf(stderr, "probe: %llu bytes of input were not delivered\n",
				(unsigned long long)(b->in_offset - list[i].input_consumed));
			finish(b, 98);
		}
		(void)link_resume(b->link, b->channel, have, WINDOW);
		b->eof_sent = false;
		feed(b);
		return;
	}
	fprintf(stderr, "probe: the channel is gone\n");
	finish(b, 97);
}

static void ask(struct probe *b, bool make);

static void on_retry(uv_timer_t *t)
{
	ask(t->data, false);
}

static void on_down(void *arg, int rc, const char *why)
{
	struct probe *b = arg;

	fprintf(stderr, "probe: down: %s: %s\n", err_name(rc), why);
	if (rc == ERR_PROTOCOL)
		finish(b, 96);
	else
		uv_timer_start(&b->retry, on_retry, 200, 0);
}

static void on_opened(void *arg, uint32_t channel, int rc, const char *why)
{
	(void)channel;
	if (rc)
		fprintf(stderr, "probe: not opened: %s\n", why);
	feed(arg);
}

static void on_data(void *arg, uint32_t channel, int stream, uint64_t offset, const uint8_t *p, size_t n)
{
	struct probe *b = arg;

	if (offset != b->have[stream])
		finish(b, 95);
	for (size_t at = 0; at < n;) {
		ssize_t done = write(stream, p + at, n - at);

		if (done > 0)
			at += (size_t)done;
	}
	b->have[stream] += n;
	(void)link_window(b->link, channel, stream, b->have[stream] + WINDOW);
	(void)link_ack(b->link, channel, stream, b->have[stream]);
}

static void on_consumed(void *arg, uint32_t channel, uint64_t offset)
{
	(void)channel, (void)offset;
	feed(arg);
}

static void on_echo(void *arg, uint32_t channel, enum link_echo mode)
{
	(void)arg, (void)channel, (void)mode;
}

static void on_exited(void *arg, uint32_t channel, const struct link_exit *x)
{
	struct probe *b = arg;

	(void)link_forget(b->link, channel);
	fprintf(stderr, "probe: %s, code %d, signal %d\n", exit_cause_name(x->cause), x->code, x->signal);
	finish(b, x->code >= 0 ? x->code : 128 + x->signal);
}

static const struct link_ops link_callbacks = {.up = on_up,
					       .down = on_down,
					       .opened = on_opened,
					       .data = on_data,
					       .input_consumed = on_consumed,
					       .echo = on_echo,
					       .exited = on_exited};

static const char *yes(bool b)
{
	return b ? "yes" : "no";
}

static void say(const struct sandbox_info *i)
{
	char id[ID_STR_LEN];

	id_format(&i->sandbox_id, id);
	fprintf(stderr,
		"probe: %s %s %s backend=%s delivery=%s cap=%s memory=%s cpu=%s pids=%s workspace=%s why=\"%s\" "
		"detail=\"%s\"\n",
		i->agent, sandbox_state_name(i->state), id, sandbox_backend_name(i->backend), i->delivery,
		yes(i->cap_enforced), yes(i->memory_enforced), yes(i->cpu_enforced), yes(i->pids_enforced),
		yes(i->has_workspace), i->why, i->detail);
}

static void on_stream(void *arg, const struct sandbox_answer *got)
{
	const struct err *e = got->e;
	const struct sandbox_info *info = got->info;
	int fd = got->fd;
	int rc = got->rc;
	struct probe *b = arg;
	struct link_params p = {.name = b->name};

	if (rc == ERR_CANCELLED)
		return;
	if (rc) {
		fprintf(stderr, "probe: %s: %s\n", err_name(rc), e ? e->message : "");
		/* Not there: why comes from the watch, a little later than the end of the stream. */
		if (b->opened && (rc != ERR_NOT_FOUND || b->not_found++ < 20))
			uv_timer_start(&b->retry, on_retry, 500, 0);
		else
			finish(b, 90);
		return;
	}
	say(info);
	if (b->opened && !id_equal(&b->linked, &info->sandbox_id)) {
		fprintf(stderr, "probe: another incarnation\n");
		close(fd);
		finish(b, 91);
		return;
	}
	b->linked = info->sandbox_id;
	memcpy(p.secret, info->secret, sizeof(p.secret));
	if ((!b->link && link_create(&b->loop, &p, &link_callbacks, b, &b->link)) ||
	    link_attach(b->link, fd, info->epoch))
		finish(b, 92);
}

static void ask(struct probe *b, bool make)
{
	if (make && b->ttl_ns)
		b->p->ops->set_end(b->p, b->name, clock_wall_ns() + (int64_t)b->ttl_ns, false);
	if (make)
		ASK(b->p, on_stream, b, .op = SANDBOX_ENSURE, .agent = b->name);
	else
		ASK(b->p, on_stream, b, .op = SANDBOX_CONNECT, .agent = b->name);
}

static void on_answer(void *arg, const struct sandbox_answer *got)
{
	const struct err *e = got->e;
	const struct sandbox_info *info = got->info;
	int rc = got->rc;
	struct probe *b = arg;

	if (rc)
		fprintf(stderr, "probe: %s: %s\n", err_name(rc), e ? e->message : "");
	else
		say(info);
	finish(b, rc ? 90 : 0);
}

static void on_list(void *arg, const struct sandbox_answer *got)
{
	const struct err *e = got->e;
	const struct sandbox_info *list = got->info;
	size_t n = got->n;
	int rc = got->rc;

	if (rc)
		fprintf(stderr, "probe: %s: %s\n", err_name(rc), e ? e->message : "");
	for (size_t i = 0; i < n; i++)
		say(&list[i]);
	finish(arg, rc ? 90 : 0);
}

static void on_snapshots(void *arg, const struct sandbox_answer *got)
{
	const struct err *e = got->e;
	const struct sandbox_snapshot *list = got->snapshots;
	size_t n = got->n;
	int rc = got->rc;

	if (rc)
		fprintf(stderr, "probe: %s: %s\n", err_name(rc), e ? e->message : "");
	for (size_t i = 0; i < n; i++) {
		char id[ID_STR_LEN];

		id_format(&list[i].id, id);
		fprintf(stderr, "probe: snapshot %s of %s: %s %s size=%llu ready=%s detail=\"%s\"\n", id, list[i].agent,
			list[i].how, list[i].name, (unsigned long long)list[i].size, yes(list[i].ready),
			list[i].detail);
	}
	finish(arg, rc ? 90 : 0);
}

static void on_name(void *arg, const struct sandbox_answer *got)
{
	const struct err *e = got->e;
	const char *name = got->name;
	int rc = got->rc;

	fprintf(stderr, "probe: %s: %s\n", rc ? err_name(rc) : "name", rc ? e->message : name);
	finish(arg, rc ? 90 : 0);
}

static void on_gone(void *arg, const char *agent, const struct id *id, const char *why)
{
	struct probe *b = arg;

	(void)id;
	fprintf(stderr, "probe: gone: %s: %s\n", agent, why);
	if (b->opened)
		finish(b, 93);
}

static const struct id *an_id(const struct probe *b, int i)
{
	static struct id id;

	if (!b->argv[i] || id_parse(b->argv[i], &id)) {
		fprintf(stderr, "probe: no id of a snapshot\n");
		exit(64);
	}
	return &id;
}

static void begin(struct probe *b)
{
	const char *name = b->name;

	if (strcmp(b->verb, "exec") == 0 || strcmp(b->verb, "attach") == 0)
		ask(b, b->verb[0] == 'e');
	else if (strcmp(b->verb, "stat") == 0)
		ASK(b->p, on_answer, b, .op = SANDBOX_STAT, .agent = name);
	else if (strcmp(b->verb, "destroy") == 0)
		ASK(b->p, on_answer, b, .op = SANDBOX_DESTROY, .agent = name, .reason = "probe");
	else if (strcmp(b->verb, "wipe") == 0)
		ASK(b->p, on_answer, b, .op = SANDBOX_WIPE, .agent = name, .reason = "probe");
	else if (strcmp(b->verb, "drop_workspace") == 0)
		ASK(b->p, on_answer, b, .op = SANDBOX_DROP_WORKSPACE, .agent = name);
	else if (strcmp(b->verb, "take") == 0)
		ASK(b->p, on_snapshots, b, .op = SANDBOX_TAKE, .agent = name, .snapshot = an_id(b, 0),
		    .timeout_ns = b->timeout_ns);
	else if (strcmp(b->verb, "snapshots") == 0)
		ASK(b->p, on_snapshots, b, .op = SANDBOX_SNAPSHOTS, .agent = *name ? name : NULL);
	else if (strcmp(b->verb, "drop") == 0)
		ASK(b->p, on_snapshots, b, .op = SANDBOX_DROP, .agent = name, .snapshot = an_id(b, 0));
	else if (strcmp(b->verb, "restore") == 0)
		ASK(b->p, on_answer, b, .op = SANDBOX_RESTORE, .agent = name, .from = b->argv[0],
		    .snapshot = an_id(b, 1), .read_only = b->argv[1] && b->argv[2], .timeout_ns = b->timeout_ns);
	else if (strcmp(b->verb, "list") == 0)
		ASK(b->p, on_list, b, .op = SANDBOX_LIST);
	else if (strcmp(b->verb, "resolve") == 0)
		ASK(b->p, on_name, b, .op = SANDBOX_RESOLVE, .agent = name);
	else
		finish(b, 64);
}

static int make_provider(struct probe *b, const char *kubeconfig, struct kube_provider_params *p,
			 struct kube_creds **creds, struct err *e)
{
	struct kubeconfig *k = NULL;
	int rc = kubeconfig_load(kubeconfig, NULL, &k, e);

	if (!rc && (rc = kube_creds_create(&b->loop, k, NULL, creds, e)))
		kubeconfig_destroy(k);
	if (!rc)
		rc = kube_client_create(&b->loop, *creds, NULL, &b->kube, e);
	if (!rc)
		rc = rc_client_create(&b->loop, &p->rc, e);
	p->kube = b->kube;
	p->muxlet_fd = open(getenv("MUXLET") ? getenv("MUXLET") : "build/muxlet", O_RDONLY | O_CLOEXEC);
	if (!rc)
		rc = kube_provider_create(p, &b->p, e);
	close(p->muxlet_fd);
	return rc;
}

int main(int argc, char **argv)
{
	static struct probe b;
	struct kube_provider_params p = {.spec = {.ns = "default",
						  .image = "localhost/busybox:1",
						  .pull_policy = "Never",
						  .muxlet_path = "/usr/local/bin/muxlet",
						  .limit_memory = "512Mi",
						  .limit_cpu = "1",
						  .request_cpu = "10m",
						  .request_memory = "64Mi",
						  .workspace = WORKSPACE_EMPTYDIR,
						  .workspace_size = 1 << 30},
					 .master = {1}};
	struct kube_creds *creds = NULL;
	struct err e = {0};
	int c, rc;

	while ((c = getopt(argc, argv, "+n:i:I:w:s:t:m:p:c:r:S:C:N:H:T:W:")) != -1)
		if (c == 'n')
			p.spec.ns = optarg;
		else if (c == 'i')
			p.spec.image = optarg;
		else if (c == 'I')
			p.spec.init_image = optarg;
		else if (c == 'w')
			p.spec.workspace = *optarg == 'c'   ? WORKSPACE_CLAIM
					   : *optarg == 'm' ? WORKSPACE_MEMORY
							    : WORKSPACE_EMPTYDIR;
		else if (c == 's')
			p.spec.workspace_size = strtoull(optarg, NULL, 10);
		else if (c == 't')
			p.create_timeout_ns = b.timeout_ns = strtoull(optarg, NULL, 10) * NS_PER_SEC;
		else if (c == 'S')
			p.spec.snapshot_class = optarg;
		else if (c == 'C')
			p.spec.storage_class = optarg;
		else if (c == 'T')
			b.ttl_ns = strtoull(optarg, NULL, 10) * NS_PER_SEC;
		else if (c == 'W')
			p.spec.warm_pool = optarg;
		else if (c == 'H') {
			p.spec.hold = KUBE_HOLD_SANDBOX;
			p.spec.sandbox_api = strcmp(optarg, "auto") == 0      ? KUBE_SANDBOX_AUTO
					     : strcmp(optarg, "v1beta1") == 0 ? KUBE_SANDBOX_V1BETA1
									      : KUBE_SANDBOX_V1ALPHA1;
		} else if (c == 'N')
			p.spec.node_timeout_s = strtoull(optarg, NULL, 10);
		else if (c == 'p')
			p.spec.pull_policy = optarg;
		else if (c == 'c')
			p.spec.request_cpu = optarg, p.spec.limit_cpu = "";
		else if (c == 'r')
			p.spec.runtime_class = optarg;
		else if (c == 'm')
			p.master[0] = (uint8_t)strtoul(optarg, NULL, 16);
		else
			return 64;
	if (argc - optind < 2)
		return 64;
	(void)log_setup("probe", getenv("PROBE_LOG") ? getenv("PROBE_LOG") : "warn", LOG_TEXT, 2, NULL);
	signal(SIGPIPE, SIG_IGN);
	uv_loop_init(&b.loop);
	uv_timer_init(&b.loop, &b.retry);
	uv_timer_init(&b.loop, &b.pump);
	b.retry.data = b.pump.data = &b;
	b.verb = argv[optind + 1];
	b.name = argc - optind > 2 ? argv[optind + 2] : "";
	b.argv = argc - optind > 3 ? (const char *const *)argv + optind + 3 : (const char *const[]){"sh", NULL};
	rc = make_provider(&b, argv[optind], &p, &creds, &e);
	if (rc) {
		fprintf(stderr, "probe: %s: %s\n", err_name(rc), e.message);
		return 90;
	}
	b.p->gone = on_gone;
	b.p->gone_arg = &b;
	uv_timer_start(&b.pump, on_pump, 10, 10);
	begin(&b);
	if (!b.over)
		uv_run(&b.loop, UV_RUN_DEFAULT);
	link_destroy(b.link);
	b.p->ops->destroy(b.p);
	rc_client_destroy(p.rc);
	kube_client_destroy(b.kube);
	kube_creds_destroy(creds);
	uv_close((uv_handle_t *)&b.retry, NULL);
	uv_close((uv_handle_t *)&b.pump, NULL);
	while (uv_run(&b.loop, UV_RUN_DEFAULT))
		;
	if (uv_loop_close(&b.loop)) {
		fprintf(stderr, "probe: something was left on the loop\n");
		return 94;
	}
	return b.code;
}

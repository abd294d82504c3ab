/*
 * rc_probe.c - one exec through control/kube/exec/remotecommand.h against a real API server, like kubectl exec. For
 *stories; not installed.
 *
 *	rc_probe KUBECONFIG [-i] [-t COLSxROWS] [-r COLSxROWS] [-k MS] [-d MS] [-n COUNT] NS/POD[/CONTAINER] ARGV...
 *
 * -i stdin too; -t a terminal of that size, with stdin; -r its size from the first output on; -k keepalive, -d dead
 *after; -n as many of them at once, each on a stream of its own (no input; all must end alike). PROBE_LOG=1: the log on
 *stderr.
 *
 * Output and stderr are the program's. Exit code: the program's; where it is not known, that of the error, told on
 * stderr as "CAUSE CODE: MESSAGE". The last line on stderr with PROBE_STATS=1: "version BYTES-OUT BYTES-ERR MS".
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "control/kube/client/kube_creds.h"
#include "control/kube/client/kubeconfig.h"
#include "control/kube/exec/remotecommand.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#define WINDOW (1024 * 1024)

struct probe {
	uv_loop_t loop;
	struct kube_creds *creds;
	struct kube_ask ask;
	uint64_t generation;
	struct rc_client *client;
	struct rc_params params;
	uint16_t later_cols, later_rows;
	unsigned count, ended;
	struct rc_exit exit;
	int version;
	uint64_t begun_ns, total[3];
	/* stdin */
	struct rc_stream *stream; /* of count 1 */
	uv_poll_t input;
	bool pollable, input_over;
	uint8_t read[65536];
	size_t held, taken;
};

struct one {
	struct probe *probe;
	struct rc_stream *stream;
	uint64_t total;
};

static int die(int rc, const struct err *e)
{
	fprintf(stderr, "%s: %s\n", err_name(rc), e->message);
	exit(err_exit_code(rc));
}

/* --- stdin */

static void on_readable(uv_poll_t *h, int status, int events);

static bool push(struct probe *p)
{
	ssize_t n = rc_input(p->stream, p->read + p->taken, p->held - p->taken);

	if (n > 0)
		p->taken += (size_t)n;
	return p->taken == p->held;
}

/* As long as the stream takes it. A file never blocks; anything else is read once for each time that it is readable. */
static void pull(struct probe *p)
{
	bool more = p->params.in && push(p);

	while (more && !p->input_over) {
		ssize_t n = read(0, p->read, sizeof(p->read));

		p->taken = 0;
		p->held = n > 0 ? (size_t)n : 0;
		if (n <= 0) {
			p->input_over = true;
			(void)rc_input_eof(p->stream); /* v4 has none: a program that waits for it waits on */
		}
		more = push(p) && !p->pollable;
	}
	if (!p->pollable)
		return;
	if (p->input_over || p->taken < p->held)
		uv_poll_stop(&p->input);
	else
		uv_poll_start(&p->input, UV_READABLE, on_readable);
}

static void on_readable(uv_poll_t *h, int status, int events)
{
	(void)status;
	(void)events;
	pull(h->data);
}

/* --- the stream */

static void on_opened(void *arg, int version)
{
	struct one *o = arg;

	o->probe->version = version;
	if (o->probe->pollable)
		uv_poll_start(&o->probe->input, UV_READABLE, on_readable);
	else
		pull(o->probe);
}

static void on_data(void *arg, int stream, const uint8_t *p, size_t n)
{
	struct one *o = arg;
	struct probe *probe = o->probe;

	if (probe->count == 1 && (fwrite(p, 1, n, stream == 1 ? stdout : stderr) != n || fflush(stdout)))
		exit(74);
	if (probe->later_cols && probe->total[1] == 0)
		(void)rc_resize(o->stream, probe->later_cols, probe->later_rows);
	probe->total[stream] += n;
	o->total += n;
	rc_window(o->stream, o->total + WINDOW);
}

static void on_writable(void *arg, size_t room)
{
	struct one *o = arg;

	(void)room;
	pull(o->probe);
}

static void on_exited(void *arg, const struct rc_exit *x)
{
	struct one *o = arg;
	struct probe *p = o->probe;

	rc_close(o->stream);
	free(o);
	if (p->ended++ == 0)
		p->exit = *x;
	else if (p->exit.cause != x->cause || p->exit.code != x->code)
		p->exit =
		    (struct rc_exit){.cause = RC_UNKNOWN, .err = {.code = ERR_INTERNAL, .message = "not all alike"}};
	if (p->ended < p->count)
		return;
	p->stream = NULL;
	if (p->pollable)
		uv_close((uv_handle_t *)&p->input, NULL);
	rc_client_destroy(p->client);
	kube_creds_destroy(p->creds);
}

static const struct rc_ops ops = {.opened = on_opened, .data = on_data, .writable = on_writable, .exited = on_exited};

static void with_creds(void *arg, int rc, const struct err *e)
{
	struct probe *p = arg;
	struct err mine = {0};

	if (rc)
		die(rc, e);
	p->begun_ns = clock_boot_ns();
	for (unsigned i = 0; i < p->count; i++) {
		struct one *o = calloc(1, sizeof(*o));

		o->probe = p;
		rc = rc_open(p->client, kube_creds_endpoint(p->creds), &p->params, &ops, o, &o->stream, &mine);
		if (rc)
			die(rc, &mine);
		p->stream = o->stream;
	}
}

static void begin(struct probe *p)
{
	kube_creds_ask(p->creds, &p->ask, 0, with_creds, p);
}

static void size(const char *s, uint16_t *cols, uint16_t *rows)
{
	if (sscanf(s, "%" SCNu16 "x%" SCNu16, cols, rows) != 2)
		exit(64);
}

static int options(struct probe *p, int argc, char **argv)
{
	int o;

	while ((o = getopt(argc, argv, "+it:r:k:d:n:")) != -1) {
		if (o == 'i')
			p->params.in = true;
		else if (o == 't')
			size(optarg, &p->params.cols, &p->params.rows);
		else if (o == 'r')
			size(optarg, &p->later_cols, &p->later_rows);
		else if (o == 'k')
			p->params.keepalive_ms = (uint32_t)atoi(optarg);
		else if (o == 'd')
			p->params.dead_ms = (uint32_t)atoi(optarg);
		else if (o == 'n')
			p->count = (unsigned)atoi(optarg);
		else
			exit(64);
	}
	p->params.tty = p->params.cols > 0;
	p->params.in = p->params.in || p->params.tty;
	p->params.out = true;
	p->params.err = !p->params.tty;
	p->params.window = WINDOW;
	return optind;
}

static void open_input(struct probe *p)
{
	if (!p->params.in)
		return;
	p->pollable = uv_guess_handle(0) != UV_FILE && uv_poll_init(&p->loop, &p->input, 0) == 0;
	p->input.data = p;
}

static int report(struct probe *p)
{
	uint64_t ms = (clock_boot_ns() - p->begun_ns) / NS_PER_MS;

	fflush(stdout);
	if (p->exit.cause != RC_EXITED)
		fprintf(stderr, "%s %s: %s\n", rc_cause_name(p->exit.cause), err_name(p->exit.err.code),
			p->exit.err.message);
	if (getenv("PROBE_STATS"))
		fprintf(stderr, "v%d %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", p->version, p->total[1], p->total[2], ms);
	return p->exit.cause == RC_EXITED ? p->exit.code : err_exit_code(p->exit.err.code);
}

int main(int argc, char **argv)
{
	static struct probe p = {.count = 1};
	struct kubeconfig *config = NULL;
	struct err e = {0};
	char *target, *slash;
	int rc, at;

	if (argc < 4)
		return 64;
	signal(SIGPIPE, SIG_IGN);
	if (getenv("PROBE_LOG"))
		(void)log_setup("rc_probe", "debug", LOG_TEXT, 2, NULL);
	at = 1 + options(&p, argc - 1, argv + 1);
	target = argv[at];
	p.params.ns = target;
	if (!(slash = strchr(target, '/')))
		return 64;
	*slash = '\0';
	p.params.pod = slash + 1;
	if ((slash = strchr(slash + 1, '/'))) {
		*slash = '\0';
		p.params.container = slash + 1;
	}
	p.params.argv = (const char *const *)argv + at + 1;
	uv_loop_init(&p.loop);
	rc = kubeconfig_load(argv[1], NULL, &config, &e);
	if (rc == 0)
		rc = kube_creds_create(&p.loop, config, NULL, &p.creds, &e);
	if (rc == 0)
		rc = rc_client_create(&p.loop, &p.client, &e);
	if (rc)
		die(rc, &e);
	open_input(&p);
	begin(&p);
	uv_run(&p.loop, UV_RUN_DEFAULT);
	uv_loop_close(&p.loop);
	return report(&p);
}

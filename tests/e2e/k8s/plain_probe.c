/*
 * plain_probe.c - the plain backend and the hub's end of a link, without the daemon: sessions in one container.
 *
 *	plain_probe [OPTIONS] KUBECONFIG NS/POD/CONTAINER PROGRAM [ARGS]
 *
 * -i: stdin is passed on. -t: a terminal of 80x24. -r COLSxROWS: a new size once it has said something. -c DIR, -e K=V:
 * where and with what. -k MS: it is killed so long after it began; -g MS: grace; -S N: signal N instead. -T MS:
 *timeout. -n N: N sessions one after another, each killed as soon as it says something. -x MS: this program goes so
 *long after the session began, and tells nobody. stdout and stderr are the program's; the end is a line on stderr:
 * "probe: CAUSE CODE WHERE TEXT", the exit code 0 when there was one. PROGRAM "" is the image's shell.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "control/kube/client/kube_creds.h"
#include "control/kube/client/kubeconfig.h"
#include "control/kube/exec/remotecommand.h"
#include "muxd/link/link.h"
#include "muxd/plain/plain.h"

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
	uv_loop_t loop;
	uv_timer_t tick;
	struct link *link;
	struct link_open open;
	const char *env[33];
	size_t n_env;
	int kill_ms, exit_ms, signum, cols, rows;
	unsigned times, left, killed, unknown;
	uint32_t channel;
	uint64_t opened_ns, in_at;
	uint8_t in[65536];
	size_t in_len;
	bool pass_in, opened, said, acted, in_eof, eof_sent, over;
	struct link_exit exit;
};

static void die(const char *what, const struct err *e)
{
	fprintf(stderr, "probe: %s: %s %s\n", what, err_name(e->code), e->message);
	exit(70);
}

static void begin(struct probe *b)
{
	struct err e = {0};

	b->open.channel = ++b->channel;
	b->opened = b->said = b->acted = false;
	(void)id_new(&b->open.session);
	if (link_open(b->link, &b->open, &e))
		die("open", &e);
}

static void on_up(void *arg, const struct link_channel_info *list, size_t n)
{
	(void)list, (void)n;
	begin(arg);
}

static void on_down(void *arg, int rc, const char *why)
{
	(void)arg;
	fprintf(stderr, "probe: down %s %s\n", err_name(rc), why);
	exit(71);
}

static void on_opened(void *arg, uint32_t channel, int rc, const char *why)
{
	struct probe *b = arg;

	(void)channel, (void)why;
	b->opened = rc == 0;
	b->opened_ns = clock_boot_ns();
}

static void on_data(void *arg, uint32_t channel, int stream, uint64_t offset, const uint8_t *p, size_t n)
{
	struct probe *b = arg;
	size_t done = 0;

	b->said = true;
	while (done < n && b->times == 1) {
		ssize_t k = write(stream, p + done, n - done);

		if (k <= 0)
			break;
		done += (size_t)k;
	}
	(void)link_window(b->link, channel, stream, offset + n + WINDOW);
	if (b->times > 1 && !b->acted)
		b->acted = link_kill(b->link, channel, EXIT_KILLED) == 0;
}

static void feed(struct probe *b)
{
	struct pollfd p = {.fd = 0, .events = POLLIN};

	while (b->opened && b->pass_in && !b->over && !b->eof_sent) {
		ssize_t took;

		if (!b->in_len && !b->in_eof) {
			if (poll(&p, 1, 0) <= 0)
				return;
			took = read(0, b->in, sizeof(b->in));
			b->in_eof = took <= 0;
			b->in_len = took > 0 ? (size_t)took : 0;
		}
		if (!b->in_len) {
			b->eof_sent = link_input_eof(b->link, b->channel, b->in_at) == 0;
			return;
		}
		took = link_input(b->link, b->channel, b->in_at, b->in, b->in_len);
		if (took <= 0)
			return;
		b->in_at += (uint64_t)took;
		b->in_len -= (size_t)took;
		memmove(b->in, b->in + took, b->in_len);
	}
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
	b->killed += x->cause == EXIT_KILLED && !x->text[0];
	b->left += strstr(x->text, "left_running") != NULL;
	b->unknown += strstr(x->text, "unknown") != NULL;
	b->exit = *x;
	if (b->channel < b->times) {
		begin(b);
		return;
	}
	b->over = true;
	uv_stop(&b->loop);
}

static const struct link_ops ops = {.up = on_up,
				    .down = on_down,
				    .opened = on_opened,
				    .data = on_data,
				    .input_consumed = on_consumed,
				    .echo = on_echo,
				    .exited = on_exited};

static void on_tick(uv_timer_t *t)
{
	struct probe *b = t->data;
	uint64_t ms = (clock_boot_ns() - b->opened_ns) / NS_PER_MS;

	feed(b);
	if (!b->opened || b->over)
		return;
	if (b->cols && b->said) {
		(void)link_resize(b->link, b->channel, (uint16_t)b->cols, (uint16_t)b->rows, 0, 0);
		b->cols = 0;
	}
	if (b->exit_ms && ms >= (uint64_t)b->exit_ms)
		_exit(0);
	if (b->kill_ms && ms >= (uint64_t)b->kill_ms && !b->acted)
		b->acted = (b->signum ? link_signal(b->link, b->channel, b->signum)
				      : link_kill(b->link, b->channel, EXIT_KILLED)) == 0;
}

static void split(char *target, struct kube_plain_target *t)
{
	char *pod = strchr(target, '/'), *container = pod ? strchr(pod + 1, '/') : NULL;

	if (!pod || !container) {
		fprintf(stderr, "probe: NS/POD/CONTAINER\n");
		exit(64);
	}
	*pod = *container = '\0';
	t->agent = "probe";
	t->ns = target;
	t->pod = pod + 1;
	t->container = container + 1;
}

static void connect_to(struct probe *b, const char *config, char *target)
{
	struct link_params lp = {.name = "probe"};
	struct kube_plain_target t = {0};
	struct kubeconfig *k = NULL;
	struct plain *plain;
	struct err e = {0};
	int fd = -1;

	split(target, &t);
	memset(t.secret, 7, sizeof(t.secret)); /* the same each time, as one daemon has it */
	memcpy(lp.secret, t.secret, sizeof(lp.secret));
	if (kubeconfig_load(config, NULL, &k, &e) || kube_creds_create(&b->loop, k, NULL, &t.creds, &e) ||
	    rc_client_create(&b->loop, &t.rc, &e))
		die("kubeconfig", &e);
	if (plain_create(&b->loop, 64, 300 * NS_PER_SEC, &plain) || plain_open(plain, &t, &fd, &e) ||
	    link_create(&b->loop, &lp, &ops, b, &b->link) || link_attach(b->link, fd, 1))
		die("plain", &e);
}

static void options(struct probe *b, int argc, char **argv)
{
	int o;

	while ((o = getopt(argc, argv, "+itr:c:e:k:g:S:T:n:x:")) != -1)
		switch (o) {
		case 'i':
			b->pass_in = b->open.stdin_open = true;
			break;
		case 't':
			b->open.pty = b->open.stdin_open = true;
			break;
		case 'r':
			if (sscanf(optarg, "%dx%d", &b->cols, &b->rows) != 2)
				exit(64);
			break;
		case 'c':
			b->open.cwd = optarg;
			break;
		case 'e':
			if (b->n_env < 32)
				b->env[b->n_env++] = optarg;
			break;
		case 'k':
			b->kill_ms = atoi(optarg);
			break;
		case 'g':
			b->open.grace_ms = (uint64_t)atoi(optarg);
			break;
		case 'S':
			b->signum = atoi(optarg);
			break;
		case 'T':
			b->open.timeout_ms = (uint64_t)atoi(optarg);
			break;
		case 'n':
			b->times = (unsigned)atoi(optarg);
			break;
		case 'x':
			b->exit_ms = atoi(optarg);
			break;
		default:
			exit(64);
		}
}

int main(int argc, char **argv)
{
	static struct probe b = {.times = 1, .open = {.cols = 80, .rows = 24, .grace_ms = 2000, .window = WINDOW}};
	struct err e = {0};

	signal(SIGPIPE, SIG_IGN);
	(void)log_setup("probe", getenv("PROBE_LOG") ? "debug" : "error", LOG_TEXT, 2, &e);
	options(&b, argc, argv);
	if (argc - optind < 3)
		exit(64);
	b.open.argv = (const char *const *)argv + optind + 2;
	b.open.env = b.env;
	b.open.login_shell = !argv[optind + 2][0];
	uv_loop_init(&b.loop);
	uv_timer_init(&b.loop, &b.tick);
	b.tick.data = &b;
	uv_timer_start(&b.tick, on_tick, 10, 10);
	connect_to(&b, argv[optind], argv[optind + 1]);
	uv_run(&b.loop, UV_RUN_DEFAULT);
	if (b.times > 1)
		fprintf(stderr, "probe: %u killed, %u left_running, %u unknown of %u\n", b.killed, b.left, b.unknown,
			b.times);
	else
		fprintf(stderr, "probe: %s %d %s %s\n", exit_cause_name(b.exit.cause), b.exit.code,
			b.exit.error_at[0] ? b.exit.error_at : "-", b.exit.text);
	return b.exit.code > 0 ? b.exit.code : 0;
}

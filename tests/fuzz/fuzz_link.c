// tier: check
/*
 * A hostile sandbox: bytes on the hub's end of a link. The first byte says how
 * far the handshake went before it turned hostile (0: not at all, 1: proven,
 * 2 and more: up, with one channel resumed, one opened, one forgotten), its high bit
 * that the hub drops the link in the midst of it. Whatever comes, the hub is
 * told a consistent story: bytes in order and within their window, one end,
 * nothing after it.
 */
#include "base/err.h"
#include "base/log.h"
#include "muxd/link/frame.h"
#include "muxd/link/link.h"

#include <fcntl.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define WINDOW   1000
#define CHANNELS 4

struct hub {
	uv_loop_t loop;
	struct link *link;
	int peer;
	int ups, downs, rc;
	bool drop, dropped;
	uint64_t next[CHANNELS][3], window[CHANNELS][3], sent[CHANNELS], consumed[CHANNELS];
	bool exited[CHANNELS];
};

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void on_up(void *arg, const struct link_channel_info *list, size_t n)
{
	static const char *const argv[] = {"true", NULL};
	struct link_open o = {.channel = 2, .argv = argv, .pty = true, .window = WINDOW};
	struct hub *h = arg;

	must(h->ups++ == 0 && h->downs == 0);
	for (size_t i = 0; i < n; i++) {
		uint64_t have[3] = {list[i].input_consumed, list[i].kept_from[1], list[i].kept_from[2]};

		must(list[i].channel != 0);
		if (list[i].channel != 1) {
			must(link_forget(h->link, list[i].channel) == 0);
			continue;
		}
		must(link_resume(h->link, 1, have, WINDOW) == 0);
		h->next[1][1] = have[1];
		h->next[1][2] = have[2];
		h->window[1][1] = have[1] > UINT64_MAX - WINDOW ? UINT64_MAX : have[1] + WINDOW;
		h->window[1][2] = have[2] > UINT64_MAX - WINDOW ? UINT64_MAX : have[2] + WINDOW;
		h->consumed[1] = h->sent[1] = have[0];
	}
	if (link_open(h->link, &o, NULL) == 0)
		h->window[2][1] = WINDOW;
	if (link_input(h->link, 2, 0, "keys", 4) == 4)
		h->sent[2] = 4;
}

static void on_down(void *arg, int rc, const char *why)
{
	struct hub *h = arg;

	must(h->downs++ == 0 && rc < 0 && why && !h->dropped);
	h->rc = rc;
	must(link_state(h->link) == (rc == ERR_PROTOCOL ? LINK_CUT : LINK_IDLE));
}

static void alive(const struct hub *h, uint32_t channel)
{
	must(h->ups && !h->downs && !h->dropped && (channel == 1 || channel == 2) && !h->exited[channel]);
}

static void on_opened(void *arg, uint32_t channel, int rc, const char *why)
{
	alive(arg, channel);
	must(channel == 2 && rc <= 0 && strlen(why) <= FRAME_TEXT_MAX);
}

static void on_data(void *arg, uint32_t channel, int s, uint64_t offset, const uint8_t *p, size_t n)
{
	struct hub *h = arg;
	uint8_t sum = 0;

	alive(h, channel);
	must((s == 1 || s == 2) && n > 0 && offset == h->next[channel][s]);
	for (size_t i = 0; i < n; i++)
		sum ^= p[i]; /* a sanitizer looks whether all of it may be read */
	h->next[channel][s] += n;
	must(h->next[channel][s] <= h->window[channel][s]);
	if (sum & 1 && h->next[channel][s] < UINT64_MAX - WINDOW &&
	    link_window(h->link, channel, s, h->next[channel][s] + WINDOW) == 0 &&
	    h->window[channel][s] < h->next[channel][s] + WINDOW)
		h->window[channel][s] = h->next[channel][s] + WINDOW;
	must(link_ack(h->link, channel, s, h->next[channel][s]) == 0);
	if (h->drop) {
		h->dropped = true;
		link_destroy(h->link);
		h->link = NULL;
	}
}

static void on_consumed(void *arg, uint32_t channel, uint64_t offset)
{
	struct hub *h = arg;

	alive(h, channel);
	must(offset >= h->consumed[channel] && offset <= h->sent[channel]);
	h->consumed[channel] = offset;
}

static void on_echo(void *arg, uint32_t channel, enum link_echo mode)
{
	(void)mode;
	alive(arg, channel);
}

static void on_exited(void *arg, uint32_t channel, const struct link_exit *x)
{
	struct hub *h = arg;

	alive(h, channel);
	must(x->total[1] == h->next[channel][1] && x->total[2] == h->next[channel][2]);
	must(memchr(x->error_at, 0, sizeof(x->error_at)) != NULL && x->cause <= EXIT_IDLE_TIMEOUT);
	h->exited[channel] = true;
	must(link_forget(h->link, channel) == 0);
}

static const struct link_ops ops = {.up = on_up,
				    .down = on_down,
				    .opened = on_opened,
				    .data = on_data,
				    .input_consumed = on_consumed,
				    .echo = on_echo,
				    .exited = on_exited};

static void turn(struct hub *h)
{
	for (int i = 0; i < 3; i++)
		uv_run(&h->loop, UV_RUN_NOWAIT);
}

static void say(struct hub *h, const void *p, size_t n)
{
	uint8_t drain[4096];

	while (n) {
		ssize_t done = send(h->peer, p, n < 8192 ? n : 8192, MSG_NOSIGNAL);

		if (done <= 0 || h->downs || h->dropped)
			return;
		p = (const uint8_t *)p + done;
		n -= (size_t)done;
		turn(h);
		while (recv(h->peer, drain, sizeof(drain), MSG_DONTWAIT) > 0)
			;
	}
}

static void say_frame(struct hub *h, const struct frame *f)
{
	uint8_t text[512];
	size_t n = frame_encode(f, text, sizeof(text));

	must(n > 0);
	say(h, text, n);
}

/* As muxlet would: the hub's HELLO is read, and answered with the right proof. */
static void shake_hands(struct hub *h, const uint8_t secret[LINK_SECRET_LEN])
{
	uint8_t text[FRAME_TRANSCRIPT], in[512];
	struct frame f, answer = {.type = FRAME_HELLO, .u.hello.major = FRAME_MAJOR};
	const char *why;
	unsigned n = 0;
	size_t size;

	turn(h);
	must(frame_decode(in, (size_t)read(h->peer, in, sizeof(in)), 'H', &f, &size, &why) == 1);
	frame_transcript("muxd-let", &f.u.hello, &answer.u.hello, text);
	HMAC(EVP_sha256(), secret, LINK_SECRET_LEN, text, sizeof(text), answer.u.hello.proof, &n);
	say_frame(h, &answer);
	must(link_state(h->link) == LINK_LIST);
}

static void say_list(struct hub *h)
{
	struct frame f = {.type = FRAME_LIST, .channel = 1};

	f.u.list.consumed = 7;
	f.u.list.kept_from[1] = 10;
	f.u.list.produced[1] = 5000;
	say_frame(h, &f);
	f = (struct frame){.type = FRAME_LIST, .channel = 3};
	say_frame(h, &f);
	say_frame(h, &(struct frame){.type = FRAME_LISTED, .offset = 2});
	must(link_state(h->link) == LINK_UP && h->ups == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct link_params p = {.name = "fuzz", .secret = {1, 2, 3}};
	struct hub h = {.peer = -1};
	int fds[2];

	if (size < 1)
		return 0;
	must(log_setup("fuzz", "error", LOG_TEXT, 2, NULL) == 0);
	must(uv_loop_init(&h.loop) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	h.peer = fds[1];
	h.drop = data[0] & 0x80;
	must(link_create(&h.loop, &p, &ops, &h, &h.link) == 0 && link_attach(h.link, fds[0], 1) == 0);
	if ((data[0] & 0x7f) >= 1)
		shake_hands(&h, p.secret);
	if ((data[0] & 0x7f) >= 2)
		say_list(&h);
	say(&h, data + 1, size - 1);
	close(h.peer);
	turn(&h);
	must(h.dropped || h.downs == 1);
	link_destroy(h.link);
	uv_run(&h.loop, UV_RUN_DEFAULT);
	must(uv_loop_close(&h.loop) == 0);
	return 0;
}

/*
 * peer.h - a client of the browser's or the SSH door for the bench: TLS and
 * WebSocket by hand, SSH by libssh, one epoll for all of them.
 *
 * Static functions, for inclusion by one program. A peer is opened blocking, then
 * lives on the loop: peer_read() takes what has come and hands each piece of
 * output to `output`. What goes wrong ends the program with a sentence.
 *
 * Every OUTPUT must begin where the one before ended, or where SCREEN or SKIPPED
 * said that it goes on; what was left out is counted.
 */
#ifndef TESTS_BENCH_PEER_H
#define TESTS_BENCH_PEER_H

#include <errno.h>
#include <fcntl.h>
#include <libssh/libssh.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PEER_WINDOW (1u << 20)
#define PEER_IN_MAX (256u * 1024)

struct peer {
	int fd;
	bool web, ended, stalled;
	SSL *ssl;
	ssh_session ssh;
	ssh_channel channel;
	unsigned char *in; /* of a message that is not whole */
	size_t len;
	bool opened;
	char session[40];         /* its id, of a WebSocket */
	uint64_t offset, granted; /* of a WebSocket's output */
	uint64_t received, left_out;
	unsigned screens;
	bool whole; /* EXIT came, and every byte before it */
	void (*output)(struct peer *p, const unsigned char *at, size_t n);
	/* what a measurement keeps */
	uint64_t asked_ns;
	unsigned keys;
	unsigned char key;
	uint64_t mark_at; /* bytes of output in front of the flood; UINT64_MAX: not yet seen */
	size_t matched;
};

struct bench {
	int epoll;
	unsigned https, ssh;
	const char *agent;
	char token[8192];
	SSL_CTX *tls;
};

static struct bench bench;
static unsigned char bench_piece[128 * 1024];

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

__attribute__((noreturn, format(printf, 1, 2))) static inline void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/* ---- bytes out */

static inline void peer_wait(const struct peer *p, short events)
{
	struct pollfd f = {.fd = p->fd, .events = events};

	if (poll(&f, 1, 30000) <= 0)
		die("a client waits for 30 s");
}

static inline void peer_put(struct peer *p, const void *data, size_t n)
{
	int rc;

	while ((rc = SSL_write(p->ssl, data, (int)n)) <= 0) {
		int why = SSL_get_error(p->ssl, rc);

		if (why != SSL_ERROR_WANT_WRITE && why != SSL_ERROR_WANT_READ)
			die("the door closed a client's connection");
		peer_wait(p, why == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN);
	}
}

/* One binary message, masked as RFC 6455 wants it. */
static inline void peer_message(struct peer *p, const unsigned char *data, size_t n)
{
	unsigned char frame[8 + 4096] = {0x82};
	const unsigned char mask[4] = {0x5a, 0xc3, 0x17, 0x8e};
	size_t at = 2;

	if (n > 4096)
		die("a message of %zu bytes", n);
	if (n < 126) {
		frame[1] = (unsigned char)(0x80 | n);
	} else {
		frame[1] = 0x80 | 126;
		frame[2] = (unsigned char)(n >> 8);
		frame[3] = (unsigned char)n;
		at = 4;
	}
	memcpy(frame + at, mask, 4);
	at += 4;
	for (size_t i = 0; i < n; i++)
		frame[at + i] = data[i] ^ mask[i & 3];
	peer_put(p, frame, at + n);
}

static inline void peer_keys(struct peer *p, const char *keys)
{
	unsigned char m[4096] = {0};
	size_t n = strlen(keys);

	if (!p->web) {
		if (ssh_channel_write(p->channel, keys, (uint32_t)n) != (int)n)
			die("SSH: keys were not taken: %s", ssh_get_error(p->ssh));
		return;
	}
	memcpy(m + 1, keys, n);
	peer_message(p, m, n + 1);
}

static inline void peer_move_window(struct peer *p)
{
	unsigned char m[10] = {0x21, 1};

	if (p->offset + PEER_WINDOW - p->granted < PEER_WINDOW / 4)
		return;
	p->granted = p->offset + PEER_WINDOW;
	memcpy(m + 2, &p->granted, 8); /* little-endian, as this machine */
	peer_message(p, m, sizeof(m));
}

/* ---- bytes in */

static inline uint64_t peer_u64(const unsigned char *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return v;
}

static inline void peer_opened(struct peer *p, const char *text)
{
	const char *id = strstr(text, "\"session\":\""), *offset = strstr(text, "\"offset\":");

	if (!id || !offset)
		die("OPENED says neither session nor offset: %s", text);
	snprintf(p->session, sizeof(p->session), "%.36s", id + 11);
	p->offset = strtoull(offset + 9, NULL, 10);
	p->granted = p->offset + 128 * 1024;
	p->opened = true;
	peer_move_window(p);
}

static inline void peer_take(struct peer *p, const unsigned char *m, size_t n)
{
	switch (m[0]) {
	case 0x01:
		if (peer_u64(m + 1) != p->offset)
			die("output at %llu, not %llu", (unsigned long long)peer_u64(m + 1),
			    (unsigned long long)p->offset);
		p->output(p, m + 9, n - 9); /* p->offset is where these bytes begin */
		p->offset += n - 9;
		p->received += n - 9;
		peer_move_window(p);
		break;
	case 0x10:
		memcpy(bench_piece, m + 1, n - 1);
		bench_piece[n - 1] = '\0';
		peer_opened(p, (char *)bench_piece);
		break;
	case 0x12:
		p->left_out += peer_u64(m + 10) - p->offset;
		p->offset = peer_u64(m + 10);
		peer_move_window(p); /* it stayed before the hole */
		break;
	case 0x13:
		p->whole = true;
		break;
	case 0x14:
		die("the browser door says: %.*s", (int)n - 1, (const char *)m + 1);
	case 0x16:
		p->left_out += peer_u64(m + 1) > p->offset ? peer_u64(m + 1) - p->offset : 0;
		p->offset = peer_u64(m + 1);
		p->screens++;
		peer_move_window(p);
		break;
	default:
		break;
	}
}

/* WebSocket frames that are whole. */
static inline void peer_frames(struct peer *p)
{
	size_t at = 0;

	while (p->len - at >= 2) {
		const unsigned char *f = p->in + at;
		size_t n = f[1] & 127, head = 2;

		if (n == 126) {
			if (p->len - at < 4)
				break;
			n = (size_t)f[2] << 8 | f[3];
			head = 4;
		} else if (n == 127) {
			if (p->len - at < 10)
				break;
			for (n = 0; head < 10; head++)
				n = n << 8 | f[head];
		}
		if (n > PEER_IN_MAX - 16)
			die("a message of %zu bytes", n);
		if (p->len - at < head + n)
			break;
		if ((f[0] & 15) == 2 && n)
			peer_take(p, f + head, n);
		else if ((f[0] & 15) == 8)
			p->ended = true;
		at += head + n;
	}
	memmove(p->in, p->in + at, p->len - at);
	p->len -= at;
	if (!p->len) {
		free(p->in);
		p->in = NULL;
	}
}

static inline void peer_read_web(struct peer *p)
{
	while (!p->ended) {
		int n;

		if (!p->in && !(p->in = malloc(PEER_IN_MAX)))
			die("no memory");
		n = SSL_read(p->ssl, p->in + p->len, (int)(PEER_IN_MAX - p->len));
		if (n > 0) {
			p->len += (size_t)n;
			peer_frames(p);
			if (!SSL_pending(p->ssl))
				break;
		} else if (SSL_get_error(p->ssl, n) == SSL_ERROR_WANT_READ) {
			break;
		} else {
			p->ended = true;
		}
	}
	if (!p->len) {
		free(p->in);
		p->in = NULL;
	}
}

static inline void peer_read_ssh(struct peer *p)
{
	int n;

	while ((n = ssh_channel_read_nonblocking(p->channel, bench_piece, sizeof(bench_piece), 0)) > 0) {
		p->output(p, bench_piece, (size_t)n);
		p->offset += (size_t)n;
		p->received += (size_t)n;
	}
	if (n == SSH_ERROR || n == SSH_EOF || ssh_channel_is_eof(p->channel))
		p->ended = true;
}

static inline void peer_read(struct peer *p)
{
	if (p->web)
		peer_read_web(p);
	else
		peer_read_ssh(p);
}

/* ---- opening */

static inline int dial(unsigned port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	struct timeval tv = {.tv_sec = 60};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
		die("connect: %s", strerror(errno));
	return fd;
}

static inline struct peer *peer_create(bool web, void (*output)(struct peer *, const unsigned char *, size_t))
{
	struct peer *p = calloc(1, sizeof(*p));

	if (!p)
		die("no memory");
	p->web = web;
	p->output = output;
	p->mark_at = UINT64_MAX;
	return p;
}

/* The browser door at path; returns with OPENED. */
static inline struct peer *peer_web(const char *path, void (*output)(struct peer *, const unsigned char *, size_t))
{
	struct peer *p = peer_create(true, output);
	char head[9000];
	const char *end;
	int n;

	p->fd = dial(bench.https);
	p->ssl = SSL_new(bench.tls);
	if (!p->ssl || SSL_set_fd(p->ssl, p->fd) != 1 || SSL_connect(p->ssl) != 1)
		die("TLS to the browser door failed");
	n = snprintf(
	    head, sizeof(head),
	    "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: "
	    "bXV4ZCBiZW5jaCBjbGllbg==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: muxd.v1\r\n"
	    "Authorization: Bearer %s\r\n\r\n",
	    path, bench.https, bench.token);
	peer_put(p, head, (size_t)n);
	if (!(p->in = malloc(PEER_IN_MAX)))
		die("no memory");
	do {
		n = SSL_read(p->ssl, p->in + p->len, (int)(PEER_IN_MAX - p->len - 1));
		if (n <= 0)
			die("the browser door closed during the upgrade");
		p->len += (size_t)n;
		p->in[p->len] = '\0';
		end = strstr((char *)p->in, "\r\n\r\n");
	} while (!end);
	if (strncmp((char *)p->in, "HTTP/1.1 101", 12) != 0)
		die("no upgrade: %.300s", (char *)p->in);
	p->len -= (size_t)(end + 4 - (char *)p->in);
	memmove(p->in, end + 4, p->len);
	peer_frames(p);
	while (!p->opened && !p->ended)
		peer_read(p);
	return p;
}

/* By a grant's token; or, where that begins with "key ", by the private key in the file it names: to OpenSSH's sshd. */
static inline bool peer_log_in(struct peer *p)
{
	ssh_key key;

	if (strncmp(bench.token, "key ", 4) != 0)
		return ssh_userauth_password(p->ssh, NULL, bench.token) == SSH_AUTH_SUCCESS;
	if (ssh_pki_import_privkey_file(bench.token + 4, NULL, NULL, NULL, &key) != SSH_OK)
		die("no key in %s", bench.token + 4);
	return ssh_userauth_publickey(p->ssh, NULL, key) == SSH_AUTH_SUCCESS;
}

/* A shell by the SSH door. */
static inline struct peer *peer_ssh(void (*output)(struct peer *, const unsigned char *, size_t))
{
	struct peer *p = peer_create(false, output);
	int port = (int)bench.ssh, no = 0, level = SSH_LOG_NOLOG;

	p->fd = dial(bench.ssh);
	p->ssh = ssh_new();
	if (!p->ssh)
		die("no memory");
	ssh_options_set(p->ssh, SSH_OPTIONS_HOST, "127.0.0.1");
	ssh_options_set(p->ssh, SSH_OPTIONS_PORT, &port);
	ssh_options_set(p->ssh, SSH_OPTIONS_USER, bench.agent);
	ssh_options_set(p->ssh, SSH_OPTIONS_FD, &p->fd);
	ssh_options_set(p->ssh, SSH_OPTIONS_PROCESS_CONFIG, &no);
	ssh_options_set(p->ssh, SSH_OPTIONS_LOG_VERBOSITY, &level);
	ssh_options_set(p->ssh, SSH_OPTIONS_CIPHERS_C_S, "aes128-gcm@openssh.com");
	ssh_options_set(p->ssh, SSH_OPTIONS_CIPHERS_S_C, "aes128-gcm@openssh.com");
	if (ssh_connect(p->ssh) != SSH_OK || !peer_log_in(p))
		die("SSH: %s", ssh_get_error(p->ssh));
	p->channel = ssh_channel_new(p->ssh);
	if (!p->channel || ssh_channel_open_session(p->channel) != SSH_OK ||
	    ssh_channel_request_pty_size(p->channel, "xterm", 80, 24) != SSH_OK ||
	    ssh_channel_request_shell(p->channel) != SSH_OK)
		die("SSH: %s", ssh_get_error(p->ssh));
	p->opened = true;
	return p;
}

static inline struct peer *peer_terminal(bool web, void (*output)(struct peer *, const unsigned char *, size_t))
{
	char path[160];

	snprintf(path, sizeof(path), "/v1/agents/%s/terminal?cols=80&rows=24", bench.agent);
	return web ? peer_web(path, output) : peer_ssh(output);
}

static inline struct peer *peer_observer(const struct peer *of,
					 void (*output)(struct peer *, const unsigned char *, size_t))
{
	char path[160];

	snprintf(path, sizeof(path), "/v1/sessions/%s/attach?role=observer", of->session);
	return peer_web(path, output);
}

/* From here on it is read as the loop says. */
static inline void peer_on_loop(struct peer *p)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = p};

	(void)fcntl(p->fd, F_SETFL, fcntl(p->fd, F_GETFL) | O_NONBLOCK);
	if (!p->web)
		ssh_set_blocking(p->ssh, 0);
	if (epoll_ctl(bench.epoll, EPOLL_CTL_ADD, p->fd, &e))
		die("epoll: %s", strerror(errno));
	peer_read(p); /* what came with the opening is in TLS, not in the socket */
}

static inline void peer_close(struct peer *p)
{
	if (p->web) {
		SSL_free(p->ssl);
		close(p->fd);
	} else {
		ssh_disconnect(p->ssh);
		ssh_free(p->ssh);
	}
	free(p->in);
	free(p);
}

#define NS_PER_S UINT64_C(1000000000)

/* Reads whoever has something, until `until` or, with a positive answer of `done`, before. False: the time is up. */
static inline bool loop_until(uint64_t until, bool (*done)(void *), void *arg)
{
	struct epoll_event events[64];

	while (!done || !done(arg)) {
		uint64_t now = now_ns(), wait;
		int n;

		if (now >= until)
			return !done;
		/* To the nanosecond: who looked again and again through a last millisecond would keep its core warm. */
		wait = until - now < NS_PER_S ? until - now : NS_PER_S - 1;
		n = epoll_pwait2(bench.epoll, events, 64, &(struct timespec){.tv_nsec = (long)wait}, NULL);
		for (int i = 0; i < n; i++) {
			struct peer *p = events[i].data.ptr;

			peer_read(p);
			if (p->ended)
				epoll_ctl(bench.epoll, EPOLL_CTL_DEL, p->fd, NULL);
		}
	}
	return true;
}

#endif

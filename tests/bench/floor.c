/*
 * floor - the least that a terminal in the browser can cost: a TLS WebSocket server that passes bytes between a PTY and
 * its client. No log-in, no record, no sandbox, no return. The bench measures what muxd adds to it.
 *
 *   floor PORT CERT KEY
 *
 * It speaks muxd.v1 as far as client.c needs it: OPENED, OUTPUT with offsets, INPUT, EXIT. One process, one epoll, as
 * ttyd and its like have. A connection: TLS -> UPGRADE -> OPEN -> freed. The socket is read while the terminal waits,
 * the terminal while nothing waits for the socket.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define WS_HEAD    4 /* of a message of 126 bytes and more */
#define OUT_HEAD   9 /* type and offset */
#define OUT_MAX    (16384 - WS_HEAD - OUT_HEAD)
#define TURN_READS 4 /* of a terminal, 4 KiB each */
#define GUID       "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

enum state { FLOOR_TLS, FLOOR_UPGRADE, FLOOR_OPEN };

struct end { /* what epoll gives back */
	struct peer *peer;
	int fd;
	uint32_t events;
};

struct peer {
	enum state state;
	struct end sock, pty;
	SSL *ssl;
	pid_t pid;
	uint64_t offset;
	unsigned char in[64 * 1024];
	size_t in_len;
	unsigned char out[2 * 16384]; /* a message that the socket did not take yet */
	size_t out_at, out_len;
	bool over; /* the program ended: the rest goes, then the connection */
	bool dead;
	struct peer *next; /* of those that go at the end of the turn: events of their other end may be due */
};

static int epoll;
static struct peer *dead;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void watch(struct end *e, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = e};

	if (e->fd < 0 || e->events == events)
		return;
	if (epoll_ctl(epoll, !e->events ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL, e->fd, &ev))
		die("epoll_ctl");
	e->events = events;
}

static void peer_end(struct peer *p)
{
	p->dead = true;
	p->next = dead;
	dead = p;
}

static void peer_free(struct peer *p)
{
	watch(&p->sock, 0);
	watch(&p->pty, 0);
	SSL_free(p->ssl);
	close(p->sock.fd);
	if (p->pty.fd >= 0)
		close(p->pty.fd);
	if (p->pid > 0)
		kill(p->pid, SIGHUP);
	free(p);
}

/* ---- out */

/* False: the connection is lost. */
static bool flush(struct peer *p)
{
	while (p->out_len) {
		int n = SSL_write(p->ssl, p->out + p->out_at, (int)p->out_len);

		if (n <= 0)
			return SSL_get_error(p->ssl, n) == SSL_ERROR_WANT_WRITE;
		p->out_at += (size_t)n;
		p->out_len -= (size_t)n;
	}
	p->out_at = 0;
	return true;
}

static bool say(struct peer *p, int opcode, const void *data, size_t n)
{
	unsigned char *to = p->out + p->out_at + p->out_len;

	*to++ = (unsigned char)(0x80 | opcode);
	if (n < 126) {
		*to++ = (unsigned char)n;
	} else {
		*to++ = 126;
		*to++ = (unsigned char)(n >> 8);
		*to++ = (unsigned char)n;
	}
	memcpy(to, data, n);
	p->out_len = (size_t)(to + n - p->out) - p->out_at;
	return flush(p);
}

static bool say_end(struct peer *p)
{
	static const unsigned char code[2] = {1000 >> 8, 1000 & 255};

	watch(&p->pty, 0);
	close(p->pty.fd);
	p->pty.fd = -1;
	p->over = true;
	return say(p, 2, "\x13{}", 3) && say(p, 8, code, 2);
}

/* In one message what the terminal gives in a turn. */
static bool pty_ready(struct peer *p)
{
	static unsigned char m[OUT_HEAD + OUT_MAX];
	size_t n = 0;
	ssize_t got = 0;
	bool over;

	for (int i = 0; i < TURN_READS && n < OUT_MAX; i++) {
		got = read(p->pty.fd, m + OUT_HEAD + n, OUT_MAX - n);
		if (got <= 0)
			break;
		n += (size_t)got;
		if (got < 4000)
			break;
	}
	over = got < 0 && errno != EAGAIN;
	m[0] = 1;
	memcpy(m + 1, &p->offset, 8); /* little-endian, as this machine */
	p->offset += n;
	if (n && !say(p, 2, m, OUT_HEAD + n))
		return false;
	return !over || say_end(p);
}

/* ---- in */

static bool begin_shell(struct peer *p)
{
	static const char opened[] = "\x10{\"session\":\"00000000-0000-0000-0000-000000000000\",\"offset\":0}";
	struct winsize size = {.ws_row = 24, .ws_col = 80};

	p->pid = forkpty(&p->pty.fd, NULL, NULL, &size);
	if (p->pid == 0) {
		execl("/bin/bash", "-bash", (char *)NULL);
		_exit(127);
	}
	if (p->pid < 0)
		die("forkpty");
	(void)fcntl(p->pty.fd, F_SETFL, O_NONBLOCK | O_RDWR);
	return say(p, 2, opened, sizeof(opened) - 1);
}

static bool upgrade(struct peer *p)
{
	unsigned char sha[SHA_DIGEST_LENGTH], accept[32], answer[256];
	const char *key;
	char text[128];
	int n;

	p->in[p->in_len < sizeof(p->in) ? p->in_len : sizeof(p->in) - 1] = '\0';
	if (!strstr((char *)p->in, "\r\n\r\n"))
		return p->in_len < sizeof(p->in) - 1;
	key = strcasestr((char *)p->in, "sec-websocket-key: ");
	if (!key)
		return false;
	snprintf(text, sizeof(text), "%.24s" GUID, key + 19);
	SHA1((unsigned char *)text, strlen(text), sha);
	EVP_EncodeBlock(accept, sha, sizeof(sha));
	n = snprintf((char *)answer, sizeof(answer),
		     "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		     "Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: muxd.v1\r\n\r\n",
		     accept);
	memcpy(p->out, answer, (size_t)n);
	p->out_len = (size_t)n;
	p->in_len = 0;
	p->state = FLOOR_OPEN;
	return flush(p) && begin_shell(p);
}

static void take_message(struct peer *p, unsigned char *m, size_t n)
{
	if (n > 1 && m[0] == 0 && p->pty.fd >= 0) /* INPUT; all else is for a server that does more */
		(void)!write(p->pty.fd, m + 1, n - 1);
}

/* Whole frames, masked as a client's are. False: it left, or is no client of ours. */
static bool take_frames(struct peer *p)
{
	size_t at = 0;

	while (p->in_len - at >= 6) {
		unsigned char *f = p->in + at, *mask;
		size_t n = f[1] & 127, head = n == 126 ? 8 : 6;

		if (n == 127 || (f[0] & 15) == 8)
			return false;
		if (p->in_len - at < head)
			break;
		n = n == 126 ? (size_t)f[2] << 8 | f[3] : n;
		if (p->in_len - at < head + n)
			break;
		mask = f + head - 4;
		for (size_t i = 0; i < n; i++)
			f[head + i] ^= mask[i & 3];
		take_message(p, f + head, n);
		at += head + n;
	}
	memmove(p->in, p->in + at, p->in_len - at);
	p->in_len -= at;
	return true;
}

static bool sock_readable(struct peer *p)
{
	int n;

	if (p->state == FLOOR_TLS) {
		n = SSL_accept(p->ssl);
		if (n != 1)
			return SSL_get_error(p->ssl, n) == SSL_ERROR_WANT_READ;
		p->state = FLOOR_UPGRADE;
	}
	do {
		n = SSL_read(p->ssl, p->in + p->in_len, (int)(sizeof(p->in) - p->in_len));
		if (n <= 0)
			return SSL_get_error(p->ssl, n) == SSL_ERROR_WANT_READ;
		p->in_len += (size_t)n;
		if (!(p->state == FLOOR_OPEN ? take_frames(p) : upgrade(p)))
			return false;
	} while (SSL_pending(p->ssl));
	return true;
}

/* ---- turns */

static void ready(struct end *e, uint32_t events)
{
	struct peer *p = e->peer;
	bool lives = true;

	if (p->dead)
		return;
	if (e == &p->sock && events & EPOLLOUT)
		lives = flush(p);
	if (lives && e == &p->sock && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		lives = sock_readable(p);
	if (lives && e == &p->pty && !p->out_len)
		lives = pty_ready(p);
	if (!lives || (p->over && !p->out_len)) {
		peer_end(p);
		return;
	}
	watch(&p->sock, EPOLLIN | (p->out_len ? (uint32_t)EPOLLOUT : 0));
	watch(&p->pty, p->out_len ? 0 : EPOLLIN);
}

static void accept_one(int listener, SSL_CTX *tls)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
	struct peer *p = calloc(1, sizeof(*p));

	if (fd < 0 || !p)
		die("accept");
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	p->sock = (struct end){p, fd, 0};
	p->pty = (struct end){p, -1, 0};
	p->ssl = SSL_new(tls);
	if (!p->ssl || SSL_set_fd(p->ssl, fd) != 1)
		die("SSL_new");
	SSL_set_accept_state(p->ssl);
	watch(&p->sock, EPOLLIN);
}

static int listen_at(unsigned port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(fd, 1024))
		die("listen");
	return fd;
}

int main(int argc, char **argv)
{
	SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
	struct epoll_event events[64];
	struct end listener = {0};

	if (argc != 4) {
		fputs("usage: floor PORT CERT KEY\n", stderr);
		return 64;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGCHLD, SIG_IGN); /* the kernel reaps them */
	if (!tls || SSL_CTX_use_certificate_chain_file(tls, argv[2]) != 1 ||
	    SSL_CTX_use_PrivateKey_file(tls, argv[3], SSL_FILETYPE_PEM) != 1)
		die("certificate");
	SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				  SSL_MODE_RELEASE_BUFFERS);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	listener.fd = listen_at((unsigned)strtoul(argv[1], NULL, 10));
	watch(&listener, EPOLLIN);
	for (;;) {
		int n = epoll_wait(epoll, events, 64, -1);

		for (int i = 0; i < n; i++) {
			struct end *e = events[i].data.ptr;

			if (e == &listener)
				accept_one(listener.fd, tls);
			else
				ready(e, events[i].events);
		}
		while (dead) {
			struct peer *p = dead;

			dead = p->next;
			peer_free(p);
		}
	}
}

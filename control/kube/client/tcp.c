#include "control/kube/client/tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define KEEPALIVE_IDLE_S 20
#define KEEPALIVE_EACH_S 5
#define KEEPALIVE_COUNT  3
#define UNACKED_MS       15000 /* half of a call's deadline: what may be repeated finds time for it, elsewhere */

struct kube_tcp_socket {
	TAILQ_ENTRY(kube_tcp_socket) entry;
	int fd;
};

static void tune(int fd)
{
	int on = 1, idle = KEEPALIVE_IDLE_S, each = KEEPALIVE_EACH_S, count = KEEPALIVE_COUNT, unacked = UNACKED_MS;

	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &each, sizeof(each));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked, sizeof(unacked));
}

int kube_tcp_open(struct kube_tcp *t, int family, int type, int protocol)
{
	struct kube_tcp_socket *s = calloc(1, sizeof(*s));

	if (!s)
		return -1;
	s->fd = socket(family, type | SOCK_CLOEXEC, protocol);
	if (s->fd < 0) {
		free(s);
		return -1;
	}
	tune(s->fd);
	TAILQ_INSERT_TAIL(t, s, entry);
	return s->fd;
}

int kube_tcp_close(struct kube_tcp *t, int fd)
{
	struct kube_tcp_socket *s;

	TAILQ_FOREACH(s, t, entry)
	if (s->fd == fd) {
		TAILQ_REMOVE(t, s, entry);
		free(s);
		break;
	}
	return close(fd);
}

static int local_port(int fd)
{
	struct sockaddr_storage a = {0};
	socklen_t len = sizeof(a);

	if (getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return 0;
	/* the port stands at the same place in both */
	return a.ss_family == AF_INET || a.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in *)&a)->sin_port) : 0;
}

/* Since the last byte came; 0 when that is not known. */
static uint64_t silent_for(int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ? 0 : info.tcpi_last_data_recv;
}

int kube_tcp_give_up(struct kube_tcp *t, int port, uint64_t silent_ms)
{
	struct kube_tcp_socket *s;
	int n = 0;

	TAILQ_FOREACH(s, t, entry)
	if (local_port(s->fd) == port && silent_for(s->fd) >= silent_ms)
		n += shutdown(s->fd, SHUT_RDWR) == 0;
	return n;
}

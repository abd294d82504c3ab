#include "control/kube/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#define KEEPALIVE_IDLE_S 20
#define KEEPALIVE_EACH_S 5
#define KEEPALIVE_COUNT  3
#define UNACKED_MS       30000

void kube_tcp_tune(int fd)
{
	int on = 1, idle = KEEPALIVE_IDLE_S, each = KEEPALIVE_EACH_S, count = KEEPALIVE_COUNT, unacked = UNACKED_MS;

	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &each, sizeof(each));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked, sizeof(unacked));
}

uint64_t kube_tcp_silent_ms(int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ? 0 : info.tcpi_last_data_recv;
}

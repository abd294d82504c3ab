/*
 * tcp.h - the TCP connections of one client: opened, closed, and given up when their peer fell silent.
 *
 * A list of descriptors, a value of its owner. libcurl opens and closes through it.
 */
#ifndef CONTROL_KUBE_CLIENT_TCP_H
#define CONTROL_KUBE_CLIENT_TCP_H

#include <stdint.h>
#include <sys/queue.h>

struct kube_tcp_socket;
TAILQ_HEAD(kube_tcp, kube_tcp_socket);

/*
 * socket(2), close-on-exec: a child between fork and exec must not keep a connection open. A peer that vanishes without
 * a word is noticed in about half a minute, whether we speak or listen. -1 when there is none.
 */
int kube_tcp_open(struct kube_tcp *t, int family, int type, int protocol);
int kube_tcp_close(struct kube_tcp *t, int fd); /* as close(2) */
/* Shuts the connection that has this local port when nothing came on it for so long. How many: 0 or 1. */
int kube_tcp_give_up(struct kube_tcp *t, int local_port, uint64_t silent_ms);

#endif

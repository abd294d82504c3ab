/*
 * tcp.h - what a TCP connection to an API server is told, and asked. No state.
 */
#ifndef CONTROL_KUBE_TCP_H
#define CONTROL_KUBE_TCP_H

#include <stdint.h>

/* A peer that vanished without a word is noticed in about half a minute, whether we speak or listen. */
void kube_tcp_tune(int fd);
/* Since the last byte came; 0 when that is not known. */
uint64_t kube_tcp_silent_ms(int fd);

#endif

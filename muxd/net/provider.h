/*
 * provider.h - local sandboxes for the hub: every call is a question to the monitor.
 * Owned by net_main(); must outlive the hub.
 */
#ifndef MUXD_NET_PROVIDER_H
#define MUXD_NET_PROVIDER_H

#include "control/sandbox.h"

struct ipc;

int provider_create(struct ipc *ipc, struct sandbox_provider **out);

#endif

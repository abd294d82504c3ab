/*
 * kube_creds.h - what authenticates now: keeps the view of endpoint.h up to date.
 *
 * States: idle -> reading (files, in the loop's pool) -> asking (the plug-in)
 * -> looking (the server's addresses) -> idle; only what is needed of these.
 * One refresh serves everybody who asked meanwhile. A file that cannot be read
 * again (half of a rotation) leaves the old bytes in force, with a warning.
 */
#ifndef CONTROL_KUBE_CREDS_H
#define CONTROL_KUBE_CREDS_H

#include "control/kube/client/endpoint.h"

#include <stdint.h>

struct kubeconfig;
struct uv_loop_s;

/* 0: the default. */
struct kube_creds_limits {
	uint64_t reread_ms;          /* files older than this are read again when somebody asks: 60 s */
	uint64_t lookup_ms;          /* addresses likewise: 30 s */
	uint64_t plugin_deadline_ms; /* 60 s */
	uint64_t plugin_rest_ms;     /* a rejected answer younger than this is not asked for again: 5 s */
};

/*
 * Reads the files that k names, at once (the plug-in runs at the first question): a start fails with what is wrong.
 * k becomes the creds', on success only.
 */
int kube_creds_create(struct uv_loop_s *loop, struct kubeconfig *k, const struct kube_creds_limits *limits,
		      struct kube_creds **out, struct err *e);
/* Questions that are out are answered with ERR_CANCELLED. The loop has to run until its handles are closed. NULL-safe.
 */
void kube_creds_destroy(struct kube_creds *c);
/* For messages and defaults. */
const struct kubeconfig *kube_creds_config(const struct kube_creds *c);

#endif

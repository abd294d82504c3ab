/*
 * kind.h - the ways to a witness, each in a file of its own behind this.
 *
 * A call takes one head and comes back with a receipt, or says why not. It may take as long as its timeout; it is
 * called by one thread for each witness and holds nothing between two calls.
 */
#ifndef MUXD_WITNESS_KIND_H
#define MUXD_WITNESS_KIND_H

#include "base/conf.h"
#include "base/json.h"

struct err;
struct home;

/* Borrowed. */
struct kind_call {
	const struct conf_witness *conf;
	const char *token;                         /* what its credential file holds; NULL */
	const char *ca;                            /* certificates, PEM; NULL: the system's */
	const char *certificate, *certificate_key; /* its own, PEM; NULL: none */
	struct home *home;
	const json_t *head; /* as muxctl head prints it */
	int64_t seq;        /* of it */
};

/* *out: the receipt, an object; the caller's. */
typedef int kind_send(const struct kind_call *c, json_t **out, struct err *e);
/* carrier.c knows them by their names in the configuration. */
kind_send kind_file_send, kind_https_send, kind_muxd_send, kind_syslog_send, kind_timestamp_send, kind_s3_send;

#endif

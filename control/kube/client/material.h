/*
 * material.h - what authenticates at one moment: CA, client certificate with key, bearer token, in memory.
 *
 * Values of their owner; finish wipes them. Loading reads files and so may block:
 * at start, or in the loop's pool.
 */
#ifndef CONTROL_KUBE_CLIENT_MATERIAL_H
#define CONTROL_KUBE_CLIENT_MATERIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct kubeconfig;

#define KUBE_PEM_MAX (1024 * 1024)

struct kube_bytes {
	char *data; /* NUL-terminated besides; NULL: none */
	size_t len;
};

struct kube_material {
	struct kube_bytes ca, cert, key, token;
};

/*
 * Whatever the kubeconfig names, each checked: the CA and the certificate are PEM certificates, the key is an
 * unencrypted one of that certificate, the token has no space or control character in it and KUBE_TOKEN_MAX bytes.
 * ERR_CONFIG and those of a file that cannot be read, naming it.
 */
int kube_material_load(const struct kubeconfig *k, struct kube_material *out, struct err *e);
/* ERR_CONFIG unless cert and key (PEM) belong together. what: whose they are, for the message. */
int kube_material_check_pair(const char *cert, const char *key, const char *what, struct err *e);
/* ERR_CONFIG unless it can stand in a header. */
int kube_material_check_token(const char *token, const char *what, struct err *e);
bool kube_material_equal(const struct kube_material *a, const struct kube_material *b);
void kube_material_finish(struct kube_material *m);
/* Has the first certificate in this PEM text passed its date? Its notAfter goes into out as text. False when it cannot
 * be read. */
bool kube_material_expired(const char *cert_pem, char *out, size_t size);

/* Copy of n bytes. ERR_NOMEM. */
int kube_bytes_set(struct kube_bytes *b, const char *data, size_t n);
void kube_bytes_finish(struct kube_bytes *b);

#endif

/*
 * template.h - what an operator says over the pods that muxd makes: a pod template, checked, and merged over ours.
 *
 * A template is a JSON object {metadata, spec} of the fields that template_fields.h allows; whatever is not there is
 * refused by its JSON pointer. Once checked it cannot weaken what is ours: uid, capabilities, commands, images, token,
 * the volumes workspace and muxlet, our labels and annotations. Pure.
 *
 * The merge is Kubernetes' strategic one: objects by field, lists by the key of the table (containers, env and volumes
 * by name, volumeMounts by mountPath, ...), others as a whole; tolerations stand in front of ours. Additional
 * containers get our own securityContext.
 */
#ifndef CONTROL_KUBE_PODS_TEMPLATE_H
#define CONTROL_KUBE_PODS_TEMPLATE_H

#include "base/json.h"
#include "control/kube/pods/template_fields.h"

#include <stdbool.h>
#include <stddef.h>

struct err;

#define TEMPLATE_TEXT_MAX   (64 * 1024)
#define TEMPLATE_NODES_MAX  4096
#define TEMPLATE_DIGEST_HEX 64

/* Objects of the namespace that a template may name: "a,b"; "" or NULL: none. */
struct template_rules {
	const char *config_maps, *secrets, *claims;
	const char *priority_classes; /* of an agent's own alone (template_own.h) */
	const char *muxlet;           /* where muxlet may be in our container; NULL: not known */
};

/* ERR_INVAL: "/spec/hostNetwork is ...; allowed here are ...". */
int template_check(const json_t *t, const struct template_rules *r, struct err *e);
/*
 * The same, and the pointer of what was refused in at: "/spec/hostNetwork", "" where it is the whole.
 */
int template_check_at(const json_t *t, const struct template_rules *r, char at[TEMPLATE_PATH_MAX], struct err *e);
/* A file's text, YAML or JSON. ERR_CONFIG: "FILE:LINE:COLUMN: /spec/hostNetwork is ...". An empty text: {}. */
int template_parse(const char *text, size_t len, const char *file, const struct template_rules *r, json_t **out,
		   struct err *e);
/* A checked template over a pod of ours ({metadata: {labels, annotations}, spec}), in place. ERR_NOMEM. */
int template_apply(const json_t *t, json_t *pod);
/* A checked template over another one, in place; both of them over a pod come to what it is then. ERR_NOMEM. */
int template_over(json_t *under, const json_t *over);
/* Is name in such a list? */
bool template_lists(const char *list, const char *name);
/* The part that says where a pod may run, and from where its image comes: a new reference, NULL: no memory. */
json_t *template_placement(const json_t *t);
/* SHA-256 of it, in hex; "" for NULL and for one that says nothing. */
void template_digest(const json_t *t, char out[TEMPLATE_DIGEST_HEX + 1]);
/*
 * What the API server made of a pod that was made from it: true when each field that it asks for is there still, in
 * whatever value; else at is the pointer of the first that is not.
 */
bool template_kept(const json_t *t, const json_t *pod, char at[TEMPLATE_PATH_MAX]);

#endif

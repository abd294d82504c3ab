/*
 * Which version of Sandbox objects is spoken: the configured one, or with kubernetes.sandbox_api: auto the best that
 * the cluster serves. That is asked once and kept until the server answers that the version is gone; the call that
 * hears it fails by name, so that nothing of a workspace is touched on the word of a server that is being upgraded, and
 * the next one asks again.
 */
#define LOG_SUBSYS "kube"
#include "base/log.h"
#include "control/kube/client/status.h"
#include "control/kube/pods/agentsandbox.h"
#include "control/kube/pods/provider_state.h"

#include <stdio.h>
#include <string.h>

#define NO_SANDBOX "the cluster knows no Sandbox (" AGENTSANDBOX_GROUP

static void ask_again(struct kjob *j)
{
	served_ask(j, j->served);
}

static int provider_served_choose(struct kp *kp, const json_t *group, struct err *e)
{
	char versions[100];

	kp->served = agentsandbox_served(group);
	agentsandbox_versions(group, versions, sizeof(versions));
	if (kp->served == KUBE_SANDBOX_AUTO)
		return err_set(e, ERR_UNSUPPORTED,
			       "the cluster serves " AGENTSANDBOX_GROUP
			       " as %s, and muxd speaks v1beta1 and v1alpha1: set kubernetes.hold to pod",
			       versions[0] ? versions : "nothing");
	log_info(NULL, AGENTSANDBOX_GROUP " is served as %s: Sandbox objects are spoken of in %s", versions,
		 agentsandbox_version(kp->served));
	return 0;
}

static void provider_served_on_group(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct err here = {0};

	if (kjob_may_wait(j, rc)) {
		j->last = *e;
		kjob_again(j, ask_again);
		return;
	}
	if (rc == ERR_NOT_FOUND)
		rc = err_set(&here, ERR_UNSUPPORTED,
			     NO_SANDBOX "): install agent-sandbox, or set kubernetes.hold to pod: %.150s", e->message);
	else if (rc)
		here = *e;
	else
		rc = provider_served_choose(j->kp, reply->body, &here);
	if (rc)
		kjob_answer(j, rc, &here, NULL, -1);
	else
		served_ask(j, j->served);
}

void served_ask(struct kjob *j, void (*then)(struct kjob *j))
{
	struct kcall c = {.verb = KCALL_GROUP, .ref = {.group = AGENTSANDBOX_GROUP}};
	struct kp *kp = j->kp;

	j->served = then;
	j->api = kp->p.spec.sandbox_api != KUBE_SANDBOX_AUTO ? kp->p.spec.sandbox_api : kp->served;
	if (j->api != KUBE_SANDBOX_AUTO)
		then(j);
	else
		kjob_put(j, &c, provider_served_on_group, &(struct err){0});
}

bool served_is_gone(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	const char *version = agentsandbox_version(j->api);
	bool configured = j->kp->p.spec.sandbox_api != KUBE_SANDBOX_AUTO;

	/* An object that is not there is named by the answer, as is a namespace; a path that nobody serves names
	 * nothing. */
	if (rc != ERR_NOT_FOUND || *kube_status_object(reply->body))
		return false;
	if (!configured) {
		log_warn(NULL, AGENTSANDBOX_GROUP "/%s is not served any more: %s", version, e->message);
		j->kp->served = KUBE_SANDBOX_AUTO;
	}
	if (configured)
		kjob_fail(j, ERR_UNSUPPORTED,
			  NO_SANDBOX
			  "/%s): install agent-sandbox, set kubernetes.sandbox_api, or kubernetes.hold to pod: %.150s",
			  version, e->message);
	else
		kjob_fail(j, ERR_K8S_GONE,
			  AGENTSANDBOX_GROUP
			  "/%s is not served any more; the workspace stays, and the next call asks what is: "
			  "%.150s",
			  version, e->message);
	return true;
}

struct kube_ref served_ref(const struct kjob *j, const char *name)
{
	return (struct kube_ref){.group = AGENTSANDBOX_GROUP,
				 .version = agentsandbox_version(j->api),
				 .resource = "sandboxes",
				 .namespace_ = j->ns,
				 .name = name};
}

/*
 * broker_services.h - services of an agent, as doors ask for them: their list, their states and logs.
 *
 * Scope lifecycle or admin sets the list and begins a service anew; these and rounds see it; observe, lifecycle
 * or admin reads a log. The policy is asked by service.set, service.restart and service.read. Refusals are audited
 * here.
 */
#ifndef MUXD_HUB_SERVICES_BROKER_SERVICES_H
#define MUXD_HUB_SERVICES_BROKER_SERVICES_H

#include "muxd/hub/core/request.h"

/* Texts and JSON are borrowed for the call. */
struct service_wish {
	const char *agent, *service; /* service NULL: all of them */
	int64_t version;             /* shown: of the list, 0: the newest; set: that it has to have, -1: any */
	const json_t *list;          /* set */
	size_t bytes;                /* of a log */
	const char *reason;          /* of a restart; NULL */
};

/* {agent, version, services, set_at, set_by}, each service with its state where it is the newest. ERR_LIST_CHANGED. */
void broker_services_set(struct hub *h, const struct request *rq, const struct service_wish *w, broker_json_done *done,
			 void *arg);
void broker_services_show(struct hub *h, const struct request *rq, const struct service_wish *w, broker_json_done *done,
			  void *arg);
/* {agent, version, service: an entry with its state}. */
void broker_service_show(struct hub *h, const struct request *rq, const struct service_wish *w, broker_json_done *done,
			 void *arg);
/* {agent, service, data}. */
void broker_service_log(struct hub *h, const struct request *rq, const struct service_wish *w, broker_json_done *done,
			void *arg);
/* As broker_service_show(). ERR_BAD_STATE: its sandbox is not awake. */
void broker_service_restart(struct hub *h, const struct request *rq, const struct service_wish *w,
			    broker_json_done *done, void *arg);

#endif

/*
 * lost.h - sessions whose hub never came back.
 *
 * The hub ends its sessions itself. When it is gone and stays gone for
 * LOST_AFTER_NS (no connection that has recovered, nothing in the ring, and a
 * disk that took what there was), the recorder writes the EXIT that is
 * missing: cause `lost`, "daemon lost". A hub that comes later finds those
 * sessions ended, and opens a part that names the one it continues. A value
 * owned by the process's main loop.
 */
#ifndef RECORDER_SERVE_LOST_H
#define RECORDER_SERVE_LOST_H

#include "base/clock.h"
#include "recorder/serve/service.h"
#include "recorder/write/drain.h"

#define LOST_AFTER_NS (15 * 60 * NS_PER_SEC)

struct lost {
	struct drain *drain;
	struct live *live;
	struct service *service; /* NULL in tests */
	uint64_t after_ns;       /* LOST_AFTER_NS */
	uint64_t since_ns;       /* the hub was there, or we began to wait */
	uint64_t head;           /* of the ring when we looked last */
};

void lost_init(struct lost *l, struct drain *drain, struct live *live, struct service *service);
/* Call it every second or so. Returns how many sessions it ended. */
size_t lost_check(struct lost *l);

#endif

/* What every job does by itself: its state, its waits, its deadline. Nothing of the provider is called from here. */
#define LOG_SUBSYS "kube"
#include "control/kube/provider_state.h"
#include "muxd/base/clock.h"
#include "muxd/base/log.h"

static const char *const kind_names[] = {"ensure", "connect",   "stat", "destroy", "wipe",           "resolve", "list",
					 "take",   "snapshots", "drop", "restore", "drop workspace", "set end"};
static const char *const state_names[] = {"looking",    "making",   "replacing", "waiting", "ending",
					  "asking why", "reaching", "copying",   "tidying"};

void kjob_set_state(struct kjob *j, enum kjob_state s)
{
	if (j->state != s)
		log_debug(&(struct log_ids){.agent = j->name}, "%s: %s -> %s", kind_names[j->kind],
			  state_names[j->state], state_names[s]);
	j->state = s;
}

bool kp_may_pass(int rc)
{
	return rc == ERR_K8S_UNREACHABLE || rc == ERR_K8S_BUSY || rc == ERR_TIMEOUT || rc == ERR_EOF ||
	       rc == ERR_LINK_LOST;
}

static void on_timer(uv_timer_t *t)
{
	struct kjob *j = t->data;

	if (j->tick)
		j->tick(j);
	else
		j->pod_tick(j);
}

bool kjob_is_late(const struct kjob *j)
{
	return clock_boot_ns() >= j->deadline_ns;
}

void kjob_wait(struct kjob *j, uint64_t ms)
{
	uint64_t now = clock_boot_ns(), left = j->deadline_ns > now ? (j->deadline_ns - now) / NS_PER_MS : 0;

	uv_timer_start(j->timer, on_timer, ms < left ? ms : left, 0);
}

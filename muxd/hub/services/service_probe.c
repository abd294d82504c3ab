/* Is a service healthy? Asked of muxlet on a channel of its own, as the disk is synced: it is no session. */
#define LOG_SUBSYS "service"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/agent/quiesce.h"
#include "muxd/hub/agent/service_state.h"

#include <string.h>

#define EAGER_FIRST_MS 50
#define EAGER_MOST_MS  1000
#define MARGIN_NS      (5 * NS_PER_SEC) /* for muxlet's word after the time of a look is over */

/*
 * While it warms up somebody may wait for it: often at first, once a second later on. One that was healthy is looked at
 * again after a second, and then less and less often, down to its interval_ms.
 */
static uint64_t pause_ns(const struct service *x)
{
	bool warms = x->state == SERVICE_WARMING;
	uint64_t ms = warms ? EAGER_FIRST_MS : EAGER_MOST_MS,
		 most = warms ? EAGER_MOST_MS : (uint64_t)x->def.interval_ms;

	for (unsigned i = 1; i < x->probe.failed && ms < most; i++)
		ms *= 2;
	return (ms < most ? ms : most) * NS_PER_MS;
}

void service_probe_lost(struct service *x)
{
	memset(&x->probe, 0, sizeof(x->probe));
}

void service_probe_reset(struct service *x)
{
	const struct agent *a = x->probe.channel ? agent_find(x->hub, x->agent) : NULL;

	if (a && a->link)
		(void)link_forget(a->link, x->probe.channel);
	service_probe_lost(x);
}

static int open_probe(struct service *x, struct agent *a, struct err *e)
{
	char port[8];
	const char *const argv[] = {"muxlet", "--probe", port, x->def.path ? "--path" : NULL, x->def.path, NULL};
	static const char *const env[] = {NULL};
	struct link_open o = {.argv = argv,
			      .env = env,
			      .cwd = "/",
			      .timeout_ms = (uint64_t)x->def.timeout_ms,
			      .grace_ms = 100,
			      .self = true,
			      .reserve = true,
			      .window = 4096};

	text_format(port, sizeof(port), "%d", (int)x->def.port);
	if (id_new(&o.session))
		return err_set(e, ERR_SYS, "no random bytes");
	o.channel = x->probe.channel = agent_new_channel(a);
	return link_open(a->link, &o, e);
}

static void failed(struct service *x, const char *why)
{
	x->probe.channel = 0;
	x->probe.failed++;
	text_put(x->probe.why, sizeof(x->probe.why), why);
	x->probe.next_ns = clock_boot_ns() + pause_ns(x);
}

void service_probe(struct service *x, struct agent *a, uint64_t now)
{
	struct err e = {0};

	if (now < x->probe.next_ns || quiesce_stills(a))
		return;
	if (x->probe.channel) {
		(void)link_forget(a->link, x->probe.channel);
		failed(x, "muxlet did not say in time");
		return;
	}
	x->probe.words[0] = '\0';
	if (open_probe(x, a, &e))
		failed(x, e.message);
	else
		x->probe.next_ns = now + (uint64_t)x->def.timeout_ms * NS_PER_MS + MARGIN_NS;
}

bool service_probe_said(struct service *x, uint32_t channel, const uint8_t *p, size_t n)
{
	if (x->probe.channel != channel)
		return false;
	text_put_bytes(x->probe.words, sizeof(x->probe.words), p,
		       n < sizeof(x->probe.words) ? n : sizeof(x->probe.words) - 1);
	return true;
}

int service_probe_exited(struct service *x, uint32_t channel, const struct link_exit *end)
{
	const struct agent *a = agent_find(x->hub, x->agent);

	if (!x->probe.channel || x->probe.channel != channel)
		return -1;
	if (a && a->link)
		(void)link_forget(a->link, channel);
	if (end->cause == EXIT_EXITED && end->code == 0 && !end->signal) {
		x->probe.channel = 0;
		x->probe.failed = 0;
		x->probe.next_ns = clock_boot_ns() + (uint64_t)x->def.interval_ms * NS_PER_MS;
		return 1;
	}
	failed(x, end->cause == EXIT_TIMEOUT ? "it did not answer in time"
		  : x->probe.words[0]        ? x->probe.words
					     : exit_cause_name(end->cause));
	return 0;
}

#define LOG_SUBSYS "monitor"
#include "muxd/monitor/audit.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/ids.h"
#include "base/log.h"
#include "muxd/monitor/proc.h"

#include <stdbool.h>
#include <stdlib.h>

#define TICK_MS 250

struct item {
	struct item *next;
	int64_t tag;
	json_t *record;
	bool sent;
	bool first;           /* only where the record can be written */
	int rc;               /* what net said last */
	uint64_t deadline_ns; /* 0: none */
	audit_done *done;
	void *arg;
};

struct audit {
	uv_timer_t tick; /* deadlines and retries */
	struct proc *net;
	struct item *first;
	size_t n;
	int64_t next_tag;
};

static void item_free(struct item *it)
{
	json_decref(it->record);
	free(it);
}

static void send_item(struct audit *a, struct item *it)
{
	json_t *msg;

	if (it->sent || a->net->state != PROC_READY)
		return;
	msg = json_pack("{s:s, s:I, s:O, s:b}", "op", "audit", "tag", (json_int_t)it->tag, "record", it->record,
			"writable", (int)it->first);
	it->sent = msg && proc_send(a->net, msg, NULL, 0) == 0;
	json_decref(msg);
}

/* Take it out of the list and tell its owner. */
static void audit_settle(struct audit *a, struct item **at, int rc)
{
	struct item *it = *at;

	*at = it->next;
	a->n--;
	if (it->done)
		it->done(it->arg, rc);
	item_free(it);
}

static void audit_on_tick(uv_timer_t *t)
{
	struct audit *a = t->data;
	uint64_t now = clock_boot_ns();
	struct item **at = &a->first;

	while (*at) {
		if ((*at)->deadline_ns && now >= (*at)->deadline_ns) {
			audit_settle(a, at, (*at)->rc ? (*at)->rc : ERR_TIMEOUT);
			at = &a->first; /* the owner may have added or answered others */
			continue;
		}
		send_item(a, *at);
		at = &(*at)->next;
	}
	if (!a->first)
		uv_timer_stop(&a->tick);
}

int audit_create(uv_loop_t *loop, struct proc *net, struct audit **out)
{
	struct audit *a = calloc(1, sizeof *a);

	if (!a || uv_timer_init(loop, &a->tick)) {
		free(a);
		return ERR_NOMEM;
	}
	a->net = net;
	a->next_tag = 1;
	a->tick.data = a;
	*out = a;
	return 0;
}

static void audit_on_closed(uv_handle_t *h)
{
	free(h->data);
}

void audit_destroy(struct audit *a)
{
	if (!a)
		return;
	while (a->first)
		audit_settle(a, &a->first, ERR_CANCELLED);
	uv_close((uv_handle_t *)&a->tick, audit_on_closed);
}

static int stamp(json_t *record)
{
	char text[ID_STR_LEN];
	struct id id;
	int rc;

	if (json_object_get(record, "event_id")) /* that of its owner, who sets the time as well */
		return 0;
	if ((rc = id_new(&id)))
		return rc;
	id_format(&id, text);
	if (json_object_set_new(record, "event_id", json_string(text)) ||
	    json_object_set_new(record, "wall_ns", json_integer(clock_wall_ns())))
		return ERR_NOMEM;
	return 0;
}

static int monitor_audit_put(struct audit *a, json_t *record, bool first, uint64_t timeout_ms, audit_done *done,
			     void *arg)
{
	struct item *it, **at = &a->first;
	int rc = record ? stamp(record) : ERR_NOMEM;

	if (rc == 0 && a->n >= AUDIT_MAX)
		rc = ERR_LIMIT;
	it = rc ? NULL : calloc(1, sizeof *it);
	if (!it) {
		json_decref(record);
		return rc ? rc : ERR_NOMEM;
	}
	*it = (struct item){.tag = a->next_tag++, .record = record, .first = first, .done = done, .arg = arg};
	if (timeout_ms)
		it->deadline_ns = clock_boot_ns() + timeout_ms * NS_PER_MS;
	while (*at)
		at = &(*at)->next;
	*at = it;
	a->n++;
	send_item(a, it);
	if (!uv_is_active((uv_handle_t *)&a->tick))
		uv_timer_start(&a->tick, audit_on_tick, TICK_MS, TICK_MS);
	return 0;
}

int audit_put(struct audit *a, json_t *record, uint64_t timeout_ms, audit_done *done, void *arg)
{
	return monitor_audit_put(a, record, false, timeout_ms, done, arg);
}

int audit_put_first(struct audit *a, json_t *record, uint64_t timeout_ms, audit_done *done, void *arg)
{
	return monitor_audit_put(a, record, true, timeout_ms, done, arg);
}

void audit_net_ready(struct audit *a)
{
	for (struct item *it = a->first; it; it = it->next) {
		it->sent = false;
		send_item(a, it);
	}
}

void audit_answer(struct audit *a, int64_t tag, int rc)
{
	struct item **at = &a->first;

	while (*at && (*at)->tag != tag)
		at = &(*at)->next;
	if (!*at)
		return;                                     /* given up before */
	if (rc == ERR_RECORD_UNAVAILABLE && (*at)->first) { /* the recorder may be back before its time is over */
		(*at)->sent = false;
		(*at)->rc = rc;
		return;
	}
	if (rc && !(*at)->deadline_ns) {
		log_warn(NULL, "an audit record could not be journaled (%s); it is kept and tried again", err_name(rc));
		(*at)->sent = false;
		return;
	}
	audit_settle(a, at, rc);
}

size_t audit_waiting(const struct audit *a)
{
	return a->n;
}

#define LOG_SUBSYS "kube"
#include "control/kube/client/watch.h"

#include "base/backoff.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "control/kube/client/known.h"
#include "control/kube/client/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define PAGE             500
#define TIMEOUT_S        240
#define TIMEOUT_SLACK_MS 30000 /* behind the time at which the server should have ended the stream */
#define SILENCE_MS       150000
#define BACKOFF_MS       500
#define BACKOFF_MAX_MS   30000
#define EVENT_MAX        (8 * 1024 * 1024)
#define QUERY_MAX        (64 * 1024)
#define STEADY_MS        5000 /* a stream that lasted so long was none that failed */
#define WHAT_SIZE        200

enum watch_state { WATCH_LISTING, WATCH_OPENING, WATCH_WATCHING, WATCH_WAITING, WATCH_CLOSING };

struct kube_watch {
	enum watch_state state;
	struct kube *kube;
	const struct kube_watch_ops *ops;
	void *arg;
	struct kube_watch_options options;
	struct kube_ref ref; /* its strings are ours */
	char what[WHAT_SIZE], right[WHAT_SIZE];
	struct kube_call *call;               /* NULL: none, or one whose end does not matter */
	uv_timer_t timer;                     /* waiting: the next try; watching: silence */
	uint64_t began_at, heard_at, ends_at; /* of the stream, by the loop's clock */
	uint64_t listed_at;                   /* the last list's end; 0: none yet */
	char *continue_;                      /* of the list under way */
	char *version;                        /* told up to here; NULL: list first */
	struct known known;
	struct buf line;
	size_t scanned; /* of line, without an end in it */
	bool synced, bookmarked;
	unsigned failures;
	int trouble; /* told last; 0: none */
};

static void list(struct kube_watch *w);
static void open_stream(struct kube_watch *w);
static void watch_on_timer(uv_timer_t *t);

static void watch_set_state(struct kube_watch *w, enum watch_state s)
{
	static const char *const names[] = {"listing", "opening", "watching", "waiting", "closing"};

	if (w->state != s)
		log_debug(NULL, "%s: %s -> %s", w->what, names[w->state], names[s]);
	w->state = s;
}

static bool closing(const struct kube_watch *w)
{
	return w->state == WATCH_CLOSING;
}

/* --- trouble */

static void trouble_over(struct kube_watch *w)
{
	bool tell = w->trouble != 0;

	w->trouble = 0;
	if (tell && w->ops->trouble)
		w->ops->trouble(w->arg, 0, NULL);
}

static void all_is_well(struct kube_watch *w)
{
	w->failures = 0;
	trouble_over(w);
}

static void wait(struct kube_watch *w)
{
	uint64_t ms = backoff_spread(++w->failures, w->options.backoff_ms, w->options.backoff_max_ms);

	watch_set_state(w, WATCH_WAITING);
	(void)uv_timer_start(&w->timer, watch_on_timer, ms, 0);
}

static void watch_fail(struct kube_watch *w, int rc, const struct err *e)
{
	bool tell = w->trouble != rc;

	wait(w);
	w->trouble = rc;
	if (tell && w->ops->trouble)
		w->ops->trouble(w->arg, rc, e);
}

static void forget_version(struct kube_watch *w)
{
	free(w->version);
	w->version = NULL;
	free(w->continue_);
	w->continue_ = NULL;
}

/* The stream is done for, whatever it still says. */
static void drop_call(struct kube_watch *w, uint64_t silent_ms)
{
	struct kube_call *c = w->call;

	w->call = NULL;
	(void)uv_timer_stop(&w->timer);
	kube_abandon(c, silent_ms);
}

/* --- telling */

static bool watch_set_text(char **to, const char *s)
{
	char *copy = strdup(s);

	if (!copy)
		return false;
	free(*to);
	*to = copy;
	return true;
}

static int tell_change(struct kube_watch *w, const json_t *o)
{
	enum known_change change = KNOWN_SAME;
	json_t *old = NULL;
	int rc = known_update(&w->known, o, &change, &old);

	if (rc < 0)
		return rc;
	if (change == KNOWN_REPLACED)
		w->ops->deleted(w->arg, old);
	json_decref(old);
	if (closing(w))
		return 0;
	if (change == KNOWN_MODIFIED)
		w->ops->modified(w->arg, o);
	else if (change != KNOWN_SAME)
		w->ops->added(w->arg, o);
	return 0;
}

static const char *version_of(const json_t *o)
{
	return json_get_text(json_object_get(o, "metadata"), "resourceVersion");
}

/* --- the list */

static void tell_gone(struct kube_watch *w)
{
	json_t *o;

	while (!closing(w) && (o = known_sweep(&w->known))) {
		w->ops->deleted(w->arg, o);
		json_decref(o);
	}
}

/* A list alone shows no recovery: the version it gave may be forgotten by the time a stream is asked for. */
static bool listed_lately(const struct kube_watch *w)
{
	return w->listed_at && uv_now(kube_client_loop(w->kube)) - w->listed_at < STEADY_MS;
}

static int tell_page(struct kube_watch *w, const json_t *page)
{
	const json_t *items = json_object_get(page, "items"), *o;
	size_t i;
	int rc = 0;

	json_array_foreach(items, i, o)
	{
		if (rc == 0 && !closing(w))
			rc = tell_change(w, o);
	}
	return rc;
}

static void list_ended(struct kube_watch *w, const json_t *page)
{
	bool resync = w->synced;

	if (!*version_of(page) || !watch_set_text(&w->version, version_of(page))) {
		struct err e;
		err_set(&e, ERR_PROTOCOL, "%s: the list has no resourceVersion", w->what);
		watch_fail(w, ERR_PROTOCOL, &e);
		return;
	}
	free(w->continue_);
	w->continue_ = NULL;
	tell_gone(w);
	if (closing(w)) /* and what it watched with may be gone */
		return;
	if (!listed_lately(w))
		w->failures = 0;
	w->listed_at = uv_now(kube_client_loop(w->kube));
	w->synced = true;
	trouble_over(w);
	if (!closing(w))
		w->ops->synced(w->arg, resync);
	if (!closing(w))
		open_stream(w);
}

static void page_came(struct kube_watch *w, const json_t *page)
{
	const char *more = json_string_value(json_object_get(json_object_get(page, "metadata"), "continue"));
	int rc = tell_page(w, page);
	struct err e;

	if (closing(w))
		return;
	if (rc == 0 && more && *more && !watch_set_text(&w->continue_, more))
		rc = ERR_NOMEM;
	if (rc < 0) {
		free(w->continue_);
		w->continue_ = NULL;
		err_set(&e, rc, "%s: %s", w->what, rc == ERR_NOMEM ? "no memory" : "an object has no name or no uid");
		watch_fail(w, rc, &e);
	} else if (more && *more) {
		list(w);
	} else {
		list_ended(w, page);
	}
}

static void watch_on_page(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kube_watch *w = arg;

	if (!w->call)
		return;
	w->call = NULL;
	if (rc == 0) {
		page_came(w, reply->body);
		return;
	}
	/* a page that is too late for the rest of its list: the list begins anew */
	bool late = rc == ERR_K8S_GONE && w->continue_;
	free(w->continue_);
	w->continue_ = NULL;
	if (late)
		wait(w);
	else
		watch_fail(w, rc, e);
}

static void list(struct kube_watch *w)
{
	struct kube_list_options o = {
	    .labels = w->options.labels,
	    .fields = w->options.fields,
	    .continue_ = w->continue_,
	    .limit = w->options.page,
	};
	struct err e;

	watch_set_state(w, WATCH_LISTING);
	if (!w->continue_)
		w->known.list++;
	int rc = kube_list(w->kube, &w->ref, &o, watch_on_page, w, &w->call, &e);
	if (rc < 0)
		watch_fail(w, rc, &e);
}

/* --- the stream */

/* What is forgotten is listed; one list close upon another only after a while. */
static void version_gone(struct kube_watch *w)
{
	log_debug(NULL, "%s: version %s is forgotten, listing again", w->what, w->version);
	forget_version(w);
	if (listed_lately(w))
		wait(w);
	else
		list(w);
}

static void arm_silence(struct kube_watch *w)
{
	uint64_t now = uv_now(kube_client_loop(w->kube)), at = w->ends_at;

	if (w->bookmarked && w->heard_at + w->options.silence_ms < at)
		at = w->heard_at + w->options.silence_ms;
	(void)uv_timer_start(&w->timer, watch_on_timer, at > now ? at - now : 0, 0);
}

static void event_error(struct kube_watch *w, const json_t *status)
{
	int code = (int)json_integer_value(json_object_get(status, "code"));
	struct err e = {0};

	drop_call(w, 0);
	if (code == 410) {
		version_gone(w);
		return;
	}
	int rc = kube_status_error_json(code, status, w->what, &e);
	watch_fail(w, rc, &e);
}

static int event_object(struct kube_watch *w, const char *type, const json_t *o)
{
	int rc = 0;

	if (strcmp(type, "BOOKMARK") == 0) {
		w->bookmarked = true;
	} else if (strcmp(type, "DELETED") == 0) {
		if (known_remove(&w->known, o))
			w->ops->deleted(w->arg, o);
	} else if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0) {
		rc = tell_change(w, o);
	} else {
		log_debug(NULL, "%s: an event of type %.32s is not known", w->what, type);
		return 0;
	}
	if (rc == 0 && !closing(w) && *version_of(o) && !watch_set_text(&w->version, version_of(o)))
		rc = ERR_NOMEM;
	return rc;
}

static void watch_take_event(struct kube_watch *w, const uint8_t *p, size_t n)
{
	json_t *event = NULL;
	struct err why = {0}, e;
	int rc = json_parse(p, n, w->options.event_max, &event, &why);
	const char *type = json_string_value(json_object_get(event, "type"));
	const json_t *o = json_object_get(event, "object");

	if (rc == 0 && (!type || !json_is_object(o)))
		rc = err_set(&why, ERR_PROTOCOL, "it has no type or no object");
	if (rc == 0 && strcmp(type, "ERROR") == 0) {
		event_error(w, o);
	} else {
		if (rc == 0)
			rc = event_object(w, type, o);
		if (rc < 0) {
			drop_call(w, 0);
			rc = rc == ERR_NOMEM ? rc : ERR_PROTOCOL;
			err_set(&e, rc, "%s: an event cannot be used: %s", w->what,
				why.code ? why.message : "an object without name or uid");
			watch_fail(w, rc, &e);
		} else if (!closing(w)) {
			all_is_well(w);
		}
	}
	json_decref(event);
}

/* Every whole line is an event; until one of them ends this stream. */
static void take_lines(struct kube_watch *w)
{
	while (w->state == WATCH_WATCHING) {
		const uint8_t *p = buf_ptr(&w->line);
		size_t n = buf_len(&w->line);
		const uint8_t *end = n > w->scanned ? memchr(p + w->scanned, '\n', n - w->scanned) : NULL;
		if (!end) {
			w->scanned = n;
			return;
		}
		size_t len = (size_t)(end - p);
		if (len)
			watch_take_event(w, p, len);
		if (closing(w))
			return;
		buf_consume(&w->line, len + 1);
		w->scanned = 0;
	}
}

static void watch_on_data(void *arg, const uint8_t *p, size_t n)
{
	struct kube_watch *w = arg;
	struct err e;

	w->heard_at = uv_now(kube_client_loop(w->kube));
	if (n == 0) {
		w->began_at = w->heard_at;
		watch_set_state(w, WATCH_WATCHING);
		arm_silence(w);
		trouble_over(w);
		return;
	}
	arm_silence(w);
	while (n > 0 && w->state == WATCH_WATCHING) {
		size_t room = buf_room(&w->line), take = n < room ? n : room;
		int rc = take ? buf_append(&w->line, p, take) : ERR_TOO_LARGE;
		if (rc < 0) {
			drop_call(w, 0);
			err_set(&e, rc, "%s: an event is larger than %zu bytes", w->what, w->options.event_max);
			watch_fail(w, rc, &e);
			return;
		}
		p += take;
		n -= take;
		take_lines(w);
	}
}

static void watch_on_stream_end(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kube_watch *w = arg;
	bool began = w->state == WATCH_WATCHING;

	(void)reply;
	if (!w->call)
		return;
	w->call = NULL;
	(void)uv_timer_stop(&w->timer);
	if (rc == ERR_K8S_GONE) {
		version_gone(w);
	} else if (rc < 0 && !began) {
		watch_fail(w, rc, e);
	} else if (rc == 0 &&
		   (w->heard_at > w->began_at || uv_now(kube_client_loop(w->kube)) - w->began_at >= STEADY_MS)) {
		open_stream(w);
	} else {
		wait(w);
	}
}

static int stream_query(const struct kube_watch *w, unsigned timeout_s, struct buf *b)
{
	char timeout[16];
	int rc = kube_query_add(b, "watch", "true");

	snprintf(timeout, sizeof(timeout), "%u", timeout_s);
	if (rc == 0)
		rc = kube_query_add(b, "allowWatchBookmarks", "true");
	if (rc == 0)
		rc = kube_query_add(b, "resourceVersion", w->version);
	if (rc == 0)
		rc = kube_query_add(b, "timeoutSeconds", timeout);
	if (rc == 0)
		rc = kube_query_add(b, "labelSelector", w->options.labels);
	return rc == 0 ? kube_query_add(b, "fieldSelector", w->options.fields) : rc;
}

static int request_stream(struct kube_watch *w, unsigned timeout_s, struct err *e)
{
	struct kube_request r = {.method = "GET", .what = w->what, .right = w->right, .data = watch_on_data};
	struct buf path, query;

	buf_init(&path, 4096);
	buf_init(&query, QUERY_MAX);
	int rc = kube_ref_path(&path, &w->ref);
	if (rc == 0)
		rc = stream_query(w, timeout_s, &query);
	r.path = buf_cstr(&path);
	r.query = buf_cstr(&query);
	if (rc == 0 && (!r.path || !r.query))
		rc = ERR_NOMEM;
	rc = rc == 0 ? kube_request(w->kube, &r, watch_on_stream_end, w, &w->call, e)
		     : err_set(e, rc, "%s: no memory for a request", w->what);
	buf_finish(&path);
	buf_finish(&query);
	return rc;
}

static void open_stream(struct kube_watch *w)
{
	unsigned t =
	    w->options.timeout_s + (unsigned)(backoff_jitter(w->options.timeout_s * 2) - w->options.timeout_s * 2);
	struct err e = {0};

	watch_set_state(w, WATCH_OPENING);
	w->bookmarked = false;
	w->scanned = 0;
	buf_clear(&w->line);
	w->ends_at = uv_now(kube_client_loop(w->kube)) + (uint64_t)t * 1000 + TIMEOUT_SLACK_MS;
	int rc = request_stream(w, t, &e);
	if (rc < 0)
		watch_fail(w, rc, &e);
}

/* --- time */

static void watch_on_timer(uv_timer_t *t)
{
	struct kube_watch *w = t->data;

	if (w->state == WATCH_WATCHING) {
		uint64_t silent = uv_now(kube_client_loop(w->kube)) - w->heard_at;
		log_info(NULL, "%s: nothing for %llu ms, opening it anew", w->what, (unsigned long long)silent);
		drop_call(w, silent);
		open_stream(w);
	} else if (w->version) {
		open_stream(w);
	} else {
		list(w);
	}
}

/* --- life */

static void watch_free(struct kube_watch *w)
{
	free((char *)(uintptr_t)w->ref.group);
	free((char *)(uintptr_t)w->ref.version);
	free((char *)(uintptr_t)w->ref.resource);
	free((char *)(uintptr_t)w->ref.namespace_);
	free((char *)(uintptr_t)w->options.labels);
	free((char *)(uintptr_t)w->options.fields);
	free(w->continue_);
	free(w->version);
	known_finish(&w->known);
	buf_finish(&w->line);
	free(w);
}

static bool watch_keep(const char **to, const char *s)
{
	*to = s ? strdup(s) : NULL;
	return !s || *to;
}

static bool copy_all(struct kube_watch *w, const struct kube_ref *r, const struct kube_watch_options *o)
{
	return watch_keep(&w->ref.group, r->group) && watch_keep(&w->ref.version, r->version) &&
	       watch_keep(&w->ref.resource, r->resource) && watch_keep(&w->ref.namespace_, r->namespace_) &&
	       watch_keep(&w->options.labels, o->labels) && watch_keep(&w->options.fields, o->fields);
}

static void fill_options(struct kube_watch_options *to, const struct kube_watch_options *o)
{
	to->page = o->page ? o->page : PAGE;
	to->timeout_s = o->timeout_s ? o->timeout_s : TIMEOUT_S;
	to->silence_ms = o->silence_ms ? o->silence_ms : SILENCE_MS;
	to->backoff_ms = o->backoff_ms ? o->backoff_ms : BACKOFF_MS;
	to->backoff_max_ms = o->backoff_max_ms ? o->backoff_max_ms : BACKOFF_MAX_MS;
	to->event_max = o->event_max ? o->event_max : EVENT_MAX;
}

int kube_watch_create(struct kube *k, const struct kube_ref *r, const struct kube_watch_options *o,
		      const struct kube_watch_ops *ops, void *arg, struct kube_watch **out, struct err *e)
{
	static const struct kube_watch_options defaults;
	struct kube_watch *w = calloc(1, sizeof(*w));

	if (!w || !copy_all(w, r, o ? o : &defaults)) {
		if (w)
			watch_free(w);
		return err_set(e, ERR_NOMEM, "no memory for a watch");
	}
	fill_options(&w->options, o ? o : &defaults);
	w->kube = k;
	w->ops = ops;
	w->arg = arg;
	kube_ref_text("watch", &w->ref, w->what, sizeof(w->what));
	kube_ref_right("watch", &w->ref, w->right, sizeof(w->right));
	buf_init(&w->line, w->options.event_max + 1);
	(void)uv_timer_init(kube_client_loop(k), &w->timer);
	w->timer.data = w;
	watch_set_state(w, WATCH_WAITING);
	(void)uv_timer_start(&w->timer, watch_on_timer, 0, 0);
	*out = w;
	return 0;
}

static void watch_on_timer_closed(uv_handle_t *t)
{
	watch_free(t->data);
}

void kube_watch_destroy(struct kube_watch *w)
{
	if (!w)
		return;
	watch_set_state(w, WATCH_CLOSING);
	drop_call(w, 0);
	uv_close((uv_handle_t *)&w->timer, watch_on_timer_closed);
}

size_t kube_watch_count(const struct kube_watch *w)
{
	return known_count(&w->known);
}

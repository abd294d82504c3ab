#define LOG_SUBSYS "ledger"
#include "recorder/serve/ledger.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define RANGES_MAX   16
#define MESSAGE_MAX  200
#define LAST_CALL_NS NS_PER_SEC

/* Compared as bytes: always made from zeroed memory. */
struct account_key {
	struct id grant, session;
	uint64_t conn;
	char door[16], peer[64], outcome[32];
	bool login; /* a failed log-in, or an act that was refused; not a reading */
	bool act;
};

struct range {
	uint64_t from, to;
};
struct sent {
	uint64_t bytes;
	struct range r[RANGES_MAX]; /* in order, apart from each other */
	unsigned n;
};

struct account {
	UT_hash_handle hh;
	struct account_key key;
	struct reader who;
	char agent[AGENT_NAME_MAX + 1], op[32], message[MESSAGE_MAX];
	uint64_t told_ns;
	bool due;
	uint64_t count, ops[READ_OPS]; /* since it was told */
	struct sent sent[LEDGER_STREAMS];
};

struct ledger {
	pthread_mutex_t lock;
	struct drain *drain;
	uint64_t window_ns;
	struct account *accounts;
};

const char *ledger_op_name(enum ledger_op op)
{
	static const char *const names[] = {"sessions", "session", "events", "recording", "page",      "keyframe",
					    "output",   "screen",  "file",   "audit",     "retention", "holds"};

	_Static_assert(sizeof(names) / sizeof(names[0]) == READ_OPS, "an operation without a name");
	return names[op];
}

/* ---- ranges */

static void range_drop(struct sent *s, unsigned i)
{
	memmove(&s->r[i], &s->r[i + 1], (s->n - i - 1) * sizeof(s->r[0]));
	s->n--;
}

/* Where there are too many, the two with the smallest hole between them become one. */
static void ranges_thin(struct sent *s)
{
	unsigned best = 0;

	for (unsigned i = 1; i + 1 < s->n; i++)
		if (s->r[i + 1].from - s->r[i].to < s->r[best + 1].from - s->r[best].to)
			best = i;
	s->r[best].to = s->r[best + 1].to;
	range_drop(s, best + 1);
}

static void ranges_add(struct sent *s, uint64_t from, uint64_t n)
{
	struct range new = {from, from + n};
	unsigned at = 0;

	s->bytes += n;
	while (at < s->n && s->r[at].to < new.from)
		at++;
	while (at < s->n && s->r[at].from <= new.to) {
		new.from = s->r[at].from < new.from ? s->r[at].from : new.from;
		new.to = s->r[at].to > new.to ? s->r[at].to : new.to;
		range_drop(s, at);
	}
	if (s->n == RANGES_MAX) {
		ranges_thin(s);
		for (at = 0; at < s->n && s->r[at].to < new.from;)
			at++;
		if (at < s->n && s->r[at].from <= new.to) { /* the hole that was closed is where it belongs */
			s->r[at].from = s->r[at].from < new.from ? s->r[at].from : new.from;
			s->r[at].to = s->r[at].to > new.to ? s->r[at].to : new.to;
			return;
		}
	}
	memmove(&s->r[at + 1], &s->r[at], (s->n - at) * sizeof(s->r[0]));
	s->r[at] = new;
	s->n++;
}

/* ---- an event */

static void ledger_put(json_t *o, const char *key, const char *text)
{
	if (*text)
		json_object_set_new(o, key, json_string(text));
}

static void put_id(json_t *o, const char *key, const struct id *id)
{
	char text[ID_STR_LEN];

	if (id_is_nil(id))
		return;
	id_format(id, text);
	ledger_put(o, key, text);
}

static void put_who(json_t *o, const struct reader *who)
{
	ledger_put(o, "door", who->door);
	ledger_put(o, "peer", who->peer);
	ledger_put(o, "endpoint", who->endpoint);
	if (id_is_nil(&who->grant.id))
		return;
	put_id(o, "grant_id", &who->grant.id);
	ledger_put(o, "principal", who->grant.principal);
	ledger_put(o, "principal_kind", grant_kind_name(who->grant.kind));
	ledger_put(o, "reason", who->grant.reason);
}

static json_t *ranges_json(const struct sent *s)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < s->n; i++)
		json_array_append_new(
		    list, json_pack("[I,I]", (json_int_t)s->r[i].from, (json_int_t)(s->r[i].to - s->r[i].from)));
	return json_pack("{s:I,s:o}", "bytes", (json_int_t)s->bytes, "ranges", list);
}

static void put_read(json_t *o, const struct account *a)
{
	static const char *const names[] = {"input", "output", "stderr"};
	json_t *ops = json_object(), *streams = json_object();

	for (int i = 0; i < READ_OPS; i++)
		if (a->ops[i])
			json_object_set_new(ops, ledger_op_name(i), json_integer((json_int_t)a->ops[i]));
	for (int i = 0; i < LEDGER_STREAMS; i++)
		if (a->sent[i].bytes)
			json_object_set_new(streams, names[i], ranges_json(&a->sent[i]));
	json_object_set_new(o, "ops", ops);
	if (json_object_size(streams))
		json_object_set(o, "streams", streams);
	json_decref(streams);
}

static json_t *event_json(const struct account *a)
{
	json_t *o = json_object();

	ledger_put(o, "event", a->key.act ? "verdict" : a->key.login ? "auth.fail" : "record.read");
	ledger_put(o, "op", a->op);
	ledger_put(o, "outcome", a->key.outcome);
	ledger_put(o, "agent", a->agent);
	put_who(o, &a->who);
	put_id(o, "session", &a->key.session);
	json_object_set_new(o, "count", json_integer((json_int_t)a->count));
	if (a->key.login)
		json_object_set_new(
		    o, "detail", json_pack("{s:s,s:s}", "what", a->key.act ? "act" : "token", "message", a->message));
	else
		put_read(o, a);
	return o;
}

static int account_tell(struct ledger *l, struct account *a)
{
	int rc = drain_audit(l->drain, &a->key.session, event_json(a));

	if (rc)
		return rc;
	a->told_ns = clock_boot_ns();
	a->due = false;
	a->count = 0;
	memset(a->ops, 0, sizeof(a->ops));
	memset(a->sent, 0, sizeof(a->sent));
	return 0;
}

static void account_free(struct ledger *l, struct account *a)
{
	HASH_DEL(l->accounts, a);
	free(a);
}

/* An account that cannot be told now stays, and the tick tells it. */
static int account_close(struct ledger *l, struct account *a)
{
	int rc = a->due ? account_tell(l, a) : 0;

	if (!rc)
		account_free(l, a);
	return rc;
}

/* ---- accounts */

static void key_make(const struct reader *who, const struct id *session, const char *outcome, bool login,
		     struct account_key *out)
{
	memset(out, 0, sizeof(*out));
	out->grant = who->grant.id;
	if (session)
		out->session = *session;
	out->conn = who->conn;
	text_put(out->door, sizeof(out->door), who->door);
	text_put(out->peer, sizeof(out->peer), who->peer);
	text_put(out->outcome, sizeof(out->outcome), outcome);
	out->login = login;
}

static struct account *account_find(struct ledger *l, const struct account_key *key)
{
	struct account *a = NULL;

	HASH_FIND(hh, l->accounts, key, sizeof(*key), a);
	return a;
}

/* NULL: no memory, or no room, for the oldest cannot be told now; must: then there are more than LEDGER_MAX. */
static struct account *account_new(struct ledger *l, const struct account_key *key, const struct reader *who,
				   const char *op, const char *agent, bool must)
{
	struct account *a;

	if (HASH_COUNT(l->accounts) >= LEDGER_MAX && account_close(l, l->accounts) && !must)
		return NULL;
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	a->key = *key;
	a->who = *who;
	text_put(a->op, sizeof(a->op), op);
	text_put(a->agent, sizeof(a->agent), agent);
	HASH_ADD(hh, l->accounts, key, sizeof(a->key), a);
	return a;
}

/* An addition is told at once where the account is new or its window is over, else it is due. */
static int account_added(struct ledger *l, struct account *a)
{
	bool fresh = a->told_ns == 0;
	int rc = 0;

	a->due = true;
	if (fresh || clock_boot_ns() - a->told_ns >= l->window_ns)
		rc = account_tell(l, a);
	if (rc && fresh)
		account_free(l, a);
	return rc;
}

static void account_sent(struct account *a, const struct reading_of *what)
{
	for (int i = 0; i < LEDGER_STREAMS; i++)
		if (what->sent[i].bytes)
			ranges_add(&a->sent[i], what->sent[i].offset, what->sent[i].bytes);
}

int ledger_read(struct ledger *l, const struct reader *who, const struct reading_of *what, struct err *e)
{
	struct account_key key;
	struct account *a;
	int rc = ERR_NOMEM;

	key_make(who, what->session, what->outcome, false, &key);
	pthread_mutex_lock(&l->lock);
	a = account_find(l, &key);
	if (!a)
		a = account_new(l, &key, who, ledger_op_name(what->op), what->agent, false);
	if (a) {
		a->count++;
		a->ops[what->op]++;
		account_sent(a, what);
		rc = account_added(l, a);
	}
	pthread_mutex_unlock(&l->lock);
	/* Nobody reads what cannot be audited. */
	return rc ? err_set(e, ERR_RECORD_UNAVAILABLE, "the reading could not be audited, so it is refused") : 0;
}

void ledger_sent(struct ledger *l, const struct reader *who, const struct reading_of *what)
{
	struct account_key key;
	struct account *a;

	key_make(who, what->session, what->outcome, false, &key);
	pthread_mutex_lock(&l->lock);
	a = account_find(l, &key);
	if (!a) /* closed meanwhile for want of room; the bytes are with their reader already */
		a = account_new(l, &key, who, ledger_op_name(what->op), what->agent, true);
	if (!a) {
		log_error(NULL, "what was sent to %s is not in the audit log", who->grant.principal);
	} else {
		a->told_ns = a->told_ns ? a->told_ns : clock_boot_ns();
		account_sent(a, what);
		a->due = true;
	}
	pthread_mutex_unlock(&l->lock);
}

static void serve_ledger_refused(struct ledger *l, const struct reader *who, const char *op, int rc,
				 const char *message, bool act)
{
	struct account_key key;
	struct account *a;

	key_make(who, NULL, err_name(rc), true, &key);
	key.act = act;
	pthread_mutex_lock(&l->lock);
	a = account_find(l, &key);
	if (!a)
		a = account_new(l, &key, who, op, NULL, false);
	if (a) {
		a->count++;
		text_put(a->message, sizeof(a->message), message);
	}
	if (!a || account_added(l, a))
		log_error(NULL, "a failed log-in is not in the audit log");
	pthread_mutex_unlock(&l->lock);
}

void ledger_refused(struct ledger *l, const struct reader *who, const char *op, int rc, const char *message)
{
	serve_ledger_refused(l, who, op, rc, message, false);
}

void ledger_denied(struct ledger *l, const struct reader *who, const char *op, int rc, const char *message)
{
	serve_ledger_refused(l, who, op, rc, message, true);
}

/* ---- time */

void ledger_client_gone(struct ledger *l, const struct reader *who)
{
	struct account *a, *next;

	pthread_mutex_lock(&l->lock);
	HASH_ITER(hh, l->accounts, a, next)
	{
		if (a->key.conn == who->conn && strcmp(a->key.door, who->door) == 0 &&
		    strcmp(a->key.peer, who->peer) == 0 && !a->key.login)
			(void)account_close(l, a);
	}
	pthread_mutex_unlock(&l->lock);
}

void ledger_tick(struct ledger *l)
{
	uint64_t now = clock_boot_ns();
	struct account *a, *next;

	pthread_mutex_lock(&l->lock);
	HASH_ITER(hh, l->accounts, a, next)
	{
		if (now < a->told_ns + l->window_ns)
			continue;
		if (!a->due)
			account_free(l, a);
		else if (account_tell(l, a))
			break; /* no room now: at the next tick */
	}
	pthread_mutex_unlock(&l->lock);
}

int ledger_create(struct drain *d, uint64_t window_ns, struct ledger **out)
{
	struct ledger *l = calloc(1, sizeof(*l));

	if (!l)
		return ERR_NOMEM;
	pthread_mutex_init(&l->lock, NULL);
	l->drain = d;
	l->window_ns = window_ns;
	*out = l;
	return 0;
}

void ledger_destroy(struct ledger *l)
{
	struct account *a, *next;
	uint64_t lsn;

	if (!l)
		return;
	HASH_ITER(hh, l->accounts, a, next)
	{
		if (a->due && account_tell(l, a)) /* many wait: they are stored first */
			(void)drain_flush(l->drain, LAST_CALL_NS, &lsn);
		if (a->due && account_tell(l, a))
			log_error(NULL, "%llu readings of %s are not in the audit log", (unsigned long long)a->count,
				  a->who.grant.principal);
		account_free(l, a);
	}
	pthread_mutex_destroy(&l->lock);
	free(l);
}

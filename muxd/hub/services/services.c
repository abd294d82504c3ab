/*
 * The states of services: begun, healthy, dead and begun again, held, ended in order.
 *
 * One noun, and longer than a thousand lines: an end, a look, the link, the list and the clock each move a service from
 * state to state, and each of these ways goes through the same few functions.
 */
#define LOG_SUBSYS "service"
#include "muxd/hub/services/services.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/servers/digest.h"
#include "control/servers/lists.h"
#include "control/servers/service_ends.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/agent/service_state.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/program.h"
#include "muxd/hub/session/session_end.h"
#include "muxd/hub/session/tail.h"
#include "muxd/hub/session/wake.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define SERVICE_TASK "services"
#define STEADY_NS    (30 * NS_PER_SEC) /* healthy for so long, what was before is forgiven */
#define AGAIN_MS     1000ull           /* after a start that could not be made now, twice as long each time */
#define AGAIN_MAX_MS 30000ull          /* at most; its backoff_max_ms, where that is more */
#define UNHEALTHY_AT 3                 /* looks in a row */
#define SETTLE_NS    (90 * NS_PER_SEC) /* all services of an agent, one after the other */
#define FORGET_NS    (600 * NS_PER_SEC)

static void services_turn(struct hub *h);
static void services_configure(struct hub *h, const char *agent, const json_t *list, bool heirs);

static void service_set_state(struct service *x, enum service_state to)
{
	struct log_ids ids = {.agent = x->agent};

	if (x->state == to)
		return;
	if (!service_state_leads(x->state, to))
		log_error(&ids, "service %s: %s -> %s is no way", x->name, service_state_name(x->state),
			  service_state_name(to));
	log_debug(&ids, "service %s: %s -> %s", x->name, service_state_name(x->state), service_state_name(to));
	x->state = to;
	x->since_ns = clock_boot_ns();
	x->until_ns = 0;
	if (to != SERVICE_HEALTHY && to != SERVICE_UNHEALTHY)
		x->well_ns = to == SERVICE_BACKING_OFF || to == SERVICE_HELD ? x->well_ns : 0;
	services_turn(x->hub);
}

/* ---- kept in the hub */

static struct service *service_find(const struct hub *h, const char *agent, const char *name)
{
	struct service *x;

	TAILQ_FOREACH(x, &hub_services(h)->all, entry)
	if (!x->dropped && strcmp(x->agent, agent) == 0 && strcmp(x->name, name) == 0)
		return x;
	return NULL;
}

static struct service *service_create(struct hub *h, const char *agent, const json_t *config, const json_t *list)
{
	struct service *x = calloc(1, sizeof(*x));

	if (!x || !(x->config = json_deep_copy(config)) || service_def_read(x->config, &x->def, NULL) ||
	    digest_json(x->config, x->definition)) {
		json_decref(x ? x->config : NULL);
		free(x);
		return NULL;
	}
	x->hub = h;
	x->since_ns = clock_boot_ns();
	text_put(x->agent, sizeof(x->agent), agent);
	text_put(x->name, sizeof(x->name), x->def.name);
	text_put(x->set_by, sizeof(x->set_by), json_get_text(list, "set_by"));
	text_put(x->set_at, sizeof(x->set_at), json_get_text(list, "set_at"));
	return x;
}

static void service_free(struct service *x)
{
	TAILQ_REMOVE(&hub_services(x->hub)->all, x, entry);
	service_log_forget(x);
	buf_finish(&x->log);
	json_decref(x->config);
	free(x);
}

static bool service_runs(const struct service *x)
{
	const struct session *s = id_is_nil(&x->program) ? NULL : hub_session_find(x->hub, &x->program);

	return x->opening || x->at || (s && s->state != SESSION_ENDED);
}

/* May it run now? */
static struct agent *awake(const struct service *x)
{
	struct hub *h = x->hub;
	struct agent *a = agent_find(h, x->agent);

	return a && agent_is_awake(a) && !a->clearing && hub_is_recovered(h) && !hub_stopping(h) ? a : NULL;
}

static struct session *service_program(const struct service *x)
{
	return id_is_nil(&x->program) ? NULL : hub_session_find(x->hub, &x->program);
}

static void note(struct service *x, const char *what)
{
	char when[40], line[160];

	clock_format_utc(hub_now_wall(x->hub), when, sizeof(when));
	text_format(line, sizeof(line), "-- %s %s\n", when, what);
	tail_add(&x->log, SERVICE_LOG_MAX, "", line, strlen(line));
}

static void services_tell(struct service *x, const char *event, const char *outcome)
{
	char program[ID_STR_LEN] = "";
	json_t *d;

	if (!id_is_nil(&x->program))
		id_format(&x->program, program);
	d = json_pack("{s:s,s:s*,s:s*,s:i}", "service", x->name, "program", *program ? program : NULL, "message",
		      x->why[0] ? x->why : NULL, "failures", (int)x->failures);
	if (d && x->news.untold)
		json_object_set_new(d, "untold", json_integer((json_int_t)x->news.untold));
	x->news.untold = 0;
	(void)audit_event(x->hub, event, NULL, x->agent, outcome, d);
}

static void tell_health(struct service *x)
{
	bool well = x->state == SERVICE_HEALTHY;

	services_tell(x, well ? "service.healthy_again" : "service.unhealthy", well ? "ok" : err_name(ERR_SERVICE));
}

/* The minute is over: how it is now is told, where that was not. */
static void tell_rest(struct service *x, uint64_t now)
{
	if ((x->state == SERVICE_HEALTHY || x->state == SERVICE_UNHEALTHY) && service_news_rest(&x->news, now))
		tell_health(x);
}

/* ---- done, for as long as its sandbox is there */

static struct service_end service_end_of(const struct service *x)
{
	return (struct service_end){
	    .agent = x->agent, .service = x->name, .definition = x->definition, .sandbox = &x->sandbox};
}

static void service_done(struct service *x)
{
	const struct service_end at = service_end_of(x);

	service_set_state(x, SERVICE_DONE);
	note(x, x->why);
	services_tell(x, "service.done", "ok");
	if (hub_store(x->hub))
		service_ends_put(hub_store(x->hub), &at, x->why);
}

/* ---- its end, and what comes of it */

static void service_let_go(struct service *x)
{
	struct attachment *a = x->at;

	x->at = NULL;
	x->killed = false;
	service_log_forget(x);
	service_probe_reset(x);
	attachment_detach(a);
}

static void service_back_off(struct service *x)
{
	char line[400];

	if (x->well_ns && clock_boot_ns() - x->well_ns >= STEADY_NS)
		x->failures = 0;
	x->failures++;
	log_warn(&(struct log_ids){.agent = x->agent}, "service %s died (%u in a row): %s", x->name, x->failures,
		 x->why);
	text_format(line, sizeof(line), "died: %s", x->why);
	note(x, line);
	services_tell(x, "service.failed", err_name(ERR_SERVICE));
	if (x->failures >= (unsigned)x->def.attempts) {
		service_set_state(x, SERVICE_HELD);
		text_format(line, sizeof(line), "it died %u times in a row, the last time: %s", x->failures, x->why);
		text_put(x->why, sizeof(x->why), line);
		services_tell(x, "service.held", err_name(ERR_SERVICE));
	} else {
		service_set_state(x, SERVICE_BACKING_OFF);
		x->until_ns =
		    clock_boot_ns() +
		    backoff(x->failures, (uint64_t)x->def.backoff_ms, (uint64_t)x->def.backoff_max_ms) * NS_PER_MS;
	}
	x->well_ns = 0;
}

static void describe_end(struct service *x, const struct session_result *r)
{
	char words[120], how[100];

	tail_last_line(&x->log, words, sizeof(words));
	if (r->cause == EXIT_EXITED && r->signal)
		text_format(how, sizeof(how), "it was killed by signal %s", signal_name(r->signal));
	else if (r->cause == EXIT_EXITED)
		text_format(how, sizeof(how), "it exited with code %d", r->code);
	else if (r->cause == EXIT_OOM)
		text_put(how, sizeof(how), "it was killed as memory ran out");
	else
		text_put(how, sizeof(how), r->message[0] ? r->message : exit_cause_name(r->cause));
	text_format(x->why, sizeof(x->why), "%s%s%s", how, strncmp(words, "-- ", 3) != 0 && *words ? "; it said: " : "",
		    strncmp(words, "-- ", 3) != 0 ? words : "");
}

static bool is_done(const struct service *x, const struct session_result *r)
{
	bool well = r->cause == EXIT_EXITED && !r->signal && r->code == 0;

	return x->def.restart == SERVICE_NEVER || (x->def.restart == SERVICE_ON_FAILURE && well);
}

static void service_on_ended(void *arg, const struct session_result *r)
{
	struct service *x = arg;
	bool told = x->state == SERVICE_ENDING;

	if (!told)
		describe_end(x, r);
	service_let_go(x);
	if (!awake(x) || (told && x->leave == SERVICE_WANTED)) {
		if (told)
			note(x, "ended");
		service_set_state(x, SERVICE_ABSENT);
	} else if (!told && is_done(x, r)) {
		service_done(x);
	} else {
		service_back_off(x);
	}
	services_turn(x->hub);
}

/* The daemon ends, and the program does not by that. */
static void service_on_cut(void *arg, enum cut_cause cause, const char *text)
{
	struct service *x = arg;

	(void)cause, (void)text;
	service_let_go(x);
	service_set_state(x, SERVICE_ABSENT);
}

/* Told to end by TERM, and by KILL when its time for that is over. */
static void service_end(struct service *x, enum service_leave leave, const char *why)
{
	struct session *s = service_program(x);

	if (!service_runs(x)) {
		service_set_state(x, SERVICE_ABSENT);
		return;
	}
	if (x->state != SERVICE_ENDING) {
		service_set_state(x, SERVICE_ENDING);
		x->leave = leave;
		x->until_ns = clock_boot_ns() + (uint64_t)x->def.stop_timeout_ms * NS_PER_MS;
	} else if (leave == SERVICE_WANTED) {
		x->leave = leave; /* and so it is not begun again, whatever it ended for */
	}
	text_put(x->why, sizeof(x->why), why);
	if (!s || x->opening)
		return;
	if (s->state != SESSION_RUNNING) {
		session_kill(s, EXIT_KILLED, why);
		return;
	}
	session_event(s, "signal", json_pack("{s:s,s:s}", "signal", signal_name(SIGTERM), "why", why));
	(void)link_signal(s->agent->link, s->channel, SIGTERM);
}

static void service_kill(struct service *x)
{
	struct session *s = service_program(x);
	char why[160];

	x->killed = true;
	text_format(why, sizeof(why), "service %.64s did not end within its stop_timeout_ms", x->name);
	if (s)
		session_kill(s, EXIT_KILLED, why);
}

/* ---- its words */

static void service_read(struct service *x)
{
	const uint8_t *p;
	size_t n;

	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++)
		while (x->at && (n = attachment_peek(x->at, i, &p)) > 0) {
			tail_add(&x->log, SERVICE_LOG_MAX, "", p, n);
			attachment_consume(x->at, i, n);
		}
}

static void service_on_readable(void *arg)
{
	struct service *x = arg;

	if (!x->regain)
		service_read(x);
}

static void service_on_writable(void *arg)
{
	(void)arg;
}

static void service_on_notice(void *arg, const char *text, bool over)
{
	(void)arg, (void)text, (void)over;
}

static void service_on_skipped(void *arg, int stream, uint64_t n)
{
	(void)arg, (void)stream, (void)n;
}

static const struct attachment_ops service_client = {.readable = service_on_readable,
						     .writable = service_on_writable,
						     .notice = service_on_notice,
						     .skipped = service_on_skipped,
						     .ended = service_on_ended,
						     .cut = service_on_cut};

/* ---- healthy */

static void service_well(struct service *x)
{
	uint64_t now = clock_boot_ns();
	bool first = x->state == SERVICE_WARMING;

	service_set_state(x, SERVICE_HEALTHY);
	if (!x->well_ns)
		x->well_ns = now;
	x->why[0] = '\0';
	if (first)
		services_tell(x, "service.healthy", "ok");
	else if (service_news_take(&x->news, now))
		tell_health(x);
}

static void service_ill(struct service *x)
{
	text_format(x->why, sizeof(x->why), "it is not healthy: %s", x->probe.why);
	if (x->state != SERVICE_HEALTHY || x->probe.failed < UNHEALTHY_AT)
		return;
	service_set_state(x, SERVICE_UNHEALTHY);
	if (service_news_take(&x->news, clock_boot_ns()))
		tell_health(x);
}

static bool is_looked_at(const struct service *x)
{
	return x->state == SERVICE_WARMING || x->state == SERVICE_HEALTHY || x->state == SERVICE_UNHEALTHY;
}

static void service_looked(struct service *x, bool well)
{
	if (!is_looked_at(x))
		return;
	if (well && x->state != SERVICE_HEALTHY)
		service_well(x);
	else if (!well)
		service_ill(x);
	else
		x->why[0] = '\0';
	services_turn(x->hub);
}

static void service_runs_now(struct service *x)
{
	service_set_state(x, SERVICE_WARMING);
	service_probe_reset(x);
	if (!x->def.port)
		service_well(x);
}

/* Whether it was healthy before nobody knows any more; its time to become so is over, and it is not ended for that. */
static void service_runs_on(struct service *x)
{
	service_set_state(x, SERVICE_UNHEALTHY);
	service_probe_reset(x);
	text_put(x->why, sizeof(x->why), "it was not looked at yet since muxd was restarted");
}

/* ---- its beginning */

/* Under nobody's grant: it is the list's. */
static void service_request(const struct service *x, struct request *out)
{
	struct grant *g = &out->grant;

	memset(out, 0, sizeof(*out));
	(void)id_new(&out->id);
	out->door = "service";
	g->kind = GRANT_SERVICE;
	g->scopes = SCOPE_ROUNDS;
	g->expires_ns = INT64_MAX;
	text_put(g->principal, sizeof(g->principal), x->set_by);
	text_put(g->agent, sizeof(g->agent), x->agent);
	text_format(g->reason, sizeof(g->reason), "service %s of %s, by its list", x->name, x->agent);
}

/* Refused for what the daemon, or the sandbox, can do now: no death of the service's. */
static bool passes(int rc)
{
	return rc == ERR_RECORD_UNAVAILABLE || rc == ERR_DISK_FULL || rc == ERR_UNAVAILABLE || rc == ERR_CANCELLED ||
	       rc == ERR_NOMEM || rc == ERR_LINK_LOST || rc == ERR_AGAIN || rc == ERR_LIMIT;
}

/* A sandbox that refuses one service refuses all of them: each try, whosever it was, is one more in a row. */
static unsigned tries_in_a_row(const struct service *x)
{
	const struct service *y;
	unsigned most = x->put_off;

	TAILQ_FOREACH(y, &hub_services(x->hub)->all, entry)
	if (y->put_off > most && strcmp(y->agent, x->agent) == 0)
		most = y->put_off;
	return most + 1;
}

/* Each try leaves a recording and its events: they come more and more seldom, and the first alone is told as such. */
static void service_put_off(struct service *x, int rc)
{
	uint64_t max = (uint64_t)x->def.backoff_max_ms, ms;
	unsigned tries = tries_in_a_row(x);

	ms = backoff(tries, AGAIN_MS, max > AGAIN_MAX_MS ? max : AGAIN_MAX_MS);
	service_set_state(x, SERVICE_BACKING_OFF);
	x->until_ns = clock_boot_ns() + ms * NS_PER_MS;
	if (x->put_off) {
		x->news.untold++;
	} else {
		log_warn(&(struct log_ids){.agent = x->agent}, "service %s: %s", x->name, x->why);
		note(x, x->why);
		services_tell(x, "service.not_begun", err_name(rc));
	}
	x->put_off = tries;
}

/* Of the services of an agent that are put off one finds out whether that is over. NULL: this one does. */
static const struct service *service_scout(const struct service *x, uint64_t now)
{
	const struct service *y;

	TAILQ_FOREACH(y, &hub_services(x->hub)->all, entry)
	if (y != x && y->put_off && strcmp(y->agent, x->agent) == 0 &&
	    (y->state == SERVICE_STARTING || (y->state == SERVICE_BACKING_OFF && y->until_ns > now)))
		return y;
	return NULL;
}

static void service_backed_off(struct service *x, uint64_t now)
{
	const struct service *scout = x->put_off ? service_scout(x, now) : NULL;

	if (!scout)
		service_set_state(x, SERVICE_ABSENT);
	else
		x->until_ns = scout->state == SERVICE_STARTING ? now + AGAIN_MS * NS_PER_MS : scout->until_ns;
}

static void service_not_begun(struct service *x, int rc, const char *message)
{
	text_format(x->why, sizeof(x->why), "it could not be begun: %s", message);
	if (x->state == SERVICE_ENDING || !awake(x)) {
		service_set_state(x, SERVICE_ABSENT);
	} else if (passes(rc)) {
		service_put_off(x, rc);
	} else {
		service_back_off(x);
	}
}

/* A service that was told to end while it began, and by now perhaps killed, when there was nobody yet. */
static void service_end_begun(struct service *x)
{
	x->killed = false;
	x->until_ns = clock_boot_ns() + (uint64_t)x->def.stop_timeout_ms * NS_PER_MS;
	service_end(x, x->leave, x->why);
	services_turn(x->hub);
}

static void service_on_begun(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			     const struct id *seen)
{
	struct service *x = arg;
	char line[80];

	(void)seen; /* it has no exec_id */
	x->opening = false;
	if (rc) {
		service_not_begun(x, rc, e ? e->message : err_name(rc));
		return;
	}
	x->at = a;
	x->put_off = 0;
	x->program = *session_id(s);
	text_format(line, sizeof(line), "begun: round %s", s->id_text);
	note(x, line);
	if (x->state == SERVICE_ENDING)
		service_end_begun(x);
	else
		service_runs_now(x);
	hub_flush(x->hub);
}

static void service_begin(struct service *x, const struct agent *a)
{
	const char *argv[PROGRAM_ARGV_MAX];
	char **env = program_env(x->def.env);
	const struct id in = a->linked;
	const struct exec_spec spec = {.kind = SESSION_ROUND,
				       .agent = x->agent,
				       .task = SERVICE_TASK,
				       .argv = argv,
				       .env = (const char *const *)env,
				       .cwd = x->def.cwd,
				       .service = x->name,
				       .definition = x->definition,
				       .only_in = &in,
				       .judged = true, /* as its list was set */
				       .head = 0,
				       .tail = 0};
	const struct service_end at = service_end_of(x);
	struct request rq;

	service_request(x, &rq);
	program_argv(x->def.argv, argv, PROGRAM_ARGV_MAX);
	service_set_state(x, SERVICE_STARTING);
	x->program = (struct id){0};
	x->sandbox = in;
	x->opening = true;
	x->begun++;
	if (x->def.restart != SERVICE_ALWAYS && hub_store(x->hub))
		service_ends_forget(hub_store(x->hub), &at);
	broker_open(x->hub, &rq, &spec, &service_client, x, service_on_begun, x);
	program_env_free(env);
}

/* Its program that runs already, of the daemon before this one, or of the list before this one. */
static struct session *running(const struct service *x, const struct agent *a)
{
	struct session *s;

	for (s = a->channels; s; s = s->hh_channel.next)
		if (s->kind == SESSION_ROUND && s->state != SESSION_ENDED && strcmp(s->launch.service, x->name) == 0)
			return s;
	return NULL;
}

static void service_adopt(struct service *x, struct agent *a, struct session *s)
{
	struct request rq;

	service_request(x, &rq);
	if (attachment_create(s, &rq, ROLE_DRIVER, &service_client, x, false, &x->at))
		return; /* the journal has no room: the next tick comes again */
	x->program = s->id;
	x->sandbox = a->linked;
	note(x, "taken up again: muxd was restarted");
	if (x->def.port && service_had_its_time(s->opened_boot_ns, &x->def, clock_boot_ns()))
		service_runs_on(x);
	else
		service_runs_now(x);
	service_log_regain(x, service_read);
}

/* The round of a service that ended while no daemon was there, and that nobody took up. */
static const struct session *ended_unseen(const struct service *x, const struct agent *a)
{
	const struct session *s;

	for (s = a->channels; s; s = s->hh_channel.next)
		if (s->kind == SESSION_ROUND && s->state == SESSION_ENDED && s->result->cause == EXIT_EXITED &&
		    strcmp(s->launch.service, x->name) == 0 && strcmp(s->launch.definition, x->definition) == 0)
			return s;
	return NULL;
}

/* Done in this sandbox already, as a daemon before this one wrote down, or as its round says. */
static bool was_done(struct service *x, const struct agent *a)
{
	const struct session *s;
	struct err e = {0};
	int rc;

	if (!x->heir || x->def.restart == SERVICE_ALWAYS || !hub_store(x->hub))
		return false;
	x->heir = false; /* whoever has it begun again does */
	x->sandbox = a->linked;
	s = ended_unseen(x, a);
	if (s && is_done(x, s->result)) {
		x->program = s->id;
		describe_end(x, s->result);
		service_done(x);
		return true;
	}
	const struct service_end at = service_end_of(x);

	rc = service_ends_get(hub_store(x->hub), &at, x->why, sizeof(x->why), &e);
	if (rc == ERR_NOT_FOUND)
		return false;
	if (rc) { /* what may be done does not run twice: it is asked again */
		x->heir = true;
		text_format(x->why, sizeof(x->why), "whether it is done is not known: %s", e.message);
		service_put_off(x, rc);
		return true;
	}
	service_set_state(x, SERVICE_DONE);
	return true;
}

/* Another of its name is not quite gone yet. */
static bool has_forerunner(const struct service *x)
{
	const struct service *y;

	TAILQ_FOREACH(y, &hub_services(x->hub)->all, entry)
	if (y != x && strcmp(y->agent, x->agent) == 0 && strcmp(y->name, x->name) == 0 && service_runs(y))
		return true;
	return false;
}

/* Absent, and its sandbox may be awake: then it begins, once the files are there that go ahead of all that begins. */
static void service_consider(struct service *x)
{
	struct agent *a = awake(x);
	struct session *s;

	if (!a || a->pulling || x->dropped || service_runs(x) || has_forerunner(x))
		return;
	if (a->info.backend == SANDBOX_PLAIN) {
		text_put(x->why, sizeof(x->why), "there is no muxlet in its sandbox, and services need one");
		service_set_state(x, SERVICE_HELD);
		return;
	}
	if (x->def.port && !link_has_probe(a->link)) {
		text_put(x->why, sizeof(x->why), "its sandbox is from before services were looked at: end it once");
		service_set_state(x, SERVICE_HELD);
		return;
	}
	s = running(x, a);
	if (s && (s->killing || s->end >= END_KNOWN))
		return;
	if (!s && was_done(x, a))
		return;
	if (!s)
		service_begin(x, a);
	else if (strcmp(s->launch.definition, x->definition) == 0)
		service_adopt(x, a, s);
	else
		session_kill(s, EXIT_KILLED, "its service is not configured like that any more");
}

/* ---- time */

static void service_look(struct service *x, uint64_t now)
{
	struct agent *a = awake(x);
	char why[200];

	if (!a)
		return;
	if (x->def.port)
		service_probe(x, a, now);
	if (x->state != SERVICE_WARMING || now - x->since_ns < (uint64_t)x->def.start_timeout_ms * NS_PER_MS)
		return;
	text_format(why, sizeof(why), "it was not healthy within its start_timeout_ms%s%s", x->probe.why[0] ? ": " : "",
		    x->probe.why);
	service_end(x, SERVICE_FAULT, why);
}

/* When somebody has to look at it next; boot, UINT64_MAX: when it says so itself. */
static uint64_t service_due(const struct service *x)
{
	uint64_t start = (uint64_t)x->def.start_timeout_ms * NS_PER_MS;

	if (x->until_ns && !(x->state == SERVICE_ENDING && x->killed))
		return x->until_ns;
	/* Where its sandbox is not awake nobody looks at it: what is due would stay due, and the timer would not rest.
	 */
	if (!is_looked_at(x) || !x->def.port || !awake(x))
		return UINT64_MAX;
	if (x->state == SERVICE_WARMING && x->since_ns + start < x->probe.next_ns)
		return x->since_ns + start;
	return x->probe.next_ns;
}

static void service_step(struct service *x, uint64_t now)
{
	if (is_looked_at(x))
		service_look(x, now);
	tell_rest(x, now);
	if (x->state == SERVICE_ENDING && !x->killed && now >= x->until_ns)
		service_kill(x);
	if (x->state == SERVICE_ENDING && !service_runs(x)) /* and nobody told */
		service_set_state(x, SERVICE_ABSENT);
	if (x->state == SERVICE_BACKING_OFF && now >= x->until_ns)
		service_backed_off(x, now);
	if (x->state == SERVICE_ABSENT)
		service_consider(x);
}

static void settles_step(struct hub *h, uint64_t now);

/* Its log is kept for a while after its sandbox; the list brings it back when there is another. */
static bool services_is_forgotten(const struct service *x, uint64_t now)
{
	if (x->state == SERVICE_ABSENT)
		return now - x->since_ns > FORGET_NS;
	return (x->state == SERVICE_HELD || x->state == SERVICE_DONE) && x->down_ns && now - x->down_ns > FORGET_NS;
}

static void services_step(struct hub *h)
{
	uint64_t now = clock_boot_ns();
	struct service *x, *next;

	for (x = TAILQ_FIRST(&hub_services(h)->all); x; x = next) {
		next = TAILQ_NEXT(x, entry);
		service_step(x, now);
		if (!service_runs(x) && (x->dropped || services_is_forgotten(x, now)))
			service_free(x);
	}
	settles_step(h, now);
	service_wait_look(h, now);
}

static void services_on_turn(uv_timer_t *t);

static void services_schedule(struct hub *h)
{
	uint64_t now = clock_boot_ns(), due = UINT64_MAX, at;
	const struct service *x;

	TAILQ_FOREACH(x, &hub_services(h)->all, entry)
	if ((at = service_due(x)) < due)
		due = at;
	if (due == UINT64_MAX)
		return;
	uv_update_time(hub_loop(h));
	uv_timer_start(hub_services(h)->turn, services_on_turn, due > now ? (due - now) / NS_PER_MS + 1 : 1, 0);
}

static void services_on_turn(uv_timer_t *t)
{
	struct hub *h = t->data;

	services_step(h);
	if (!uv_is_active((uv_handle_t *)t))
		services_schedule(h);
	hub_flush(h);
}

/* In the next turn of the loop. */
static void services_turn(struct hub *h)
{
	uv_timer_start(hub_services(h)->turn, services_on_turn, 0, 0);
}

/* ---- ended in order */

static struct service *last_running(const struct hub *h, const char *agent)
{
	struct service *x;

	TAILQ_FOREACH_REVERSE(x, &hub_services(h)->all, service_list, entry)
	if (strcmp(x->agent, agent) == 0 && service_runs(x))
		return x;
	return NULL;
}

/* True: nothing of it runs, or it is waited for no longer. */
static bool is_settled(struct hub *h, const struct service_settle *k, uint64_t now)
{
	const struct agent *a = agent_find(h, k->agent);
	struct service *x = last_running(h, k->agent);

	if (!x || !a || a->state != AGENT_UP || now >= k->until_ns)
		return true;
	if (x->state != SERVICE_ENDING || x->leave != SERVICE_WANTED)
		service_end(x, SERVICE_WANTED, "its sandbox goes to sleep");
	return false;
}

static void settle_over(struct hub *h, struct service_settle *k, int rc)
{
	struct err e = {0};

	TAILQ_REMOVE(&hub_services(h)->settles, k, entry);
	if (rc)
		err_set(&e, rc, "services of %s were not ended: %s", k->agent, err_name(rc));
	k->done(k->arg, rc, rc ? &e : NULL);
	free(k);
}

/* A settler that is told may ask for anything: the list is walked anew. */
static void settles_step(struct hub *h, uint64_t now)
{
	struct service_settle *k;

	do {
		TAILQ_FOREACH(k, &hub_services(h)->settles, entry)
		if (is_settled(h, k, now))
			break;
		if (k)
			settle_over(h, k, now >= k->until_ns ? ERR_TIMEOUT : 0);
	} while (k);
}

void services_settle(struct hub *h, const char *agent, life_host_done *done, void *arg)
{
	struct service_settle *k;
	struct err e = {0};

	if (!last_running(h, agent)) {
		done(arg, 0, NULL);
		return;
	}
	k = calloc(1, sizeof(*k));
	if (!k) {
		done(arg, err_set(&e, ERR_NOMEM, "no memory to end services"), &e);
		return;
	}
	*k = (struct service_settle){.until_ns = clock_boot_ns() + SETTLE_NS, .done = done, .arg = arg};
	text_put(k->agent, sizeof(k->agent), agent);
	TAILQ_INSERT_TAIL(&hub_services(h)->settles, k, entry);
	services_turn(h);
}

/* ---- what the link tells */

static bool services_has_name(const struct hub *h, const struct agent *a, const char *name)
{
	const struct service *x;

	TAILQ_FOREACH(x, &hub_services(h)->all, entry)
	if (strcmp(x->agent, a->name) == 0 && strcmp(x->name, name) == 0)
		return true;
	return false;
}

/* Programs of a list before this one, whose daemon was killed before it ended them. */
static void end_strays(struct agent *a)
{
	struct session *s;

	for (s = a->channels; s; s = s->hh_channel.next)
		if (s->launch.service[0] && s->state != SESSION_ENDED &&
		    !services_has_name(a->hub, a, s->launch.service))
			session_kill(s, EXIT_KILLED, "its service is not configured any more");
}

static void services_load(struct agent *a)
{
	struct hub *h = a->hub;
	json_t *list = NULL;
	struct err e = {0};

	if (!hub_store(h))
		return;
	if (lists_get(hub_store(h), &list_services, a->name, 0, &list, &e)) {
		log_error(&(struct log_ids){.agent = a->name}, "its services are not known: %s", e.message);
	} else {
		services_configure(h, a->name, list, true);
		end_strays(a);
	}
	json_decref(list);
}

/* A new sandbox: the programs of the one before are gone, and so is what a service was held for. */
static void services_on_up(struct agent *a)
{
	struct service *x;

	services_load(a);
	TAILQ_FOREACH(x, &hub_services(a->hub)->all, entry)
	{
		if (strcmp(x->agent, a->name) != 0)
			continue;
		service_probe_lost(x);
		x->down_ns = 0;
		if (id_equal(&x->sandbox, &a->linked) || x->opening)
			continue;
		service_let_go(x);
		x->failures = x->put_off = 0;
		service_set_state(x, SERVICE_ABSENT);
	}
	services_turn(a->hub);
}

static void services_on_down(struct agent *a)
{
	struct service *x;

	TAILQ_FOREACH(x, &hub_services(a->hub)->all, entry)
	if (strcmp(x->agent, a->name) == 0) {
		service_probe_lost(x);
		x->down_ns = clock_boot_ns();
	}
	services_turn(a->hub);
}

/* A stop that was taken back: what it ended begins again, what it was ending is not waited for any longer. */
static void services_on_stays(struct agent *a)
{
	struct hub *h = a->hub;
	struct service_settle *k, *next;
	struct service *x;

	TAILQ_FOREACH(x, &hub_services(h)->all, entry)
	if (x->state == SERVICE_ENDING && strcmp(x->agent, a->name) == 0)
		x->until_ns = clock_boot_ns();

	for (k = TAILQ_FIRST(&hub_services(h)->settles); k; k = next) {
		next = TAILQ_NEXT(k, entry);
		if (strcmp(k->agent, a->name) == 0)
			settle_over(h, k, ERR_CANCELLED);
	}
	services_turn(h);
}

static bool services_said(struct agent *a, uint32_t channel, const uint8_t *p, size_t n)
{
	struct service *x;

	TAILQ_FOREACH(x, &hub_services(a->hub)->all, entry)
	if (x->probe.channel == channel && strcmp(x->agent, a->name) == 0)
		return service_probe_said(x, channel, p, n);
	return false;
}

static bool services_exited(struct agent *a, uint32_t channel, const struct link_exit *end)
{
	struct service *x;
	int rc;

	TAILQ_FOREACH(x, &hub_services(a->hub)->all, entry)
	if (strcmp(x->agent, a->name) == 0 && (rc = service_probe_exited(x, channel, end)) >= 0) {
		service_looked(x, rc == 1);
		return true;
	}
	return false;
}

static const struct agent_watch services_watch = {.up = services_on_up,
						  .down = services_on_down,
						  .stays = services_on_stays,
						  .said = services_said,
						  .exited = services_exited};

/* ---- asked for */

static void service_drop(struct service *x)
{
	x->dropped = true;
	service_end(x, SERVICE_WANTED, "it is not configured like that any more");
}

/* The first list after a wipe is another agent's of that name: nothing of the one before is in it, no log either. */
static bool is_of_another(const struct service *x, const json_t *list)
{
	return json_integer_value(json_object_get(list, "version")) == 1 &&
	       strcmp(x->set_at, json_get_text(list, "set_at")) != 0;
}

static void configure_one(struct hub *h, const char *agent, const json_t *config, const json_t *list, bool heir)
{
	struct service *x = service_find(h, agent, json_get_text(config, "name"));

	if (x)
		TAILQ_REMOVE(&hub_services(h)->all, x, entry);
	else if ((x = service_create(h, agent, config, list)))
		x->heir = heir;
	else {
		log_error(&(struct log_ids){.agent = agent}, "service %s is not begun: no memory",
			  json_get_text(config, "name"));
		return;
	}
	TAILQ_INSERT_TAIL(&hub_services(h)->all, x, entry); /* in the order of its list */
}

/* Awake, and nobody is in it. */
static void services_reach(struct hub *h, const char *agent)
{
	struct agent *a;
	json_t *o = NULL;

	if (hub_life(h) && life_show(hub_life(h), agent, &o, NULL) == 0 &&
	    strcmp(json_get_text(o, "state"), life_state_name(LIFE_RUNNING)) == 0 && (a = agent_get(h, agent)))
		agent_reconnect(a);
	json_decref(o);
}

static void services_configure(struct hub *h, const char *agent, const json_t *list, bool heirs)
{
	const json_t *services = json_object_get(list, "services"), *v;
	struct service *x;
	size_t i;

	TAILQ_FOREACH(x, &hub_services(h)->all, entry)
	if (!x->dropped && strcmp(x->agent, agent) == 0 &&
	    (is_of_another(x, list) || !(v = program_list_find(services, x->name)) || !json_equal(v, x->config)))
		service_drop(x);
	json_array_foreach(services, i, v) configure_one(h, agent, v, list, heirs);
	if (json_array_size(services) && hub_is_recovered(h))
		services_reach(h, agent);
	services_turn(h);
}

void services_configured(struct hub *h, const char *agent, const json_t *list)
{
	services_configure(h, agent, list, false);
}

json_t *service_show(struct hub *h, const char *agent, json_t *entry)
{
	const struct service *x = service_find(h, agent, json_get_text(entry, "name"));
	uint64_t now = clock_boot_ns();
	char program[ID_STR_LEN] = "";
	json_t *o;

	if (x && service_program(x))
		id_format(&x->program, program);
	o = json_pack("{s:s,s:s*,s:s*,s:b,s:i,s:i}", "state", service_state_name(x ? x->state : SERVICE_ABSENT), "why",
		      x && x->why[0] && x->state != SERVICE_ABSENT ? x->why : NULL, "program",
		      *program ? program : NULL, "healthy", x && x->state == SERVICE_HEALTHY, "failures",
		      x ? (int)x->failures : 0, "restarts", x && x->begun ? (int)x->begun - 1 : 0);
	if (o && x)
		json_object_set_new(o, "since_ms", json_integer((json_int_t)((now - x->since_ns) / NS_PER_MS)));
	if (o && x && x->state == SERVICE_BACKING_OFF)
		json_object_set_new(
		    o, "retry_in_ms",
		    json_integer(x->until_ns > now ? (json_int_t)((x->until_ns - now) / NS_PER_MS) : 0));
	json_object_update_missing(entry, o);
	json_decref(o);
	return entry;
}

json_t *service_log(struct hub *h, const char *agent, const char *name, size_t most)
{
	const struct service *x = service_find(h, agent, name);

	return x ? tail_json(&x->log, most) : json_string("");
}

json_t *services_log(struct hub *h, const char *agent, size_t most)
{
	const struct service *x;
	json_t *list = NULL;

	TAILQ_FOREACH(x, &hub_services(h)->all, entry)
	if (!x->dropped && strcmp(x->agent, agent) == 0 && (list || (list = json_array())))
		json_array_append_new(list, json_pack("{s:s,s:s,s:o}", "service", x->name, "state",
						      service_state_name(x->state), "data", tail_json(&x->log, most)));
	return list;
}

int service_check_awake(struct hub *h, const char *agent, const char *name, struct err *e)
{
	const struct service *x = service_find(h, agent, name);

	if (x && awake(x))
		return 0;
	return err_set(e, ERR_BAD_STATE, "the sandbox of %.100s is not awake: its services begin with it", agent);
}

int service_restart(struct hub *h, const char *agent, const char *name, const char *by, struct err *e)
{
	struct service *x = service_find(h, agent, name);
	int rc = service_check_awake(h, agent, name, e);
	char why[160];

	if (rc)
		return rc;
	text_format(why, sizeof(why), "it is begun anew by %.100s", by);
	x->failures = x->put_off = 0;
	service_end(x, SERVICE_WANTED, why);
	return 0;
}

/* ---- all of them */

/* After a restart: those that are awake are reached, also where none of their sessions was open. */
static void services_recover(struct hub *h)
{
	json_t *names = NULL, *v;
	struct err e = {0};
	size_t i;

	hub_services(h)->recovered = true;
	if (!hub_store(h) || lists_agents(hub_store(h), &list_services, &names, &e)) {
		if (e.code)
			log_error(NULL, "agents with services are not known: %s", e.message);
		return;
	}
	json_array_foreach(names, i, v) services_reach(h, json_string_value(v));
	json_decref(names);
}

void services_tick(struct hub *h)
{
	if (hub_is_recovered(h) && !hub_services(h)->recovered)
		services_recover(h);
	services_step(h);
	if (!uv_is_active((uv_handle_t *)hub_services(h)->turn))
		services_schedule(h);
}

bool services_rest(const struct hub *h)
{
	const struct service *x;

	TAILQ_FOREACH(x, &hub_services(h)->all, entry)
	if (x->until_ns || x->state == SERVICE_STARTING || x->state == SERVICE_WARMING)
		return false;
	return TAILQ_EMPTY(&hub_services(h)->waiters) && TAILQ_EMPTY(&hub_services(h)->settles);
}

int services_create(struct hub *h, struct services **out)
{
	struct services *all = calloc(1, sizeof(*all));

	if (!all || !(all->turn = malloc(sizeof(*all->turn)))) {
		free(all);
		return ERR_NOMEM;
	}
	TAILQ_INIT(&all->all);
	TAILQ_INIT(&all->waiters);
	TAILQ_INIT(&all->settles);
	uv_timer_init(hub_loop(h), all->turn);
	all->turn->data = h;
	hub_agents(h)->watch = &services_watch;
	*out = all;
	return 0;
}

static void services_on_closed(uv_handle_t *t)
{
	free(t);
}

void services_leave(struct hub *h)
{
	struct service *x;

	if (!hub_services(h))
		return;
	hub_agents(h)->watch = NULL;
	uv_timer_stop(hub_services(h)->turn);
	TAILQ_FOREACH(x, &hub_services(h)->all, entry)
	service_let_go(x);
}

void services_destroy(struct hub *h)
{
	struct service_settle *k;
	struct service *x;

	if (!hub_services(h))
		return;
	while ((k = TAILQ_FIRST(&hub_services(h)->settles)))
		settle_over(h, k, ERR_CANCELLED);
	service_wait_end(h);
	while ((x = TAILQ_FIRST(&hub_services(h)->all)))
		service_free(x);
	uv_close((uv_handle_t *)hub_services(h)->turn, services_on_closed);
	free(hub_services(h));
}

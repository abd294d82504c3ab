#define LOG_SUBSYS "kube"
#include "control/kube/pods/reach.h"

#include "base/backoff.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/exec/remotecommand.h"
#include "control/kube/exec/stream_fd.h"
#include "control/kube/pods/program.h"
#include "control/kube/pods/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#define TEXT_MAX     4096 /* of what a script answers, and of muxlet's first line */
#define FIRST_WINDOW (64 * 1024)
#define JOIN_MAGIC   "MUXJOIN\x01"
#define NOT_THERE    127 /* exit codes with which some runtimes say that a program is not there, or cannot be run */
#define NOT_RUNNABLE 126
#define TOO_OLD      64 /* a muxlet that does not know --join */
#define NAME_TAKEN   77
#define KILLED       (128 + 9) /* by whoever ends the container, before the API server says that it ends */
#define TERMINATED   (128 + 15)
#define AGAIN_MS     250
#define AGAIN_MAX_MS 4000
#define BEGUN_TRIES  4 /* of an exec that the runtime could not begin */

/* Where muxlet is looked for, in turn. */
enum place { PLACE_KNOWN, PLACE_INIT, PLACE_FOUND, PLACE_SENT, PLACE_IMAGE };

struct reach {
	struct reach_params p;
	const struct reach_ops *ops;
	void *arg;
	enum reach_state state;
	char agent[AGENT_NAME_MAX + 1]; /* for logs and messages: ns/pod/container */
	char ns[AGENT_NAME_MAX + 1], pod[AGENT_NAME_MAX + 1], container[AGENT_NAME_MAX + 1], name[64], workdir[256];
	char image_path[DELIVER_PATH_MAX + 1], dir[DELIVER_PATH_MAX + 1], leave[16];
	uint8_t secret[SANDBOX_SECRET_LEN];
	enum place place;
	unsigned not_these;  /* places where it was delivered, or found, and did not run */
	int at;              /* the place that is tried; -1: none of those */
	char not_there[160]; /* what was said of them */
	char earlier[160];   /* ways that are not tried with a shell, each with what was wrong with it */
	bool told, asked_again;
	struct reach_result result;
	struct err words; /* the last that somebody said against it */
	struct kube_ask ask;
	uint64_t generation;
	struct rc_stream *rc;
	char out[TEXT_MAX], err[256];
	size_t out_len, err_len, sent;
	uint64_t received, aside, until; /* bytes of both streams; of them stderr since UP; the pump's window */
	struct stream_fd *pump;
	unsigned refusals;              /* that may pass, of the exec that is tried */
	uint64_t deadline_at, again_at; /* of the loop's clock; again_at 0: no exec is waited with */
	uv_timer_t timer;
};

static const char *const state_names[] = {"joining", "looking", "sending", "up", "over"};

static void reach_set_state(struct reach *r, enum reach_state s)
{
	if (r->state != s)
		log_debug(&(struct log_ids){.agent = r->agent}, "reach: %s -> %s", state_names[r->state],
			  state_names[s]);
	r->state = s;
}

static void reach_run(struct reach *r);

/* ---- the end */

static void drop_exec(struct reach *r)
{
	rc_close(r->rc);
	r->rc = NULL;
}

static void reach_fail_as(struct reach *r, int rc, const struct err *why)
{
	struct err e = {0};

	if (r->told)
		return;
	r->told = true;
	drop_exec(r);
	kube_ask_cancel(&r->ask);
	uv_timer_stop(&r->timer);
	reach_set_state(r, REACH_OVER);
	err_again(&e, rc, why, r->agent);
	r->ops->done(r->arg, rc, &e, NULL, -1);
}

static void reach_fail(struct reach *r, int rc, const char *text)
{
	struct err why = {0};

	err_set(&why, rc, "%s", text);
	reach_fail_as(r, rc, &why);
}

static void fail_as(struct reach *r, const struct rc_exit *x)
{
	if (x->err.message[0])
		reach_fail_as(r, x->err.code ? x->err.code : ERR_K8S, &x->err);
	else
		reach_fail(r, x->err.code ? x->err.code : ERR_K8S, rc_cause_name(x->cause));
}

/* Of a way that is left: whoever ends up without any is told each. Once for each way. */
static void leave_way(struct reach *r, const char *way, const char *why)
{
	char head[16], *end = r->earlier + strlen(r->earlier);

	text_format(head, sizeof(head), "%s: ", way);
	if (!strstr(r->earlier, head))
		text_format(end, (size_t)(r->earlier + sizeof(r->earlier) - end), "%s%s%.70s",
			    r->earlier[0] ? "; " : "", head, why);
}

static void unsupported(struct reach *r, const char *why)
{
	char text[ERR_MESSAGE_MAX];

	text_format(text, sizeof(text), "muxlet cannot run there: %.120s%s%.160s%s%s%s", why,
		    r->words.message[0] ? ": " : "", r->words.message, r->earlier[0] ? " (" : "", r->earlier,
		    r->earlier[0] ? ")" : "");
	reach_fail(r, ERR_UNSUPPORTED, text);
}

/* ---- time */

static void reach_on_timer(uv_timer_t *t);

static void reach_arm(struct reach *r)
{
	uint64_t at = r->again_at && r->again_at < r->deadline_at ? r->again_at : r->deadline_at;
	uint64_t now = uv_now(r->p.loop);

	(void)uv_timer_start(&r->timer, reach_on_timer, at > now ? at - now : 0, 0);
}

static void reach_on_deadline(struct reach *r)
{
	char text[ERR_MESSAGE_MAX];

	text_format(text, sizeof(text), "no stream to muxlet within %llu s (%s)%s%.300s",
		    (unsigned long long)(r->p.deadline_ms / 1000), state_names[r->state], r->refusals ? ": " : "",
		    r->refusals ? r->words.message : "");
	reach_fail(r, ERR_TIMEOUT, text);
}

static void reach_on_timer(uv_timer_t *t)
{
	struct reach *r = t->data;

	if (uv_now(r->p.loop) >= r->deadline_at) {
		reach_on_deadline(r);
		return;
	}
	if (r->again_at) {
		r->again_at = 0;
		reach_run(r);
	}
	reach_arm(r);
}

/*
 * A busy server; or the webhook in front of it did not answer, which may be muxd's own and its address not yet known
 * to the cluster (docs/operations.md). Or the runtime could not begin it, as in a container that is about to end: the
 * next try is told so (ERR_BAD_STATE, and who asked looks at the pod again). Nothing was begun.
 */
static bool may_pass(const struct reach *r, const struct rc_exit *x)
{
	if (!x->http_status)
		return x->err.code == ERR_K8S && r->refusals + 1 < BEGUN_TRIES;
	return x->http_status == 429 || (x->http_status == 500 && strstr(x->err.message, "failed calling webhook"));
}

static void try_later(struct reach *r, const struct rc_exit *x)
{
	uint64_t ms = backoff_spread(++r->refusals, AGAIN_MS, AGAIN_MAX_MS);

	err_set(&r->words, 0, "%s", x->err.message);
	log_debug(&(struct log_ids){.agent = r->agent}, "reach: %s; again in %llu ms", x->err.message,
		  (unsigned long long)ms);
	r->again_at = uv_now(r->p.loop) + ms;
	reach_arm(r);
}

/* ---- the stream, once it is up */

static ssize_t pump_input(void *arg, const uint8_t *p, size_t n)
{
	struct reach *r = arg;

	return r->rc ? rc_input(r->rc, p, n) : ERR_ENDED;
}

static void pump_window(void *arg, uint64_t until)
{
	struct reach *r = arg;

	r->until = until;
	if (r->rc)
		rc_window(r->rc, until + r->aside);
}

static void reach_over(struct reach *r, const char *why)
{
	drop_exec(r);
	stream_fd_destroy(r->pump);
	r->pump = NULL;
	reach_set_state(r, REACH_OVER);
	r->ops->ended(r->arg, why);
}

static void pump_closed(void *arg)
{
	struct reach *r = arg;

	reach_over(r, r->words.message[0] ? r->words.message : "the hub closed it");
}

static const struct stream_fd_ops pump_ops = {pump_input, pump_window, pump_closed};

static void come_up(struct reach *r, size_t rest_at)
{
	size_t rest = r->out_len - rest_at;
	int fd, rc;

	rc = stream_fd_create(r->p.loop, &pump_ops, r, r->received - rest, &r->pump, &fd);
	if (!rc && rest)
		rc = stream_fd_output(r->pump, (const uint8_t *)r->out + rest_at, rest);
	if (rc) {
		if (r->pump)
			close(fd);
		reach_fail(r, rc, "no socket for the link");
		return;
	}
	r->told = true;
	uv_timer_stop(&r->timer);
	explicit_bzero(r->secret, sizeof(r->secret));
	reach_set_state(r, REACH_UP);
	r->ops->done(r->arg, 0, NULL, &r->result, fd);
}

/* ---- what comes of an exec */

static void reach_keep(char *to, size_t *len, size_t size, const uint8_t *p, size_t n)
{
	size_t take = n < size - *len ? n : size - *len;

	memcpy(to + *len, p, take);
	*len += take;
}

static void take_first_line(struct reach *r)
{
	const char *end = memchr(r->out, '\n', r->out_len);

	if (!end) {
		if (r->out_len == sizeof(r->out))
			reach_fail(r, ERR_PROTOCOL, "what was begun as muxlet does not speak as one");
		return;
	}
	if (deliver_joined(r->out, (size_t)(end - r->out), &r->result.joined) == 0)
		come_up(r, (size_t)(end - r->out) + 1);
	/* Else an older one tells how to use it, and exits. */
}

static void reach_on_data(void *arg, int stream, const uint8_t *p, size_t n)
{
	struct reach *r = arg;

	r->received += n;
	if (stream == 2) {
		reach_keep(r->err, &r->err_len, sizeof(r->err), p, n);
		if (r->state == REACH_UP) {
			r->aside += n;
			rc_window(r->rc, r->until + r->aside);
		}
		return;
	}
	if (r->state == REACH_UP) {
		if (stream_fd_output(r->pump, p, n))
			reach_over(r, "more came than the window allows");
		return;
	}
	if (r->state == REACH_JOINING) {
		size_t room = sizeof(r->out) - r->out_len;

		reach_keep(r->out, &r->out_len, sizeof(r->out), p, n);
		take_first_line(r);
		if (r->state == REACH_UP && n > room && stream_fd_output(r->pump, p + room, n - room))
			reach_over(r, "more came than the window allows");
		return;
	}
	reach_keep(r->out, &r->out_len, sizeof(r->out), p, n);
}

static void send_more(struct reach *r)
{
	const struct program *g = r->p.program;

	while (r->sent < g->len) {
		ssize_t took = rc_input(r->rc, g->bytes + r->sent, g->len - r->sent);

		if (took <= 0)
			return;
		r->sent += (size_t)took;
	}
}

static void reach_on_writable(void *arg, size_t room)
{
	struct reach *r = arg;

	(void)room;
	if (r->state == REACH_SENDING)
		send_more(r);
	else if (r->pump)
		stream_fd_writable(r->pump);
}

static void reach_on_opened(void *arg, int version)
{
	(void)arg, (void)version;
}

/* What a program said on stderr, or the API server: for people, on one line. */
static void remember_words(struct reach *r, const struct rc_exit *x)
{
	char text[sizeof(r->err) + 1];

	memcpy(text, r->err, r->err_len);
	text[r->err_len] = '\0';
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < 32 || *p == 127)
			*p = p[1] ? ' ' : '\0';
	if (text[0])
		err_set(&r->words, 0, "%s", text);
	else if (x->err.message[0])
		err_set(&r->words, 0, "%s", x->err.message);
	else
		err_set(&r->words, 0, "exit code %d", x->code);
}

/* Was there no such program, or none that can run? */
static bool is_absent(const struct rc_exit *x)
{
	if (x->cause == RC_EXITED)
		return x->code == NOT_THERE || x->code == NOT_RUNNABLE;
	return x->cause == RC_NOT_STARTED && (x->err.code == ERR_NO_PROGRAM || x->err.code == ERR_NOT_EXECUTABLE);
}

/* The program was begun and died before it said a word, or was none to this kernel. */
static bool cannot_run(const struct rc_exit *x)
{
	return is_absent(x) || (x->cause == RC_EXITED && x->code > 128 && x->code != KILLED && x->code != TERMINATED);
}

static void reach_look(struct reach *r)
{
	r->at = -1;
	reach_set_state(r, REACH_LOOKING);
	reach_run(r);
}

/* Each place is tried once: the program is sent as often as there are places, at most. False: there is no other. */
static bool look_elsewhere(struct reach *r)
{
	char *end = r->not_there + strlen(r->not_there);
	const char *dir = r->state == REACH_SENDING ? r->dir : r->result.path;

	if (r->at < 0 || r->not_these & (1u << r->at))
		return false;
	log_info(&(struct log_ids){.agent = r->agent}, "muxlet does not run in %s: %s", dir, r->words.message);
	text_format(end, (size_t)(r->not_there + sizeof(r->not_there) - end), "%s%.60s: %.60s",
		    r->not_there[0] ? "; " : "", dir, r->words.message);
	r->not_these |= 1u << r->at;
	reach_look(r);
	return true;
}

static void try_at(struct reach *r, enum place place, const char *path, const char *delivery)
{
	r->place = place;
	text_put(r->result.path, sizeof(r->result.path), path);
	text_put(r->result.delivery, sizeof(r->result.delivery), delivery);
	reach_set_state(r, REACH_JOINING);
	reach_run(r);
}

static void try_init(struct reach *r)
{
	if (r->p.muxlet_dir) {
		try_at(r, PLACE_INIT, KUBE_MUXLET_THERE, "init");
		return;
	}
	leave_way(r, "init", "nothing is mounted at " KUBE_MUXLET_DIR);
	reach_look(r);
}

static void joining_ended(struct reach *r, const struct rc_exit *x)
{
	bool old = x->cause == RC_EXITED && x->code == TOO_OLD;

	if (x->cause == RC_EXITED && x->code == NAME_TAKEN) {
		reach_fail(r, ERR_CONFLICT, r->words.message);
	} else if (x->cause == RC_EXITED && (x->code == KILLED || x->code == TERMINATED)) {
		reach_fail(r, ERR_BAD_STATE, "muxlet was killed before it answered: the container may be ending");
	} else if (!cannot_run(x) && !old) {
		if (x->cause == RC_EXITED)
			reach_fail(r, ERR_SANDBOX_CREATE, r->words.message);
		else
			fail_as(r, x);
	} else if (r->place == PLACE_KNOWN) {
		try_init(r);
	} else if (r->place == PLACE_INIT) {
		leave_way(r, "init", r->words.message);
		reach_look(r);
	} else if (r->place == PLACE_FOUND && r->at < 0 && r->image_path[0]) {
		leave_way(r, "image", r->words.message);
		r->image_path[0] = '\0'; /* not that one */
		reach_look(r);
	} else if (!look_elsewhere(r)) {
		unsupported(r, r->place == PLACE_SENT ? "it was delivered and does not run"
						      : "there is no shell, and no muxlet in the image");
	}
}

static void leave_image(struct reach *r)
{
	char text[80];

	text_format(text, sizeof(text), "there is no %s", r->image_path);
	leave_way(r, "image", text);
}

static void looking_ended(struct reach *r, const struct rc_exit *x)
{
	struct deliver_answer a;
	char text[120];

	if (is_absent(x) && r->image_path[0]) {
		try_at(r, PLACE_IMAGE, r->image_path, "image");
		return;
	}
	if (is_absent(x)) {
		unsupported(r, "there is no shell");
		return;
	}
	if (x->cause != RC_EXITED) {
		fail_as(r, x);
		return;
	}
	if (deliver_parse(r->out, r->out_len, &a)) {
		unsupported(r, "its shell does not answer");
		return;
	}
	if (a.kind != DELIVER_FOUND_IMAGE && r->image_path[0])
		leave_image(r);
	if (a.kind == DELIVER_FOUND_IMAGE || a.kind == DELIVER_FOUND_STREAM) {
		r->at = a.kind == DELIVER_FOUND_IMAGE ? -1 : a.place;
		try_at(r, PLACE_FOUND, a.path, a.kind == DELIVER_FOUND_IMAGE ? "image" : "stream");
	} else if (a.kind == DELIVER_NONE) {
		text_put(r->words.message, sizeof(r->words.message), r->not_there);
		unsupported(r, r->not_these ? "no directory there holds and runs it"
					    : "no directory there is writable and not mounted noexec");
	} else if (a.machine[0] && r->p.program->machine[0] && strcmp(a.machine, r->p.program->machine) != 0) {
		r->words.message[0] = '\0';
		text_format(text, sizeof(text), "the node is %.31s, and this muxlet is for %s", a.machine,
			    r->p.program->machine);
		unsupported(r, text);
	} else {
		text_put(r->dir, sizeof(r->dir), a.path);
		r->at = a.place;
		reach_set_state(r, REACH_SENDING);
		reach_run(r);
	}
}

static void sending_ended(struct reach *r, const struct rc_exit *x)
{
	char path[DELIVER_PATH_MAX + 1];

	if (x->cause == RC_EXITED && x->code == 0) {
		if (snprintf(path, sizeof(path), "%s/muxlet", r->dir) >= (int)sizeof(path))
			reach_fail(r, ERR_TOO_LARGE, "the path of its directory is too long");
		else
			try_at(r, PLACE_SENT, path, "stream");
	} else if (x->cause != RC_EXITED) {
		fail_as(r, x);
	} else if (!look_elsewhere(r)) {
		unsupported(r, "it could not be delivered");
	}
}

static void with_creds(void *arg, int rc, const struct err *e);

static void reach_on_exited(void *arg, const struct rc_exit *x)
{
	struct reach *r = arg;

	if (r->state == REACH_UP) {
		remember_words(r, x);
		drop_exec(r);
		stream_fd_end(r->pump); /* pump_closed() follows, now or when the hub has read the rest */
		return;
	}
	drop_exec(r);
	if (x->http_status == 401 && !r->asked_again) {
		r->asked_again = true;
		kube_creds_ask(r->p.creds, &r->ask, r->generation, with_creds, r);
		return;
	}
	if (x->cause == RC_NOT_STARTED && may_pass(r, x)) {
		try_later(r, x);
		return;
	}
	if (x->cause == RC_NOT_STARTED && x->http_status) {
		fail_as(r, x);
		return;
	}
	r->refusals = 0;
	remember_words(r, x);
	if (r->state == REACH_JOINING)
		joining_ended(r, x);
	else if (r->state == REACH_LOOKING)
		looking_ended(r, x);
	else if (r->state == REACH_SENDING)
		sending_ended(r, x);
}

static const struct rc_ops exec_ops = {
    .opened = reach_on_opened, .data = reach_on_data, .writable = reach_on_writable, .exited = reach_on_exited};

/* ---- beginning an exec */

static void join_argv(struct reach *r, const char *argv[DELIVER_ARGS])
{
	size_t n = 0;

	argv[n++] = r->result.path;
	argv[n++] = "--join";
	argv[n++] = r->name;
	if (r->workdir[0]) {
		argv[n++] = "--workdir";
		argv[n++] = r->workdir;
	}
	if (r->p.leave_s) {
		snprintf(r->leave, sizeof(r->leave), "%u", r->p.leave_s);
		argv[n++] = "--leave";
		argv[n++] = r->leave;
	}
	argv[n] = NULL;
}

static int open_exec(struct reach *r, const char *const *argv, struct err *e)
{
	const struct kube_endpoint *ep = kube_creds_endpoint(r->p.creds);
	struct rc_params p = {.ns = r->ns,
			      .pod = r->pod,
			      .container = r->container,
			      .argv = argv,
			      .in = r->state != REACH_LOOKING,
			      .out = true,
			      .err = true,
			      .window = FIRST_WINDOW};

	r->generation = ep->generation;
	r->out_len = r->err_len = r->sent = 0;
	r->received = 0;
	return rc_open(r->p.rc, ep, &p, &exec_ops, r, &r->rc, e);
}

/* Taken at once: there is room for it in an empty queue. */
static void say_preamble(struct reach *r)
{
	uint8_t text[sizeof(JOIN_MAGIC) - 1 + SANDBOX_SECRET_LEN];

	memcpy(text, JOIN_MAGIC, sizeof(JOIN_MAGIC) - 1);
	memcpy(text + sizeof(JOIN_MAGIC) - 1, r->secret, sizeof(r->secret));
	(void)rc_input(r->rc, text, sizeof(text));
	explicit_bzero(text, sizeof(text));
}

static void with_creds(void *arg, int rc, const struct err *e)
{
	const char *argv[DELIVER_ARGS];
	struct reach *r = arg;
	struct err here = {0};
	char tag[17], size[24];

	if (rc) {
		reach_fail(r, rc, e && e->message[0] ? e->message : err_name(rc));
		return;
	}
	if (r->state == REACH_JOINING)
		join_argv(r, argv);
	else if (r->state == REACH_LOOKING)
		deliver_look(r->image_path, r->p.program, r->not_these, tag, argv);
	else
		deliver_send(r->dir, r->p.program, size, argv);
	rc = open_exec(r, argv, &here);
	if (rc)
		reach_fail(r, rc, here.message);
	else if (r->state == REACH_JOINING)
		say_preamble(r);
	else if (r->state == REACH_SENDING)
		send_more(r);
}

/* The next exec, whichever the state says. */
static void reach_run(struct reach *r)
{
	r->asked_again = false;
	kube_creds_ask(r->p.creds, &r->ask, 0, with_creds, r);
}

/* ---- life */

static void reach_copy(char *to, size_t size, const char *from)
{
	text_put(to, size, from ? from : "");
}

static void copy_params(struct reach *r, const struct reach_params *p)
{
	r->p = *p;
	reach_copy(r->ns, sizeof(r->ns), p->ns);
	reach_copy(r->pod, sizeof(r->pod), p->pod);
	reach_copy(r->container, sizeof(r->container), p->container);
	reach_copy(r->name, sizeof(r->name), p->name);
	reach_copy(r->workdir, sizeof(r->workdir), p->workdir);
	reach_copy(r->image_path, sizeof(r->image_path), p->image_path);
	memcpy(r->secret, p->secret, sizeof(r->secret));
	text_format(r->agent, sizeof(r->agent), "%.63s/%.63s/%.60s", p->ns, p->pod, p->container);
}

int reach_create(const struct reach_params *p, const struct reach_ops *ops, void *arg, struct reach **out)
{
	struct reach *r = calloc(1, sizeof(*r));

	if (!r)
		return ERR_NOMEM;
	copy_params(r, p);
	r->ops = ops;
	r->arg = arg;
	uv_timer_init(p->loop, &r->timer);
	r->timer.data = r;
	r->deadline_at = uv_now(p->loop) + p->deadline_ms;
	reach_arm(r);
	*out = r;
	if (p->known && *p->known)
		try_at(r, PLACE_KNOWN, p->known, p->known_delivery);
	else
		try_init(r);
	return 0;
}

static void reach_on_timer_closed(uv_handle_t *h)
{
	struct reach *r = h->data;

	explicit_bzero(r->secret, sizeof(r->secret));
	free(r);
}

void reach_destroy(struct reach *r)
{
	if (!r)
		return;
	r->told = true;
	r->state = REACH_OVER;
	kube_ask_cancel(&r->ask);
	drop_exec(r);
	stream_fd_destroy(r->pump);
	r->pump = NULL;
	uv_close((uv_handle_t *)&r->timer, reach_on_timer_closed);
}

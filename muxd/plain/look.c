/* What the container has: a shell, what that can do, and what an earlier life of this daemon left in there. */
#define LOG_SUBSYS "plain"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "muxd/plain/peer.h"

#define LOOK_NS  (60 * NS_PER_SEC)
#define STALE_NS (1 * NS_PER_SEC) /* between TERM and KILL of what was left */

/* Tried in order; a static busybox is where debugging images keep theirs. */
static const char *const shells[] = {"/bin/sh", "/bin/bash", "/busybox/sh"};
#define SHELLS (sizeof(shells) / sizeof(shells[0]))

static void try_shell(struct plain_peer *p);

static void close_look(struct plain_peer *p)
{
	plain_exec_close(p->look_exec);
	p->look_exec = NULL;
	p->look_deadline_ns = 0;
	buf_clear(&p->look_text);
}

static void ready(struct plain_peer *p, enum peer_look look)
{
	static const char *const names[] = {"not known", "asked for", "cleared", "a shell", "no shell"};

	p->look = look;
	p->look_deadline_ns = 0;
	log_info(&(struct log_ids){.agent = p->agent}, "plain, by v%d.channel.k8s.io: %s%s%s", p->version, names[look],
		 look == LOOK_SHELL ? " at " : "", look == LOOK_SHELL ? p->shell : "");
	p->turn = true; /* of whoever waits */
	peer_timer(p);
	peer_kick(p);
}

static void look_fail(struct plain_peer *p, const struct err *e)
{
	p->look = LOOK_UNKNOWN; /* the next OPEN looks again */
	channel_refuse_waiting(p, e);
	peer_kick(p);
}

static void sweep_stale(struct plain_peer *p, const char *signals);

static void look_on_stale(void *arg, int64_t found)
{
	struct plain_peer *p = arg;

	if (p->look != LOOK_STALE)
		return;
	if (found > 0)
		log_info(&(struct log_ids){.agent = p->agent},
			 "%lld processes that an earlier life of this daemon left behind were told to end",
			 (long long)found);
	if (found > 0 && !p->stale_again) {
		p->look_deadline_ns = clock_boot_ns() + STALE_NS;
		peer_timer(p);
		return;
	}
	ready(p, LOOK_SHELL);
}

static void sweep_stale(struct plain_peer *p, const char *signals)
{
	p->look = LOOK_STALE;
	p->stale.target = (struct script_target){.mark = "-", .signals = signals};
	p->stale.done = look_on_stale;
	p->stale.arg = p;
	sweep_ask(p, &p->stale);
}

static void found_shell(struct plain_peer *p)
{
	p->shell = shells[p->shells_tried];
	p->login = p->has.bash ? "/bin/bash" : p->shell;
	p->stale_again = false;
	if (p->has.proc)
		sweep_stale(p, "1 15 18"); /* before any of ours runs: it would be taken for one of those */
	else
		ready(p, LOOK_SHELL);
}

static bool is_absent(const struct rc_exit *x)
{
	return x->cause == RC_NOT_STARTED && (x->err.code == ERR_NO_PROGRAM || x->err.code == ERR_NOT_EXECUTABLE);
}

static void look_on_data(void *arg, int stream, const uint8_t *p, size_t n)
{
	struct plain_peer *peer = arg;
	size_t room = buf_room(&peer->look_text);

	if (stream == 1)
		(void)buf_append(&peer->look_text, p, n < room ? n : room);
}

static void look_on_exited(void *arg, const struct rc_exit *x)
{
	struct plain_peer *p = arg;
	const char *text = buf_cstr(&p->look_text);
	bool shell = x->cause != RC_NOT_STARTED && text && answer_probe(text, &p->has),
	     absent = is_absent(x) || (x->cause == RC_EXITED && !shell);
	struct err e = x->err;

	close_look(p);
	if (shell)
		found_shell(p);
	else if (absent && ++p->shells_tried < SHELLS)
		try_shell(p);
	else if (absent)
		ready(p, LOOK_BARE);
	else
		look_fail(p, &e);
}

static const struct rc_ops exec_ops = {NULL, look_on_data, NULL, look_on_exited};

static void try_shell(struct plain_peer *p)
{
	const struct rc_params params = {.out = true, .window = 64 * 1024};
	struct script_words words;

	p->look = LOOK_ASKING;
	p->look_deadline_ns = clock_boot_ns() + LOOK_NS;
	if (script_probe(shells[p->shells_tried], &words) == 0)
		(void)plain_exec_start(p, &params, &words, &exec_ops, p, &p->look_exec); /* else the deadline tells */
	peer_timer(p);
}

void look_begin(struct plain_peer *p)
{
	p->shells_tried = 0;
	try_shell(p);
}

void look_stop(struct plain_peer *p)
{
	close_look(p);
	sweep_cancel(p, &p->stale);
}

void look_tick(struct plain_peer *p, uint64_t now)
{
	struct err e = {0};

	if (!p->look_deadline_ns || now < p->look_deadline_ns)
		return;
	p->look_deadline_ns = 0;
	if (p->look == LOOK_STALE) {
		p->stale_again = true;
		sweep_stale(p, "9");
		return;
	}
	close_look(p);
	err_set(&e, ERR_TIMEOUT, "the container did not answer within 60 s");
	look_fail(p, &e);
}

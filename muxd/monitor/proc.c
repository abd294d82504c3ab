#define LOG_SUBSYS "monitor"
#include "muxd/monitor/proc.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/sock.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_TIMEOUT_MS 120000
#define CLOSED_GRACE_MS  2000 /* between the end of its conversation and its own */
#define DELAY_MIN_MS     100
#define LIVED_WELL_NS    (60 * NS_PER_SEC)
#define QUEUE_MAX        65536 /* more than the revocations that may be alive */

const char *proc_state_name(enum proc_state s)
{
	static const char *const names[] = {"down", "starting", "ready", "stopping", "backoff"};
	return names[s];
}

static void proc_set_state(struct proc *p, enum proc_state s)
{
	if (p->state == s)
		return;
	log_debug(NULL, "%s: %s -> %s", p->ops->name, proc_state_name(p->state), proc_state_name(s));
	p->state = s;
}

static void proc_on_start_again(uv_timer_t *t)
{
	struct proc *p = t->data;

	p->restarts++;
	proc_start(p);
}

static void proc_on_kill_deadline(uv_timer_t *t)
{
	struct proc *p = t->data;

	log_warn(NULL, "%s (pid %ld) did not %s in time and is killed", p->ops->name, (long)p->pid,
		 p->state == PROC_STARTING ? "become ready" : "end");
	proc_kill(p);
}

static void proc_arm(struct proc *p, uv_timer_cb cb, uint64_t ms)
{
	uv_update_time(p->loop);
	uv_timer_start(&p->timer, cb, ms, 0);
}

static void back_off(struct proc *p)
{
	if (p->started_ns && clock_boot_ns() - p->started_ns > LIVED_WELL_NS)
		p->delay_ms = 0;
	p->delay_ms = backoff_after(p->delay_ms, DELAY_MIN_MS, PROC_PAUSE_MAX_MS);
	proc_set_state(p, PROC_BACKOFF);
	proc_arm(p, proc_on_start_again, p->delay_ms);
}

/* One way out of starting, ready and stopping. */
static void has_ended(struct proc *p, const struct err *how)
{
	bool wanted = p->state == PROC_STOPPING, was_ready = p->state == PROC_READY;

	uv_timer_stop(&p->timer);
	channel_destroy(p->channel);
	p->channel = NULL;
	p->pid = 0;
	if (wanted)
		proc_set_state(p, PROC_DOWN);
	else
		back_off(p);
	p->ops->ended(p->arg, was_ready, how);
}

static void proc_on_packet(void *arg, const json_t *msg)
{
	struct proc *p = arg;

	p->ops->packet(p->arg, msg);
}

static void proc_on_channel_closed(void *arg, const struct err *why)
{
	struct proc *p = arg;

	/* Normal at its end; otherwise it broke the conversation and cannot be trusted any further. */
	log_debug(NULL, "%s: conversation ended: %s", p->ops->name, why->message);
	if (p->state == PROC_STOPPING)
		return;
	if (why->code != ERR_EOF) {
		log_error(NULL, "%s (pid %ld): %s; it is killed", p->ops->name, (long)p->pid, why->message);
		proc_kill(p);
		return;
	}
	proc_arm(p, proc_on_kill_deadline, CLOSED_GRACE_MS);
}

static const struct channel_ops channel_ops = {
    .packet = proc_on_packet,
    .closed = proc_on_channel_closed,
    .queue_max = QUEUE_MAX,
};

int proc_init(struct proc *p, uv_loop_t *loop, const struct proc_ops *ops, void *arg)
{
	memset(p, 0, sizeof *p);
	p->ops = ops;
	p->arg = arg;
	p->loop = loop;
	p->ready_ms = READY_TIMEOUT_MS;
	p->timer.data = p;
	return uv_timer_init(loop, &p->timer) ? ERR_NOMEM : 0;
}

void proc_finish(struct proc *p)
{
	if (p->pid > 0) {
		kill(p->pid, SIGKILL);
		while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	p->pid = 0;
	channel_destroy(p->channel);
	p->channel = NULL;
	if (!uv_is_closing((uv_handle_t *)&p->timer))
		uv_close((uv_handle_t *)&p->timer, NULL);
}

static void describe_end(const struct proc *p, int status, struct err *how)
{
	if (WIFSIGNALED(status))
		err_set(how, ERR_UNAVAILABLE, "%s (pid %ld) was killed by signal %d (%s)", p->ops->name, (long)p->pid,
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		err_set(how, ERR_UNAVAILABLE, "%s (pid %ld) ended with status %d", p->ops->name, (long)p->pid,
			WEXITSTATUS(status));
}

/* The process could not be talked to: most often because it is gone already, and then how it ended is what to tell. */
static int proc_give_up(struct proc *p, int rc, struct err *e)
{
	int status = 0;

	kill(p->pid, SIGKILL);
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		describe_end(p, status, e);
	else if (e->code == 0)
		err_set(e, rc, "%s (pid %ld) did not take its first message", p->ops->name, (long)p->pid);
	return rc;
}

static int spawn(struct proc *p, struct err *e)
{
	struct child_spec spec = {.who = FILE_OWNER_SELF};
	int fds[2], rc;

	if (sock_pair(SOCK_SEQPACKET, fds))
		return err_set(e, ERR_SYS, "a socket pair for %s could not be made", p->ops->name);
	p->ops->spec(p->arg, &spec);
	spec.ipc_fd = fds[1];
	rc = child_spawn(&spec, &p->pid, e);
	close(fds[1]);
	if (rc) {
		close(fds[0]);
		return rc;
	}
	rc = channel_create(p->loop, fds[0], &channel_ops, p, &p->channel, e);
	if (rc == 0)
		rc = p->ops->hello(p->arg, p->channel, e);
	return rc ? proc_give_up(p, rc, e) : 0;
}

void proc_start(struct proc *p)
{
	struct err e = {0};
	int rc;

	if (p->state != PROC_DOWN && p->state != PROC_BACKOFF)
		return;
	uv_timer_stop(&p->timer);
	rc = p->ops->may_start(p->arg, &e);
	if (rc == ERR_AGAIN) {
		proc_set_state(p, PROC_DOWN);
		return;
	}
	proc_set_state(p, PROC_STARTING);
	p->generation++;
	p->started_ns = clock_boot_ns();
	if (rc || spawn(p, &e)) {
		has_ended(p, &e);
		return;
	}
	log_debug(NULL, "%s: started as pid %ld", p->ops->name, (long)p->pid);
	proc_arm(p, proc_on_kill_deadline, p->ready_ms);
}

void proc_progress(struct proc *p)
{
	if (p->state == PROC_STARTING)
		proc_arm(p, proc_on_kill_deadline, p->ready_ms);
}

void proc_set_ready(struct proc *p)
{
	if (p->state != PROC_STARTING)
		return;
	uv_timer_stop(&p->timer);
	proc_set_state(p, PROC_READY);
}

void proc_stop(struct proc *p, uint64_t grace_ms)
{
	json_t *msg;

	if (p->state == PROC_STOPPING)
		return;
	if (p->pid == 0) {
		uv_timer_stop(&p->timer);
		proc_set_state(p, PROC_DOWN);
		p->ops->ended(p->arg, false, NULL);
		return;
	}
	proc_set_state(p, PROC_STOPPING);
	msg = json_pack("{s:s}", "op", "stop");
	if (!msg || channel_send(p->channel, msg, NULL, 0))
		kill(p->pid, SIGTERM);
	json_decref(msg);
	proc_arm(p, proc_on_kill_deadline, grace_ms);
}

void proc_kill(struct proc *p)
{
	if (p->pid > 0)
		kill(p->pid, SIGKILL);
}

void proc_reap(struct proc *p)
{
	struct err how = {0};
	int status;

	if (p->pid <= 0 || waitpid(p->pid, &status, WNOHANG) != p->pid)
		return;
	describe_end(p, status, &how);
	has_ended(p, &how);
}

int proc_send(struct proc *p, const json_t *msg, const int *fds, size_t nfds)
{
	if (!p->channel || (p->state != PROC_READY && p->state != PROC_STARTING))
		return ERR_UNAVAILABLE;
	return channel_send(p->channel, msg, fds, nfds);
}

#include "muxd/doors/ssh/exit.h"
#include "base/text.h"

#include "muxd/hub/session/session.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>

/* RFC 4254, section 6.10, has these names and no others. */
static const struct {
	int signum;
	const char *name;
} wire_names[] = {
    {SIGABRT, "ABRT"}, {SIGALRM, "ALRM"}, {SIGFPE, "FPE"},   {SIGHUP, "HUP"},   {SIGILL, "ILL"},
    {SIGINT, "INT"},   {SIGKILL, "KILL"}, {SIGPIPE, "PIPE"}, {SIGQUIT, "QUIT"}, {SIGSEGV, "SEGV"},
    {SIGTERM, "TERM"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"},
};

static void exit_by_signal(const struct session_result *r, struct ssh_exit *x)
{
	x->status = 128 + r->signal; /* where the wire has no name: as a shell would say it */
	for (size_t i = 0; i < sizeof(wire_names) / sizeof(wire_names[0]); i++)
		if (wire_names[i].signum == r->signal)
			x->name = wire_names[i].name;
}

static void exit_say(struct ssh_exit *x, const char *what, const struct session_result *r)
{
	text_format(x->text, sizeof(x->text), "%s%s%s", what, r->message[0] ? ": " : "", r->message);
}

void ssh_exit_of(const struct session_result *r, struct ssh_exit *out)
{
	struct ssh_exit x = {.status = r->code >= 0 ? r->code : SSH_EXIT_REFUSED};

	if (r->signal > 0)
		exit_by_signal(r, &x);
	switch (r->cause) {
	case EXIT_EXITED:
		break;
	case EXIT_TIMEOUT:
		x.name = NULL;
		x.status = 124;
		exit_say(&x, "ended at its time limit", r);
		break;
	case EXIT_IDLE_TIMEOUT:
		x.name = NULL;
		x.status = 124;
		exit_say(&x, "ended for want of output", r);
		break;
	case EXIT_KILLED:
		exit_say(&x, "ended from outside", r);
		break;
	case EXIT_OOM:
		exit_say(&x, "killed: the sandbox is out of memory", r);
		break;
	case EXIT_NOT_STARTED:
		x.name = NULL;
		x.status = r->code > 0 ? r->code : 127;
		exit_say(&x, "could not be started", r);
		break;
	case EXIT_LOST:
	case EXIT_UNKNOWN:
		x.name = NULL;
		x.status = SSH_EXIT_REFUSED;
		exit_say(
		    &x, r->cause == EXIT_LOST ? "the sandbox was lost; the exit is not known" : "the exit is not known",
		    r);
		break;
	}
	*out = x;
}

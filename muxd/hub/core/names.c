/* The words for roles, kinds, states and signals, as records and answers have them. */
#include "base/err.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/session_state.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

const char *attachment_role_name(enum attachment_role role)
{
	return role == ROLE_DRIVER ? "driver" : "observer";
}

static const char *const kind_names[] = {"terminal", "exec", "round", "file", "port", "mcp"};
static const char *const state_names[] = {"opening", "running", "suspended", "ending", "ended"};

const char *session_kind_name(enum session_kind k)
{
	return kind_names[k];
}
const char *session_state_name(enum session_state s)
{
	return state_names[s];
}

static const struct {
	const char *name;
	int num;
} signals[] = {{"HUP", SIGHUP},       {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"ABRT", SIGABRT},   {"KILL", SIGKILL},
	       {"USR1", SIGUSR1},     {"USR2", SIGUSR2}, {"ALRM", SIGALRM}, {"TERM", SIGTERM},   {"CONT", SIGCONT},
	       {"STOP", SIGSTOP},     {"TSTP", SIGTSTP}, {"PIPE", SIGPIPE}, {"WINCH", SIGWINCH}, {"ILL", SIGILL},
	       {"TRAP", SIGTRAP},     {"BUS", SIGBUS},   {"FPE", SIGFPE},   {"SEGV", SIGSEGV},   {"XCPU", SIGXCPU},
	       {"XFSZ", SIGXFSZ},     {"SYS", SIGSYS},   {"TTIN", SIGTTIN}, {"TTOU", SIGTTOU},   {"CHLD", SIGCHLD},
	       {"VTALRM", SIGVTALRM}, {"PROF", SIGPROF}, {"URG", SIGURG},   {"IO", SIGIO}};

int signal_parse(const char *s, int *out, struct err *e)
{
	const char *name = strncmp(s, "SIG", 3) == 0 ? s + 3 : s;
	char number[12];

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		snprintf(number, sizeof(number), "%d", signals[i].num);
		if (strcmp(name, signals[i].name) == 0 || strcmp(s, number) == 0) {
			*out = signals[i].num;
			return 0;
		}
	}
	return err_set(e, ERR_INVAL, "unknown signal \"%.32s\": HUP, INT, QUIT, TERM, KILL, USR1, USR2, STOP, CONT ...",
		       s);
}

const char *signal_name(int signum)
{
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (signals[i].num == signum)
			return signals[i].name;
	return "unknown";
}

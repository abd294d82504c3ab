/* How a session's end becomes an exit status; pure. */
#include "base/clock.h"
#include "base/text.h"
#include "muxd/ctl/relay.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A signal's number from 9, "KILL" or "SIGKILL"; 0 when there is none. */
static int signal_number(const json_t *v)
{
	const char *name = json_string_value(v);

	if (json_is_integer(v) && json_integer_value(v) > 0 && json_integer_value(v) < 128)
		return (int)json_integer_value(v);
	if (name && strncasecmp(name, "SIG", 3) == 0)
		name += 3;
	for (int i = 1; name && i < NSIG; i++) {
		const char *known = sigabbrev_np(i);
		if (known && strcasecmp(known, name) == 0)
			return i;
	}
	return 0;
}

static const char *signal_text(int signum)
{
	const char *name = sigabbrev_np(signum);

	return name ? name : "?";
}

static int killed_status(const char *why, int signum, char *line, size_t size)
{
	text_format(line, size, "%s%s%s", why, signum ? " by signal " : "", signum ? signal_text(signum) : "");
	return signum ? 128 + signum : 128 + SIGKILL;
}

int relay_status(const json_t *exit, unsigned long long timeout_ns, char *line, size_t size)
{
	const char *cause = "unknown", *message = "";
	int signum = signal_number(json_object_get(exit, "signal"));
	const json_t *code = json_object_get(exit, "code");
	char limit[64] = "";

	line[0] = '\0';
	json_opt_str(exit, "cause", &cause, NULL);
	json_opt_str(exit, "message", &message, NULL);
	if (strcmp(cause, "exit") == 0 && signum)
		return 128 + signum;
	if (strcmp(cause, "exit") == 0 && json_is_integer(code))
		return (int)(json_integer_value(code) & 255);
	if (strcmp(cause, "timeout") == 0) {
		if (timeout_ns)
			clock_format_duration(timeout_ns, limit, sizeof(limit));
		text_format(line, size, "it passed its timeout%s%s and was ended", *limit ? " of " : "", limit);
		return 124;
	}
	if (strcmp(cause, "killed") == 0)
		return killed_status(*message ? message : "it was ended", signum, line, size);
	if (strcmp(cause, "oom") == 0)
		return killed_status("it ran out of memory and was ended", signum, line, size);
	if (strcmp(cause, "not_started") == 0) {
		text_format(line, size, "it did not start: %s", *message ? message : "no reason was given");
		/* As shells do: 126 found and refused, 127 not found. */
		return json_is_integer(code) && json_integer_value(code) > 0 ? (int)(json_integer_value(code) & 255)
									     : 127;
	}
	text_format(line, size, "its outcome is %s%s%s", cause, *message ? ": " : "", message);
	return err_exit_code(ERR_LINK_LOST);
}

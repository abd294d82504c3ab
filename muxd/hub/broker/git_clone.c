#include "muxd/hub/broker/git_clone.h"

#include "base/err.h"
#include "muxd/hub/broker/git_export.h"
#include "muxd/hub/session/session.h"

#include <string.h>

enum { EXIT_NO_GIT = 101, EXIT_REFUSED, EXIT_NO_REF, EXIT_NO_HEAD, EXIT_NO_FILES };

/* $1: the bundle, $2: the ref or nothing. The numbers are those above. */
static const char script[] =
    "umask 022\n"
    "unset GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_NAMESPACE GIT_CONFIG GIT_CONFIG_PARAMETERS GIT_CONFIG_COUNT\n"
    "unset GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_TRACE GIT_TEMPLATE_DIR\n"
    "export LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null\n"
    "export GIT_ATTR_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=file GIT_NO_LAZY_FETCH=1\n"
    "command -v git >/dev/null 2>&1 || exit 101\n"
    "bundle=$PWD/$1 ref=$2\n"
    "set -- -c safe.directory='*' -c core.hooksPath=/dev/null -c core.attributesFile=/dev/null"
    " -c core.fsmonitor=false -c advice.detachedHead=false -c submodule.recurse=false\n"
    "git \"$@\" clone --quiet --mirror --template= \"$bundle\" .git || exit 102\n"
    "rm -f -- \"$bundle\"\n"
    "git \"$@\" --git-dir=.git config core.bare false || exit 102\n"
    "git \"$@\" --git-dir=.git config --remove-section remote.origin\n"
    "if [ -n \"$ref\" ]; then\n"
    "	if git \"$@\" rev-parse --verify --quiet \"refs/heads/$ref^{commit}\" >/dev/null; then\n"
    "		git \"$@\" symbolic-ref HEAD \"refs/heads/$ref\" || exit 103\n"
    "	else\n"
    "		commit=$(git \"$@\" rev-parse --verify --quiet \"$ref^{commit}\") || exit 103\n"
    "		git \"$@\" update-ref --no-deref HEAD \"$commit\" || exit 103\n"
    "	fi\n"
    "fi\n"
    "git \"$@\" rev-parse --verify --quiet 'HEAD^{commit}' >/dev/null || exit 104\n"
    "git \"$@\" reset --quiet --hard || exit 105\n"
    /* A volume's root may be root's, and git enters no repository of somebody else's unless its user says so. */
    "[ -O . ] || [ \"${HOME:-}\" != \"$PWD\" ] || [ -e .gitconfig ] || {\n"
    "	mkdir -p .git/info && echo /.gitconfig >>.git/info/exclude && git config --file .gitconfig safe.directory "
    "\"$PWD\"\n"
    "}\n"
    "exit 0\n";

void git_clone_argv(const char *ref, const char *out[GIT_CLONE_ARGV])
{
	const char *const argv[GIT_CLONE_ARGV] = {"/bin/sh", "-c", script, "begin", GIT_CLONE_BUNDLE, ref};

	memcpy(out, argv, sizeof(argv));
}

static int git_clone_ended(int code, const char *line, const char *ref, struct err *e)
{
	switch (code) {
	case EXIT_NO_GIT:
		return err_set(e, ERR_NO_GIT, "there is no git in the sandbox's image");
	case EXIT_REFUSED:
		return err_set(e, ERR_INVAL, "git takes it for no whole bundle: %s", line);
	case EXIT_NO_REF:
		return err_set(e, ERR_INVAL,
			       "it has no branch, tag or commit \"%.120s\": git bundle list-heads names them", ref);
	case EXIT_NO_HEAD:
		return err_set(e, ERR_INVAL, "it has no HEAD to check out: name a branch, bundle:TASK/NAME#BRANCH");
	default:
		return err_set(e, ERR_TRANSFER, "git ended with code %d: %s", code, line);
	}
}

int git_clone_result(const struct session_result *r, const char *said, size_t n, const char *ref, struct err *e)
{
	char line[200];

	if (r->cause == EXIT_TIMEOUT)
		return err_set(e, ERR_TRANSFER_TIMEOUT, "git passed its timeout");
	if (r->cause != EXIT_EXITED || r->signal)
		return err_set(e, ERR_TRANSFER, "git was ended: %s",
			       r->message[0] ? r->message : exit_cause_name(r->cause));
	if (!r->code)
		return 0;
	git_last_line(said, n, line, sizeof(line));
	/* Git has no code for it, and says the words of the C locale. */
	if (r->code != EXIT_NO_GIT && n && memmem(said, n, "No space left on device", 23))
		return err_set(e, ERR_NO_SPACE, "the workspace is too small for it: %s", line);
	return git_clone_ended(r->code, line, ref, e);
}

#include "muxd/hub/broker/git_export.h"

#include "base/err.h"
#include "base/text.h"
#include "base/visible.h"
#include "muxd/hub/session/session.h"

#include <stdio.h>
#include <string.h>

enum { EXIT_NO_GIT = 101, EXIT_NO_REPOSITORY, EXIT_NO_BASE, EXIT_NO_TEMP, EXIT_NO_COMMITS, EXIT_CREDENTIALS };

#define BASE_WORD "muxd-export-base "

/* $1: the directory, $2: the revision, $3: patch or bundle. The numbers are those above. */
static const char script[] =
    "umask 077\n"
    "unset GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_NAMESPACE GIT_EXTERNAL_DIFF GIT_DIFF_OPTS GIT_CONFIG\n"
    "unset GIT_CONFIG_PARAMETERS GIT_CONFIG_COUNT GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_TRACE\n"
    "unset GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_LITERAL_PATHSPECS GIT_ICASE_PATHSPECS GIT_GLOB_PATHSPECS\n"
    "export LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null\n"
    "export GIT_ATTR_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0 GIT_ALLOW_PROTOCOL=none GIT_PAGER=cat\n"
    "export GIT_NO_LAZY_FETCH=1 GIT_NO_REPLACE_OBJECTS=1\n"
    "command -v git >/dev/null 2>&1 || exit 101\n"
    "cd -- \"$1\" || exit 102\n"
    "rev=$2 form=$3\n"
    "set -f\n"
    "set -- --no-pager -c safe.directory='*' -c core.hooksPath=/dev/null -c core.fsmonitor=false"
    " -c core.attributesFile=/dev/null -c core.sshCommand=false -c core.alternateRefsCommand= -c protocol.allow=never"
    " -c diff.external= -c diff.noprefix=false -c diff.mnemonicPrefix=false -c diff.submodule=short"
    " -c diff.ignoreSubmodules=none -c diff.orderFile=/dev/null -c submodule.recurse=false -c credential.helper="
    " -c core.quotePath=true -c gpg.program=false -c log.showSignature=false\n"
    "top=$(git \"$@\" rev-parse --show-toplevel) || exit 102\n"
    "cd -- \"$top\" || exit 102\n"
    "base=$(git \"$@\" rev-parse --verify --quiet \"$rev^{commit}\") || exit 103\n"
    "echo \"" BASE_WORD "$base\" >&2\n"
    "IFS='\n'\n"
    "for key in $(git \"$@\" config --name-only --get-regexp '^filter\\..*\\.(clean|smudge|process|required)$'); do\n"
    "	case $key in *.required) set -- \"$@\" -c \"$key=false\" ;; *) set -- \"$@\" -c \"$key=\" ;; esac\n"
    "done\n"
    "if [ \"$form\" = bundle ]; then\n"
    "	[ \"$(git \"$@\" rev-list --count \"$base..HEAD\")\" != 0 ] || exit 105\n"
    "	[ \"$(git \"$@\" rev-list --count --full-history \"$base..HEAD\" -- ':(glob)**/.netrc'"
    " ':(glob)**/.git-credentials')\" = 0 ] || exit 106\n"
    "	exec git \"$@\" bundle create -q - \"$base..HEAD\"\n"
    "fi\n"
    "objects=$(git \"$@\" rev-parse --git-path objects) || exit 102\n"
    "case $objects in /*) ;; *) objects=$PWD/$objects ;; esac\n"
    "index=$(git \"$@\" rev-parse --git-path index) || exit 102\n"
    "temp=$(mktemp -d \"${TMPDIR:-/tmp}/muxd-export.XXXXXX\") || exit 104\n"
    "trap 'rm -rf \"$temp\"' EXIT\n"
    "trap 'exit 143' HUP INT TERM\n"
    "mkdir \"$temp/objects\" || exit 104\n"
    "[ ! -f \"$index\" ] || cp \"$index\" \"$temp/index\" || exit 104\n"
    "export GIT_INDEX_FILE=\"$temp/index\" GIT_OBJECT_DIRECTORY=\"$temp/objects\"\n"
    "export GIT_ALTERNATE_OBJECT_DIRECTORIES=\"$objects\"\n"
    "git \"$@\" add -A -- . >&2 || exit 1\n"
    "git \"$@\" diff --cached --binary --full-index --no-renames --no-ext-diff --no-textconv --no-color -U3"
    " --inter-hunk-context=0 --src-prefix=a/ --dst-prefix=b/ \"$base\" -- . ':(exclude,glob)**/.netrc'"
    " ':(exclude,glob)**/.git-credentials'\n";

int git_revision_check(const char *text, struct err *e)
{
	size_t n = strlen(text);

	if (!n || n > GIT_REVISION_MAX || *text == '-')
		return err_set(e, ERR_INVAL, "is no revision of git: 1 to %d bytes, no dash first", GIT_REVISION_MAX);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < 0x21 || text[i] == 0x7f)
			return err_set(e, ERR_INVAL, "is no revision of git: byte %zu is a blank or a control", i + 1);
	return 0;
}

void git_export_argv(const char *revision, const char *path, bool bundle, const char *out[GIT_EXPORT_ARGV])
{
	const char *const argv[GIT_EXPORT_ARGV] = {
	    "/bin/sh", "-c", script, "export", path ? path : ".", revision, bundle ? "bundle" : "patch"};

	memcpy(out, argv, sizeof(argv));
}

/* The line that the script says the commit in. */
static void find_base(const char *said, size_t n, char *base, size_t size)
{
	const char *at = n ? memmem(said, n, BASE_WORD, strlen(BASE_WORD)) : NULL;
	size_t len = 0;

	if (!at)
		return;
	at += strlen(BASE_WORD);
	while (at + len < said + n && len + 1 < size && strchr("0123456789abcdef", at[len]) && at[len])
		len++;
	if (len == 40 || len == 64)
		text_put_bytes(base, size, at, len);
}

void git_last_line(const char *said, size_t n, char *out, size_t size)
{
	const char *from;

	while (n && said[n - 1] == '\n')
		n--;
	from = n ? memrchr(said, '\n', n) : NULL;
	from = from ? from + 1 : said;
	text_put_bytes(out, size, from, n - (size_t)(from - said));
}

static int git_export_ended(int code, const char *said, size_t n, const char *revision, struct err *e)
{
	char line[200];

	git_last_line(said, n, line, sizeof(line));
	switch (code) {
	case EXIT_NO_GIT:
		return err_set(e, ERR_NO_GIT, "there is no git in the sandbox");
	case EXIT_NO_REPOSITORY:
		return err_set(e, ERR_BASE_UNKNOWN, "the directory is no repository of git: %s", line);
	case EXIT_NO_BASE:
		return err_set(e, ERR_BASE_UNKNOWN, "git knows no revision \"%.120s\" there", revision);
	case EXIT_NO_TEMP:
		return err_set(e, ERR_TRANSFER, "there is no room for an index beside the repository's: %s", line);
	case EXIT_NO_COMMITS:
		return err_set(e, ERR_BAD_STATE, "nothing was committed since %.120s: commit first, or ask for a patch",
			       revision);
	case EXIT_CREDENTIALS:
		return err_set(
		    e, ERR_BAD_STATE,
		    "commits since %.120s hold .netrc or .git-credentials: take them out, or ask for a patch",
		    revision);
	default:
		return err_set(e, ERR_TRANSFER, "git ended with code %d: %s", code, line);
	}
}

int git_export_result(const struct session_result *r, const char *said, size_t n, const char *revision, char *base,
		      size_t size, struct err *e)
{
	char found[80] = "";

	if (r->cause == EXIT_TIMEOUT)
		return err_set(e, ERR_TRANSFER_TIMEOUT, "the export passed its timeout");
	if (r->cause != EXIT_EXITED || r->signal)
		return err_set(e, ERR_TRANSFER, "the export was ended: %s",
			       r->message[0] ? r->message : exit_cause_name(r->cause));
	if (r->code)
		return git_export_ended(r->code, said, n, revision, e);
	find_base(said, n, found, sizeof(found));
	if (!found[0])
		return err_set(e, ERR_TRANSFER, "what made the export did not say which commit %.120s is", revision);
	text_put(base, size, found);
	return 0;
}

int git_export_refused(int rc, const struct err *why, struct err *e)
{
	if (rc == ERR_NO_PROGRAM || rc == ERR_NOT_EXECUTABLE || rc == ERR_NO_SHELL)
		return err_set(e, ERR_NO_GIT, "there is no shell in the sandbox that could run git");
	return err_set(e, rc, "%s", why && why->message[0] ? why->message : err_name(rc));
}

/* The rows, and who is shown which. docs/mcp.md lists them. */
#include "muxd/doors/https/mcp/tools.h"
#include "base/text.h"

#include <string.h>

#define MS_MAX INT64_C(31536000000)

/* ---- arguments that many have */

#define TASK                                                                                                           \
	{                                                                                                              \
		"task_id", ARG_TEXT, true, TO_BODY, NULL, "The task that this call is for, as your grant names it.",   \
		    1, 128, NULL                                                                                       \
	}
#define TASK_ONLY                                                                                                      \
	{                                                                                                              \
		"task_id", ARG_TEXT, true, TO_TASK, NULL, "The task that this call is for, as your grant names it.",   \
		    1, 128, NULL                                                                                       \
	}
#define TASK_MAYBE                                                                                                     \
	{                                                                                                              \
		"task_id", ARG_TEXT, false, TO_BODY, NULL, "The task; needed where your grant names none.", 1, 128,    \
		    NULL                                                                                               \
	}
#define TASK_NAME                                                                                                      \
	{                                                                                                              \
		"task_id", ARG_TEXT, true, TO_NAME, NULL, "The task that the artifact belongs to.", 1, 128, NULL       \
	}
#define SESSION                                                                                                        \
	{                                                                                                              \
		"session_id", ARG_TEXT, true, TO_NAME, NULL,                                                           \
		    "Your name for the sandbox: the one that sandbox.session.create was given.", 1, AGENT_NAME_MAX,    \
		    NULL                                                                                               \
	}
#define PATH(what)                                                                                                     \
	{                                                                                                              \
		"path", ARG_TEXT, true, TO_BODY, NULL, what, 1, 4095, NULL                                             \
	}
#define TIMEOUT(what, most)                                                                                            \
	{                                                                                                              \
		"timeout_ms", ARG_INTEGER, false, TO_BODY, NULL, what, 1, most, NULL                                   \
	}
#define CWD                                                                                                            \
	{                                                                                                              \
		"cwd", ARG_TEXT, false, TO_BODY, NULL, "The directory to run in; /workspace where none is said.", 1,   \
		    4095, NULL                                                                                         \
	}
#define ENV                                                                                                            \
	{                                                                                                              \
		"env", ARG_TEXT_MAP, false, TO_BODY, NULL, "Variables of the environment. No secrets: they are kept.", \
		    0, 0, NULL                                                                                         \
	}
#define ENCODING                                                                                                       \
	{                                                                                                              \
		"encoding", ARG_TEXT, false, TO_BODY, NULL, "How the content is written; utf-8 where none is said.",   \
		    0, 0, "utf-8,base64"                                                                               \
	}
#define ROUND                                                                                                          \
	{                                                                                                              \
		"round_id", ARG_TEXT, true, TO_NAME, NULL, "The round, as the tool that began it named it.", 36, 36,   \
		    NULL                                                                                               \
	}
#define CONTEXT                                                                                                        \
	{                                                                                                              \
		"context_id", ARG_TEXT, true, TO_NAME, NULL, "As sandbox.context.create named it.", 36, 36, NULL       \
	}

static const struct mcp_arg create_args[] = {
    TASK_ONLY,
    SESSION,
    {"image_ref", ARG_TEXT, false, TO_BODY, "image",
     "The image of its next start, by its name in the daemon's configuration; without it that stays as it is.", 1, 128,
     NULL},
    {"workspace_ref", ARG_TEXT, false, TO_BODY, "workspace",
     "What the workspace begins with, where the sandbox is not there yet: \"snapshot:ID\" of another sandbox that your "
     "grant reaches; \"artifact:TASK/NAME\", a tar archive among the artifacts; \"bundle:TASK/NAME\" or "
     "\"bundle:TASK/NAME#REF\", a bundle of git there, its HEAD or that branch or commit checked out. Without it a new "
     "one is empty, and one that is there goes on with the workspace that it has.",
     1, 600, NULL},
    {"constraints", ARG_OBJECT, false, TO_ALL,
     "idle_ttl,ttl,timeout_ms,workdir,env,labels,resources,app_id,cluster,namespace,exec_timeout_ms,"
     "transfer_timeout_ms",
     "idle_ttl and ttl (durations as \"90s\", \"1h30m\"; \"0s\" for none), timeout_ms (of this call), workdir and env "
     "of its programs where a call names none, labels, resources ({\"cpu\": \"500m\", \"memory\": \"512Mi\", "
     "\"pids\": 200}; more than is configured is clipped), app_id (the app that it belongs to, a DNS label), cluster "
     "and "
     "namespace (where it is to be; a place that the daemon does not serve is refused), exec_timeout_ms and "
     "transfer_timeout_ms (of its rounds and transfers of files that name none; more than is configured is clipped). "
     "Any other is refused by name.",
     0, 0, NULL},
};
static const struct mcp_arg exec_args[] = {
    TASK,
    SESSION,
    {"argv", ARG_TEXTS, true, TO_BODY, NULL,
     "The program and its arguments, as they are. For a shell: [\"sh\", \"-c\", \"...\"].", 1, 4096, NULL},
    TIMEOUT("Past it the whole process tree is killed; what it printed is still returned.", MS_MAX),
    CWD,
    ENV,
    {"exec_id", ARG_TEXT, false, TO_NOWHERE, NULL,
     "A name of your own for this run. The same name with the same arguments runs nothing twice.", 1, 128, NULL},
};
static const struct mcp_arg end_args[] = {
    TASK_ONLY,
    SESSION,
    {"reason", ARG_TEXT, true, TO_BODY, NULL, "Why; it is audited.", 1, 256, NULL},
};
static const struct mcp_arg read_args[] = {
    TASK,
    SESSION,
    PATH("A file in the workspace; relative paths begin in /workspace."),
    {"from_line", ARG_INTEGER, false, TO_BODY, NULL, "The first line, counted from 1.", 1, INT64_C(1) << 60, NULL},
    {"to_line", ARG_INTEGER, false, TO_BODY, NULL, "The last line.", 1, INT64_C(1) << 60, NULL},
    {"offset", ARG_INTEGER, false, TO_BODY, NULL, "In place of lines: the first byte; below 0 from the end.",
     -(INT64_C(1) << 60), INT64_C(1) << 60, NULL},
    {"length", ARG_INTEGER, false, TO_BODY, NULL, "How many bytes.", 0, 1048576, NULL},
};
static const struct mcp_arg write_args[] = {
    TASK,
    SESSION,
    PATH("The file. Missing directories are made."),
    {"content", ARG_TEXT, true, TO_BODY, "data", "All of it.", 0, 0, NULL},
    ENCODING,
    {"mode", ARG_TEXT, false, TO_BODY, NULL, "Permissions in octal, as 0644.", 1, 4, NULL},
    {"if_match", ARG_TEXT, false, TO_BODY, NULL, "The SHA-256 that the file has to have now: else it is left as it is.",
     64, 64, NULL},
};
static const struct mcp_arg patch_args[] = {
    TASK,
    SESSION,
    {"patch", ARG_TEXT, true, TO_BODY, "data",
     "A unified diff, or a patch between *** Begin Patch and *** End Patch. All of it is applied, or nothing.", 1, 0,
     NULL},
    {"path", ARG_TEXT, false, TO_BODY, NULL, "The directory that its names are in; /workspace where none is said.", 1,
     4095, NULL},
    {"dry_run", ARG_BOOL, false, TO_BODY, NULL, "Say what it would do, and change nothing.", 0, 0, NULL},
};
static const struct mcp_arg list_args[] = {
    TASK,
    SESSION,
    {"path", ARG_TEXT, false, TO_BODY, NULL, "A directory; /workspace where none is said.", 1, 4095, NULL},
    {"depth", ARG_INTEGER, false, TO_BODY, NULL, "How deep; 1 is the directory's own names.", 1, 256, NULL},
    {"limit", ARG_INTEGER, false, TO_BODY, NULL, "How many names at most.", 1, 10000, NULL},
    {"cursor", ARG_TEXT, false, TO_BODY, NULL, "The cursor of the page before.", 1, 4095, NULL},
    {"gitignore", ARG_BOOL, false, TO_BODY, NULL, "Leave out what .gitignore names.", 0, 0, NULL},
};
static const struct mcp_arg search_args[] = {
    TASK,
    SESSION,
    {"pattern", ARG_TEXT, true, TO_BODY, NULL, "The text to look for.", 1, 4096, NULL},
    {"path", ARG_TEXT, false, TO_BODY, NULL, "Where; /workspace where none is said.", 1, 4095, NULL},
    {"regex", ARG_BOOL, false, TO_BODY, NULL, "The pattern is a regular expression.", 0, 0, NULL},
    {"ignore_case", ARG_BOOL, false, TO_BODY, NULL, "Capital and small letters are the same.", 0, 0, NULL},
    {"context", ARG_INTEGER, false, TO_BODY, NULL, "Lines around each match.", 0, 20, NULL},
    {"limit", ARG_INTEGER, false, TO_BODY, NULL, "How many matches at most.", 1, 10000, NULL},
    {"gitignore", ARG_BOOL, false, TO_BODY, NULL, "Leave out what .gitignore names.", 0, 0, NULL},
};
static const struct mcp_arg stat_args[] = {
    TASK,
    SESSION,
    PATH("A file, a directory or a link."),
    {"follow", ARG_BOOL, false, TO_BODY, NULL, "Of what a link leads to.", 0, 0, NULL},
    {"sha256", ARG_BOOL, false, TO_BODY, NULL, "With the SHA-256 of a file's content.", 0, 0, NULL},
};
static const struct mcp_arg glob_args[] = {
    TASK,
    SESSION,
    {"pattern", ARG_TEXT, true, TO_BODY, NULL, "As **/*.c: ** stands for any number of directories.", 1, 4096, NULL},
    {"path", ARG_TEXT, false, TO_BODY, NULL, "Where; /workspace where none is said.", 1, 4095, NULL},
    {"limit", ARG_INTEGER, false, TO_BODY, NULL, "How many names at most.", 1, 10000, NULL},
    {"cursor", ARG_TEXT, false, TO_BODY, NULL, "The cursor of the page before.", 1, 4095, NULL},
    {"gitignore", ARG_BOOL, false, TO_BODY, NULL, "Leave out what .gitignore names.", 0, 0, NULL},
};
static const struct mcp_arg mkdir_args[] = {
    TASK,
    SESSION,
    PATH("The directory. Missing ones above it are made."),
};
#define TO_PATH(what)                                                                                                  \
	{                                                                                                              \
		"to", ARG_TEXT, true, TO_BODY, NULL, what, 1, 4095, NULL                                               \
	}
static const struct mcp_arg move_args[] = {
    TASK,
    SESSION,
    PATH("What is moved: a file, a directory or a link."),
    TO_PATH("Its new path. Missing directories are made."),
    {"overwrite", ARG_BOOL, false, TO_BODY, NULL, "In place of what is there.", 0, 0, NULL},
    {"if_match", ARG_TEXT, false, TO_BODY, NULL, "The SHA-256 that the file has to have now: else it is left as it is.",
     64, 64, NULL},
};
static const struct mcp_arg copy_args[] = {
    TASK,
    SESSION,
    PATH("What is copied."),
    TO_PATH("The path of the copy. Missing directories are made."),
    {"overwrite", ARG_BOOL, false, TO_BODY, NULL, "In place of what is there.", 0, 0, NULL},
    {"recursive", ARG_BOOL, false, TO_BODY, NULL, "A directory with all that is in it.", 0, 0, NULL},
};
static const struct mcp_arg delete_args[] = {
    TASK,
    SESSION,
    PATH("What is deleted."),
    {"recursive", ARG_BOOL, false, TO_BODY, NULL, "A directory with all that is in it.", 0, 0, NULL},
    {"if_match", ARG_TEXT, false, TO_BODY, NULL, "The SHA-256 that the file has to have now: else it is left as it is.",
     64, 64, NULL},
};
static const struct mcp_arg lock_take_args[] = {
    TASK,
    SESSION,
    PATH("A file or a directory, with all that is in it."),
    {"label", ARG_TEXT, false, TO_BODY, NULL, "What for, for those who meet it.", 1, 128, NULL},
    {"ttl_ms", ARG_INTEGER, false, TO_BODY, NULL, "How long; five minutes where nothing is said.", 1000, 86400000,
     NULL},
};
#define LOCK                                                                                                           \
	{                                                                                                              \
		"lock_id", ARG_TEXT, true, TO_NAME, NULL, "As sandbox.lock.take named it.", 36, 36, NULL               \
	}
static const struct mcp_arg lock_renew_args[] = {
    TASK,
    SESSION,
    LOCK,
    {"ttl_ms", ARG_INTEGER, false, TO_BODY, NULL, "How long from now on; five minutes where nothing is said.", 1000,
     86400000, NULL},
};
#define TASK_QUERY                                                                                                     \
	{                                                                                                              \
		"task_id", ARG_TEXT, true, TO_QUERY, NULL, "The task that this call is for, as your grant names it.",  \
		    1, 128, NULL                                                                                       \
	}
static const struct mcp_arg lock_release_args[] = {TASK_QUERY, SESSION, LOCK};
static const struct mcp_arg session_args[] = {TASK_ONLY, SESSION}; /* of a sandbox, and nothing else */
static const struct mcp_arg sessions_args[] = {
    TASK_ONLY,
    {"prefix", ARG_TEXT, false, TO_QUERY, NULL, "Those whose names begin so.", 1, AGENT_NAME_MAX, NULL},
    {"app_id", ARG_TEXT, false, TO_QUERY, NULL, "Those of that app.", 1, DNS_LABEL_MAX, NULL},
    {"after", ARG_TEXT, false, TO_QUERY, NULL, "The last name of the page before.", 1, AGENT_NAME_MAX, NULL},
    {"limit", ARG_INTEGER, false, TO_QUERY, NULL, "How many at most.", 1, 1000, NULL},
};
static const struct mcp_arg restore_args[] = {
    TASK_ONLY,
    SESSION,
    {"snapshot_id", ARG_TEXT, true, TO_BODY, NULL, "The snapshot, as sandbox.session.snapshots lists it.", 36, 36,
     NULL},
    {"reason", ARG_TEXT, true, TO_BODY, NULL, "Why; it is audited.", 1, 256, NULL},
};
static const struct mcp_arg shell_end_args[] = {
    TASK_QUERY,
    SESSION,
    {"shell", ARG_TEXT, true, TO_NAME, NULL, "Its name, as sandbox.round.start was given it.", 1, 64, NULL},
};
static const struct mcp_arg service_args[] = {
    TASK_ONLY,
    SESSION,
    {"service", ARG_TEXT, true, TO_NAME, NULL, "Its name, as sandbox.service.list has it.", 1, 64, NULL},
};
static const struct mcp_arg artifact_delete_args[] = {
    TASK_NAME,
    {"name", ARG_TEXT, true, TO_NAME, NULL, "The artifact's name.", 1, 255, NULL},
};
static const struct mcp_arg rounds_args[] = {
    TASK_ONLY,
    {"session_id", ARG_TEXT, true, TO_QUERY, "agent", "Your name for the sandbox.", 1, AGENT_NAME_MAX, NULL},
    {"live", ARG_TEXT, false, TO_QUERY, NULL, "Only those that run, or only those that have ended.", 0, 0,
     "true,false"},
    {"limit", ARG_INTEGER, false, TO_QUERY, NULL, "How many at most, the newest first.", 1, 1000, NULL},
};
static const struct mcp_arg terminal_resize_args[] = {
    TASK_ONLY,
    ROUND,
    {"cols", ARG_INTEGER, true, TO_BODY, NULL, "Columns.", 1, 1000, NULL},
    {"rows", ARG_INTEGER, true, TO_BODY, NULL, "Rows.", 1, 1000, NULL},
};
static const struct mcp_arg servers_request_args[] = {
    TASK,
    SESSION,
    {"server", ARG_TEXT, true, TO_BODY, NULL, "The server's name, as sandbox.mcp.list has it.", 1, 64, NULL},
    {"method", ARG_TEXT, true, TO_BODY, NULL, "As tools/list or tools/call.", 1, 128, NULL},
    {"params", ARG_OBJECT, false, TO_BODY, NULL, "As the method wants them: of tools/call {name, arguments}.", 0, 0,
     NULL},
    TIMEOUT("Past it the request is cancelled; a minute where nothing is said.", 3600000),
    {"exec_id", ARG_TEXT, false, TO_BODY, NULL, "A name of your own for this request: a repeat is done once.", 1, 128,
     NULL},
};
static const struct mcp_arg artifact_put_args[] = {
    TASK_NAME,
    {"name", ARG_TEXT, true, TO_NAME, NULL, "The artifact's name.", 1, 255, NULL},
    {"content", ARG_TEXT, true, TO_BYTES, NULL, "All of it.", 0, 0, NULL},
    {"encoding", ARG_TEXT, false, TO_ENCODING, NULL, "How the content is written; utf-8 where none is said.", 0, 0,
     "utf-8,base64"},
    {"media_type", ARG_TEXT, false, TO_QUERY, NULL, "As text/markdown.", 1, 128, NULL},
    {"create_only", ARG_BOOL, false, TO_NOWHERE, NULL, "Refuse where the name is taken.", 0, 0, NULL},
};
static const struct mcp_arg artifact_keep_args[] = {
    TASK_NAME,
    {"name", ARG_TEXT, true, TO_BODY, NULL, "The artifact's name.", 1, 255, NULL},
    {"session_id", ARG_TEXT, false, TO_BODY, "agent", "The sandbox that has it.", 1, AGENT_NAME_MAX, NULL},
    {"path", ARG_TEXT, false, TO_BODY, NULL, "A file there.", 1, 4095, NULL},
    {"changes", ARG_OBJECT, false, TO_BODY, NULL,
     "In place of a file what changed there: {\"git\": REVISION} (with form patch or bundle) or {\"snapshot\": ID}.", 0,
     0, NULL},
    {"round_id", ARG_TEXT, false, TO_BODY, "round", "In place of a sandbox: a round, whose output it is.", 36, 36,
     NULL},
    {"stream", ARG_TEXT, false, TO_BODY, NULL, "Of a round.", 0, 0, "stdout,stderr"},
    {"max_bytes", ARG_INTEGER, false, TO_BODY, NULL, "Refuse what is larger.", 1, INT64_MAX, NULL},
    {"create_only", ARG_BOOL, false, TO_BODY, NULL, "Refuse where the name is taken.", 0, 0, NULL},
};
static const struct mcp_arg artifact_get_args[] = {
    TASK_NAME,
    {"name", ARG_TEXT, true, TO_NAME, NULL, "The artifact's name.", 1, 255, NULL},
    {"offset", ARG_INTEGER, false, TO_RANGE, NULL, "The first byte.", 0, INT64_C(1) << 60, NULL},
    {"length", ARG_INTEGER, false, TO_RANGE, NULL, "How many bytes; at most 1 MiB at once.", 1, 1048576, NULL},
};
static const struct mcp_arg artifact_list_args[] = {
    TASK_NAME,
    {"after", ARG_TEXT, false, TO_QUERY, NULL, "The last name of the page before.", 1, 128, NULL},
    {"limit", ARG_INTEGER, false, TO_QUERY, NULL, "How many at most.", 1, 1000, NULL},
};
static const struct mcp_arg python_args[] = {
    SESSION,
    {"code", ARG_TEXT, true, TO_BODY, NULL, "Python. Print what you want to see.", 1, 0, NULL},
    TIMEOUT("30 s where none is said, 120 s at the most.", 120000),
    CWD,
    ENV,
    TASK_MAYBE,
};
static const struct mcp_arg create_file_args[] = {
    SESSION,
    PATH("The file, which must not be there yet. Missing directories are made."),
    {"content", ARG_TEXT, true, TO_BODY, "data", "All of it.", 0, 0, NULL},
    ENCODING,
    TASK_MAYBE,
};
static const struct mcp_arg round_start_args[] = {
    TASK,
    SESSION,
    {"argv", ARG_TEXTS, false, TO_BODY, NULL, "The program and its arguments. Or:", 1, 4096, NULL},
    {"command", ARG_TEXT, false, TO_BODY, NULL, "a line for the shell. Exactly one of both.", 1, 0, NULL},
    {"shell", ARG_TEXT, false, TO_BODY, NULL, "A name: the command goes on where the last one in it stopped.", 1, 64,
     NULL},
    {"stdin_open", ARG_BOOL, false, TO_BODY, NULL, "Input follows by sandbox.round.stdin.", 0, 0, NULL},
    TIMEOUT("Past it the whole process tree is killed.", MS_MAX),
    CWD,
    ENV,
    {"exec_id", ARG_TEXT, false, TO_NOWHERE, NULL,
     "A name of your own for this run. The same name with the same arguments runs nothing twice.", 1, 128, NULL},
};
static const struct mcp_arg round_show_args[] = {
    TASK_ONLY,
    ROUND,
    {"wait_ms", ARG_INTEGER, false, TO_QUERY, NULL, "How long to wait for its end.", 0, 60000, NULL},
};
static const struct mcp_arg round_output_args[] = {
    TASK_ONLY,
    ROUND,
    {"stream", ARG_TEXT, false, TO_QUERY, NULL, "stdout where none is said.", 0, 0, "stdout,stderr"},
    {"offset", ARG_INTEGER, false, TO_QUERY, NULL, "The first byte.", 0, INT64_C(1) << 60, NULL},
    {"limit", ARG_INTEGER, false, TO_QUERY, NULL, "How many bytes.", 1, 1048576, NULL},
    {"tail", ARG_INTEGER, false, TO_QUERY, NULL, "In place of an offset: so many bytes before the end.", 1, 1048576,
     NULL},
    {"grep", ARG_TEXT, false, TO_QUERY, NULL, "In place of bytes: the lines with this text.", 1, 128, NULL},
};
static const struct mcp_arg round_stdin_args[] = {
    TASK_ONLY,
    ROUND,
    {"data", ARG_TEXT, false, TO_BODY, NULL, "What is typed.", 0, 0, NULL},
    ENCODING,
    {"eof", ARG_BOOL, false, TO_BODY, NULL, "No more follows.", 0, 0, NULL},
};
static const struct mcp_arg round_signal_args[] = {
    TASK_ONLY,
    ROUND,
    {"signal", ARG_TEXT, true, TO_BODY, NULL, "As INT, TERM, KILL.", 1, 16, NULL},
};
static const struct mcp_arg round_end_args[] = {
    TASK_ONLY,
    ROUND,
    {"reason", ARG_TEXT, true, TO_BODY, NULL, "Why; it is audited.", 1, 256, NULL},
};
static const struct mcp_arg context_create_args[] = {
    TASK, SESSION, {"language", ARG_TEXT, true, TO_BODY, NULL, "The interpreter.", 0, 0, "python,javascript,bash"},
    CWD,  ENV,
};

static const struct mcp_arg context_execute_args[] = {
    TASK,
    SESSION,
    CONTEXT,
    {"code", ARG_TEXT, true, TO_BODY, NULL, "It finds the variables of what ran before.", 1, 0, NULL},
    TIMEOUT("Past it the execution is interrupted.", MS_MAX),
};
static const struct mcp_arg context_args[] = {TASK, SESSION, CONTEXT};
static const struct mcp_arg context_delete_args[] = {TASK_QUERY, SESSION, CONTEXT};
static const struct mcp_arg terminal_start_args[] = {
    TASK,
    SESSION,
    {"argv", ARG_TEXTS, false, TO_BODY, NULL, "The program and its arguments. Or:", 1, 4096, NULL},
    {"command", ARG_TEXT, false, TO_BODY, NULL, "a line for the shell.", 1, 0, NULL},
    TIMEOUT("Past it the whole process tree is killed.", MS_MAX),
    CWD,
    ENV,
};
static const struct mcp_arg terminal_keys_args[] = {
    TASK_ONLY,
    ROUND,
    {"keys", ARG_TEXTS, true, TO_BODY, NULL,
     "Keys by name (Enter, Up, F5, C-c, M-x), single characters, or text:ANYTHING as it is.", 1, 1024, NULL},
};
static const struct mcp_arg terminal_screen_args[] = {
    TASK_ONLY,
    ROUND,
    {"wait_ms", ARG_INTEGER, false, TO_QUERY, NULL, "Wait so long at most until it has come to a rest.", 0, 60000,
     NULL},
    {"after", ARG_INTEGER, false, TO_QUERY, NULL, "With wait_ms: until its output is past this offset.", 0,
     INT64_C(1) << 60, NULL},
};
static const struct mcp_arg snapshot_args[] = {
    TASK_ONLY,
    SESSION,
    {"reason", ARG_TEXT, false, TO_BODY, NULL, "Why; it is audited.", 1, 256, NULL},
};
static const struct mcp_arg fork_args[] = {
    TASK_ONLY,
    SESSION,
    {"as", ARG_TEXT, false, TO_BODY, NULL, "The name of the copy.", 1, AGENT_NAME_MAX, NULL},
    {"snapshot_id", ARG_TEXT, false, TO_BODY, NULL, "The snapshot that it begins with; the newest of none is said.", 36,
     36, NULL},
    {"writable", ARG_BOOL, false, TO_BODY, NULL, "It may be written to.", 0, 0, NULL},
    {"reason", ARG_TEXT, false, TO_BODY, NULL, "Why; it is audited.", 1, 256, NULL},
};

/* ---- what comes back */

#define OBJECT(members, required) "{\"type\":\"object\",\"properties\":{" members "},\"required\":[" required "]}"
#define S                         "{\"type\":\"string\"}"
#define I                         "{\"type\":\"integer\"}"
#define B                         "{\"type\":\"boolean\"}"
#define N                         "{\"type\":[\"string\",\"null\"]}"
#define NI                        "{\"type\":[\"integer\",\"null\"]}"
#define A                         "{\"type\":\"array\"}"
#define O                         "{\"type\":\"object\"}"
static const char out_any[] = OBJECT("", "");
static const char out_ports[] = OBJECT("\"session_id\":" S ",\"state\":" S ",\"ports\":" A, "\"session_id\",\"ports\"");
static const char out_sandbox[] =
    OBJECT("\"agent\":" S ",\"state\":" S ",\"reference\":{\"type\":\"object\"}", "\"agent\",\"state\"");
static const char out_round[] =
    OBJECT("\"round_id\":" S ",\"state\":" S ",\"exit_code\":" NI ",\"signal\":" N ",\"cause\":" N ",\"timed_out\":" B
	   ",\"stdout\":" S ",\"stderr\":" S ",\"stdout_truncated\":" B ",\"stderr_truncated\":" B
	   ",\"stdout_bytes\":" I ",\"stderr_bytes\":" I ",\"duration_ms\":" I ",\"message\":" S,
	   "\"round_id\",\"state\",\"exit_code\",\"stdout\",\"stderr\",\"stdout_truncated\",\"stderr_truncated\"");
static const char out_execution[] =
    OBJECT("\"execution_id\":" S ",\"state\":" S ",\"cause\":" N ",\"exit_code\":" NI ",\"stdout\":" S ",\"stderr\":" S
	   ",\"stdout_truncated\":" B ",\"stderr_truncated\":" B ",\"stdout_bytes\":" I ",\"stderr_bytes\":" I
	   ",\"results\":" A ",\"error\":{\"type\":[\"object\",\"null\"]},\"duration_ms\":" I,
	   "\"execution_id\",\"state\",\"stdout\",\"stderr\",\"stdout_truncated\",\"stderr_truncated\"");
static const char out_bytes[] =
    OBJECT("\"data\":" S ",\"encoding\":" S ",\"bytes\":" I ",\"total_bytes\":" I ",\"truncated\":" B ",\"sha256\":" S,
	   "\"data\",\"encoding\",\"bytes\",\"truncated\"");
static const char out_screen[] =
    OBJECT("\"text\":" S ",\"offset\":" I ",\"size\":" S ",\"cursor\":" S, "\"text\",\"offset\"");

/* ---- the rows */

#define ARGS(a)   (a), sizeof(a) / sizeof((a)[0])
#define AGENT     "/v1/agents/{agent}"
#define BOUND     "\"limits\":{\"head_bytes\":65536,\"tail_bytes\":65536}"
#define LIFE      (SCOPE_LIFECYCLE | SCOPE_ADMIN)
#define TYPES     (SCOPE_ROUNDS | SCOPE_TERMINAL)
#define SEES      (SCOPE_ROUNDS | SCOPE_OBSERVE | SCOPE_REPLAY)
#define ACTS      (SCOPE_ROUNDS | SCOPE_DRIVE)
#define SAME      TOOL_IDEMPOTENT
#define READS     (TOOL_READS | TOOL_IDEMPOTENT)
#define RUNS      (TOOL_DESTROYS | TOOL_ROUND | TOOL_EXEC_ID)
#define RUNS_CODE (TOOL_DESTROYS | TOOL_EXECUTION | TOOL_EXEC_ID)

static const struct mcp_tool tools[] = {
    {"sandbox.session.create", "Make or wake a sandbox",
     "Makes the sandbox session_id, or finds or wakes it: the same call again gives the same sandbox. Call this first. "
     "The workspace is /workspace and outlives the sandbox.",
     TYPES | LIFE, 0, SAME, HTTP_POST, AGENT "/resume", NULL, ARGS(create_args), out_sandbox, NULL},
    {"sandbox.session.exec", "Run a program",
     "Runs a program and waits for its end: exit code, stdout and stderr (64 KiB of the beginning and of the end of "
     "each; sandbox.round.output has the rest). Its process tree is killed when the call is cancelled.",
     0, SCOPE_ROUNDS, RUNS, HTTP_POST, AGENT "/rounds", "{\"wait_ms\":0," BOUND "}", ARGS(exec_args), out_round,
     mcp_tell_round},
    {"sandbox.session.end", "End a sandbox",
     "Ends what runs, keeps a snapshot of the workspace, and stops the sandbox. sandbox.session.create wakes it again.",
     LIFE, 0, TOOL_DESTROYS | SAME, HTTP_POST, AGENT "/terminate", NULL, ARGS(end_args), out_any, NULL},
    {"sandbox.session.snapshot", "Keep a copy of the workspace", "Takes a snapshot of the workspace as it is now.",
     LIFE, 0, 0, HTTP_POST, AGENT "/snapshots", NULL, ARGS(snapshot_args), out_any, NULL},
    {"sandbox.session.fork", "Copy a sandbox", "Makes a new sandbox whose workspace begins with a snapshot.", LIFE, 0,
     0, HTTP_POST, AGENT "/fork", NULL, ARGS(fork_args), out_any, NULL},
    {"sandbox.session.show", "Look at a sandbox", "Its state, its snapshot, its services' ports, and what is enforced.",
     0, 0, READS, HTTP_GET, AGENT, NULL, ARGS(session_args), out_sandbox, NULL},
    {"sandbox.session.list", "List sandboxes", "Those that your grant is for, by name.", 0, 0, READS, HTTP_GET,
     "/v1/agents", NULL, ARGS(sessions_args), out_any, NULL},
    {"sandbox.session.snapshots", "List snapshots", "The snapshots of a workspace, the newest first.", 0, 0, READS,
     HTTP_GET, AGENT "/snapshots", NULL, ARGS(session_args), out_any, NULL},
    {"sandbox.session.restore", "Put a workspace back",
     "The workspace is as it was in a snapshot of its own. What runs is ended, and what there is now is kept in a "
     "snapshot.",
     LIFE, 0, TOOL_DESTROYS, HTTP_POST, AGENT "/restore", NULL, ARGS(restore_args), out_any, NULL},
    {"sandbox.port.list", "List ports",
     "The ports of a sandbox's services, each with the fields of a request that the daemon sends on to it: any method "
     "and path at the root of this server's address, with your grant.",
     0, SCOPE_PORTS, READS, HTTP_GET, AGENT, NULL, ARGS(session_args), out_ports, mcp_tell_ports},
    {"sandbox.service.list", "List services",
     "The programs that run as long as the sandbox is awake, and their health.", SCOPE_ROUNDS | LIFE, 0, READS,
     HTTP_GET, AGENT "/services", NULL, ARGS(session_args), out_any, NULL},
    {"sandbox.service.log", "Read a service's log", "The end of what it printed.", SCOPE_OBSERVE | LIFE, 0, READS,
     HTTP_GET, AGENT "/services/{service}/log", NULL, ARGS(service_args), out_any, NULL},
    {"sandbox.service.restart", "Begin a service anew", "It is ended and begun again.", LIFE, 0, TOOL_DESTROYS,
     HTTP_POST, AGENT "/services/{service}/restart", NULL, ARGS(service_args), out_any, NULL},
    {"sandbox.mcp.list", "List MCP servers inside", "The sandbox's own MCP servers, and the state of each.",
     SCOPE_ROUNDS | LIFE, 0, READS, HTTP_GET, AGENT "/mcp/servers", NULL, ARGS(session_args), out_any, NULL},
    {"sandbox.mcp.request", "Ask an MCP server inside",
     "One request to an MCP server in the sandbox: tools/list, tools/call, and what else it has.", 0, SCOPE_ROUNDS,
     TOOL_DESTROYS, HTTP_POST, AGENT "/mcp/request", NULL, ARGS(servers_request_args), out_any, NULL},
    {"sandbox.workspace.read_file", "Read a file", "Reads a file, all of it or by lines or bytes, 1 MiB at most.", 0,
     SCOPE_FILES, READS, HTTP_POST, AGENT "/fs/read", NULL, ARGS(read_args), out_any, NULL},
    {"sandbox.workspace.write_file", "Write a file", "Writes a whole file, in place of what was there.", 0, SCOPE_FILES,
     TOOL_DESTROYS | SAME, HTTP_POST, AGENT "/fs/write", "{\"parents\":true}", ARGS(write_args), out_any, NULL},
    {"sandbox.workspace.apply_patch", "Edit files by a patch",
     "Applies a patch to files of the workspace, all of it or nothing. Read the files first.", 0, SCOPE_FILES,
     TOOL_DESTROYS, HTTP_POST, AGENT "/fs/patch", "{\"path\":\".\"}", ARGS(patch_args), out_any, NULL},
    {"sandbox.workspace.list", "List a directory", "The names in a directory, with type, size and time.", 0,
     SCOPE_FILES, READS, HTTP_POST, AGENT "/fs/list", "{\"path\":\".\"}", ARGS(list_args), out_any, NULL},
    {"sandbox.workspace.search", "Search in files", "The lines that have a text, in all files below a directory.", 0,
     SCOPE_FILES, READS, HTTP_POST, AGENT "/fs/search", "{\"path\":\".\"}", ARGS(search_args), out_any, NULL},
    {"sandbox.workspace.stat", "Look at a name", "Type, size, mode and time of a file, and its SHA-256.", 0,
     SCOPE_FILES, READS, HTTP_POST, AGENT "/fs/stat", NULL, ARGS(stat_args), out_any, NULL},
    {"sandbox.workspace.glob", "Find files by name", "The names below a directory that fit a pattern.", 0, SCOPE_FILES,
     READS, HTTP_POST, AGENT "/fs/glob", "{\"path\":\".\"}", ARGS(glob_args), out_any, NULL},
    {"sandbox.workspace.mkdir", "Make a directory", "Makes a directory.", 0, SCOPE_FILES, 0, HTTP_POST,
     AGENT "/fs/mkdir", "{\"parents\":true}", ARGS(mkdir_args), out_any, NULL},
    {"sandbox.workspace.move", "Move or rename", "Gives a file or a directory another path.", 0, SCOPE_FILES,
     TOOL_DESTROYS, HTTP_POST, AGENT "/fs/move", "{\"parents\":true}", ARGS(move_args), out_any, NULL},
    {"sandbox.workspace.copy", "Copy", "Copies a file, or a directory.", 0, SCOPE_FILES, TOOL_DESTROYS, HTTP_POST,
     AGENT "/fs/copy", "{\"parents\":true}", ARGS(copy_args), out_any, NULL},
    {"sandbox.workspace.delete", "Delete", "Deletes a file, or a directory.", 0, SCOPE_FILES, TOOL_DESTROYS, HTTP_POST,
     AGENT "/fs/delete", NULL, ARGS(delete_args), out_any, NULL},
    {"sandbox.lock.take", "Lock a path",
     "Tells the other agents of a sandbox that you work on a file or a directory. Whoever has it already is named.", 0,
     SCOPE_FILES, 0, HTTP_POST, AGENT "/locks", NULL, ARGS(lock_take_args), out_any, NULL},
    {"sandbox.lock.renew", "Keep a lock", "It lasts longer.", 0, SCOPE_FILES, SAME, HTTP_POST, AGENT "/locks/{id}",
     NULL, ARGS(lock_renew_args), out_any, NULL},
    {"sandbox.lock.release", "Release a lock", "Others may work there.", 0, SCOPE_FILES, SAME, HTTP_DELETE,
     AGENT "/locks/{id}", NULL, ARGS(lock_release_args), out_any, NULL},
    {"sandbox.lock.list", "List locks", "Who works on what in a sandbox.", 0, SCOPE_FILES, READS, HTTP_GET,
     AGENT "/locks", NULL, ARGS(session_args), out_any, NULL},
    {"artifact.put", "Keep bytes as an artifact",
     "Keeps content under a name of the task. It outlives the sandbox. For a file in a sandbox: artifact.keep.", 0,
     SCOPE_FILES, TOOL_DESTROYS | SAME | TOOL_NEW_ONLY, HTTP_PUT, "/v1/tasks/{task}/artifacts/{name}", NULL,
     ARGS(artifact_put_args), out_any, NULL},
    {"artifact.keep", "Keep a file, changes or output as an artifact",
     "Keeps a file of a sandbox, its changes since a revision or a snapshot, or a round's whole output.", 0,
     SCOPE_FILES, TOOL_DESTROYS | SAME, HTTP_POST, "/v1/tasks/{task}/artifacts", NULL, ARGS(artifact_keep_args),
     out_any, NULL},
    {"artifact.get", "Read an artifact", "The content of an artifact, 1 MiB at once; the rest by offset.", 0,
     SCOPE_FILES, READS | TOOL_BYTES, HTTP_GET, "/v1/tasks/{task}/artifacts/{name}", NULL, ARGS(artifact_get_args),
     out_bytes, NULL},
    {"artifact.list", "List artifacts", "The artifacts of a task.", 0, SCOPE_FILES, READS, HTTP_GET,
     "/v1/tasks/{task}/artifacts", NULL, ARGS(artifact_list_args), out_any, NULL},
    {"artifact.delete", "Delete an artifact", "The name is free again.", 0, SCOPE_FILES, TOOL_DESTROYS, HTTP_DELETE,
     "/v1/tasks/{task}/artifacts/{name}", NULL, ARGS(artifact_delete_args), out_any, NULL},
    {"python_exec", "Run Python", "Runs Python code once, with nothing left over from calls before.", 0, SCOPE_ROUNDS,
     RUNS_CODE, HTTP_POST, AGENT "/python", "{\"yield_ms\":0}", ARGS(python_args), out_execution, mcp_tell_execution},
    {"create_file", "Make a file", "Writes a file that is not there yet.", 0, SCOPE_FILES, 0, HTTP_POST,
     AGENT "/fs/write", "{\"create_only\":true,\"parents\":true}", ARGS(create_file_args), out_any, NULL},
    {"sandbox.round.start", "Begin a program in the background",
     "Begins a program and answers at once: sandbox.round.show and sandbox.round.output follow it.", 0, SCOPE_ROUNDS,
     TOOL_DESTROYS | TOOL_EXEC_ID, HTTP_POST, AGENT "/rounds", "{\"wait_ms\":0," BOUND "}", ARGS(round_start_args),
     out_round, mcp_tell_round},
    {"sandbox.round.list", "List rounds",
     "What you ran and run in a sandbox, with ids: sandbox.round.show and sandbox.round.output have the rest.", 0, 0,
     READS, HTTP_GET, "/v1/sessions", NULL, ARGS(rounds_args), out_any, NULL},
    {"sandbox.round.show", "Look at a round", "The state of a round, its exit code and its output so far.", SEES, 0,
     READS, HTTP_GET, "/v1/rounds/{id}", NULL, ARGS(round_show_args), out_round, mcp_tell_round},
    {"sandbox.round.output", "Read a round's output", "Its whole output, by ranges, from its end, or lines by text.",
     SEES, 0, READS, HTTP_GET, "/v1/rounds/{id}/output", NULL, ARGS(round_output_args), out_any, NULL},
    {"sandbox.round.stdin", "Give a round input", "For a round that was started with stdin_open.", ACTS, 0, 0,
     HTTP_POST, "/v1/rounds/{id}/stdin", NULL, ARGS(round_stdin_args), out_any, NULL},
    {"sandbox.round.signal", "Send a signal to a round", "To its program.", ACTS, 0, TOOL_DESTROYS, HTTP_POST,
     "/v1/rounds/{id}/signal", NULL, ARGS(round_signal_args), out_any, NULL},
    {"sandbox.round.end", "End a round", "Its whole process tree is ended: HUP, TERM, then KILL.", ACTS, 0,
     TOOL_DESTROYS | SAME, HTTP_POST, "/v1/sessions/{id}/terminate", NULL, ARGS(round_end_args), out_any, NULL},
    {"sandbox.shell.list", "List shells", "Those that your rounds go on in, with their directories.", 0, SCOPE_ROUNDS,
     READS, HTTP_GET, AGENT "/shells", NULL, ARGS(session_args), out_any, NULL},
    {"sandbox.shell.end", "End a shell", "What it keeps between rounds goes.", 0, SCOPE_ROUNDS, TOOL_DESTROYS,
     HTTP_DELETE, AGENT "/shells/{name}", NULL, ARGS(shell_end_args), out_any, NULL},
    {"sandbox.context.create", "Make a code context", "An interpreter that keeps its variables between executions.", 0,
     SCOPE_ROUNDS, 0, HTTP_POST, AGENT "/contexts", NULL, ARGS(context_create_args), out_any, NULL},
    {"sandbox.context.list", "List code contexts", "Yours in a sandbox.", 0, SCOPE_ROUNDS, READS, HTTP_GET,
     AGENT "/contexts", NULL, ARGS(session_args), out_any, NULL},
    {"sandbox.context.execute", "Run code in a context", "Runs code where the last one stopped.", 0, SCOPE_ROUNDS,
     RUNS_CODE, HTTP_POST, AGENT "/contexts/{id}/executions", "{\"yield_ms\":0}", ARGS(context_execute_args),
     out_execution, mcp_tell_execution},
    {"sandbox.context.interrupt", "Interrupt a context", "What runs in it stops; its variables stay.", 0, SCOPE_ROUNDS,
     TOOL_DESTROYS | SAME, HTTP_POST, AGENT "/contexts/{id}/interrupt", NULL, ARGS(context_args), out_any, NULL},
    {"sandbox.context.reset", "Reset a context", "It begins anew; its variables go.", 0, SCOPE_ROUNDS,
     TOOL_DESTROYS | SAME, HTTP_POST, AGENT "/contexts/{id}/reset", NULL, ARGS(context_args), out_any, NULL},
    {"sandbox.context.delete", "Delete a context", "It ends.", 0, SCOPE_ROUNDS, TOOL_DESTROYS | SAME, HTTP_DELETE,
     AGENT "/contexts/{id}", NULL, ARGS(context_delete_args), out_any, NULL},
    {"sandbox.terminal.start", "Begin a program in a terminal",
     "For programs that want a terminal. sandbox.terminal.keys types, sandbox.terminal.screen looks. Only where the "
     "daemon allows terminals of rounds.",
     0, TYPES, TOOL_DESTROYS | TOOL_EXEC_ID, HTTP_POST, AGENT "/rounds",
     "{\"wait_ms\":0,\"pty\":{\"cols\":80,\"rows\":24}," BOUND "}", ARGS(terminal_start_args), out_round,
     mcp_tell_round},
    {"sandbox.terminal.keys", "Type into a terminal", "Text and keys by name.", 0, TYPES, TOOL_DESTROYS, HTTP_POST,
     "/v1/rounds/{id}/keys", NULL, ARGS(terminal_keys_args), out_any, NULL},
    {"sandbox.terminal.resize", "Resize a terminal", "80 columns and 24 rows, until it is told otherwise.", ACTS, 0,
     SAME, HTTP_POST, "/v1/rounds/{id}/resize", NULL, ARGS(terminal_resize_args), out_any, NULL},
    {"sandbox.terminal.screen", "Look at a terminal", "What its screen shows now, as text.", SEES, 0, READS, HTTP_GET,
     "/v1/rounds/{id}/screen", NULL, ARGS(terminal_screen_args), out_screen, NULL},
};

const struct mcp_tool *mcp_tools(size_t *out_n)
{
	*out_n = sizeof(tools) / sizeof(tools[0]);
	return tools;
}

/* One name of a tool is its own, the other has _ for dots. */
static bool is_name_of(const char *own, const char *said)
{
	bool alias = !strchr(said, '.');

	for (; *own && *said; own++, said++)
		if (*own != *said && !(alias && *own == '.' && *said == '_'))
			return false;
	return *own == *said;
}

const struct mcp_tool *mcp_tool_find(const char *name)
{
	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
		if (is_name_of(tools[i].name, name))
			return &tools[i];
	return NULL;
}

/* A tool's operations of policies, by the row of the API that it calls. */
static const struct judged {
	enum http_method method;
	const char *pattern;
	enum policy_op op, also; /* also POLICY_OPS: no other */
} judged[] = {
    {HTTP_POST, AGENT "/resume", POLICY_SANDBOX_WAKE, POLICY_OPS},
    {HTTP_POST, AGENT "/rounds", POLICY_ROUND_START, POLICY_OPS},
    {HTTP_POST, AGENT "/terminate", POLICY_SANDBOX_STOP, POLICY_OPS},
    {HTTP_POST, AGENT "/snapshots", POLICY_SNAPSHOT_TAKE, POLICY_OPS},
    {HTTP_POST, AGENT "/fork", POLICY_SNAPSHOT_FORK, POLICY_OPS},
    {HTTP_POST, AGENT "/fs/read", POLICY_FILE_READ, POLICY_OPS},
    {HTTP_POST, AGENT "/fs/list", POLICY_FILE_READ, POLICY_OPS},
    {HTTP_POST, AGENT "/fs/search", POLICY_FILE_READ, POLICY_OPS},
    {HTTP_POST, AGENT "/fs/write", POLICY_FILE_WRITE, POLICY_OPS},
    {HTTP_POST, AGENT "/fs/patch", POLICY_FILE_READ, POLICY_FILE_WRITE},
    {HTTP_PUT, "/v1/tasks/{task}/artifacts/{name}", POLICY_ARTIFACT_WRITE, POLICY_OPS},
    {HTTP_POST, "/v1/tasks/{task}/artifacts", POLICY_ARTIFACT_WRITE, POLICY_OPS},
    {HTTP_GET, "/v1/tasks/{task}/artifacts/{name}", POLICY_ARTIFACT_READ, POLICY_OPS},
    {HTTP_GET, "/v1/tasks/{task}/artifacts", POLICY_ARTIFACT_READ, POLICY_OPS},
    {HTTP_POST, AGENT "/python", POLICY_PYTHON_EXECUTE, POLICY_OPS},
    {HTTP_POST, AGENT "/contexts", POLICY_CONTEXT_CREATE, POLICY_OPS},
    {HTTP_GET, AGENT "/contexts", POLICY_CONTEXT_READ, POLICY_OPS},
    {HTTP_POST, AGENT "/contexts/{id}/executions", POLICY_CONTEXT_EXECUTE, POLICY_OPS},
    {HTTP_POST, AGENT "/contexts/{id}/interrupt", POLICY_CONTEXT_EXECUTE, POLICY_OPS},
    {HTTP_POST, AGENT "/contexts/{id}/reset", POLICY_CONTEXT_EXECUTE, POLICY_OPS},
    {HTTP_DELETE, AGENT "/contexts/{id}", POLICY_CONTEXT_DELETE, POLICY_OPS},
    {HTTP_GET, AGENT, POLICY_SANDBOX_READ, POLICY_OPS},
    {HTTP_GET, "/v1/agents", POLICY_SANDBOX_READ, POLICY_OPS},
    {HTTP_GET, AGENT "/snapshots", POLICY_SANDBOX_READ, POLICY_OPS},
    {HTTP_POST, AGENT "/restore", POLICY_SNAPSHOT_RESTORE, POLICY_OPS},
    {HTTP_GET, AGENT "/services", POLICY_SERVICE_READ, POLICY_OPS},
    {HTTP_GET, AGENT "/services/{service}/log", POLICY_SERVICE_READ, POLICY_OPS},
    {HTTP_POST, AGENT "/services/{service}/restart", POLICY_SERVICE_RESTART, POLICY_OPS},
    {HTTP_GET, AGENT "/mcp/servers", POLICY_MCP_READ, POLICY_OPS},
    {HTTP_POST, AGENT "/mcp/request", POLICY_MCP_CALL, POLICY_OPS},
    {HTTP_POST, AGENT "/fs/stat", POLICY_FILE_READ, POLICY_OPS},
    {HTTP_POST, AGENT "/fs/glob", POLICY_FILE_READ, POLICY_OPS},
    {HTTP_POST, AGENT "/fs/mkdir", POLICY_FILE_WRITE, POLICY_OPS},
    {HTTP_POST, AGENT "/fs/move", POLICY_FILE_READ, POLICY_FILE_WRITE},
    {HTTP_POST, AGENT "/fs/copy", POLICY_FILE_READ, POLICY_FILE_WRITE},
    {HTTP_POST, AGENT "/fs/delete", POLICY_FILE_WRITE, POLICY_OPS},
    {HTTP_POST, AGENT "/locks", POLICY_FILE_LOCK, POLICY_OPS},
    {HTTP_POST, AGENT "/locks/{id}", POLICY_FILE_LOCK, POLICY_OPS},
    {HTTP_DELETE, AGENT "/locks/{id}", POLICY_FILE_LOCK, POLICY_OPS},
    {HTTP_GET, AGENT "/locks", POLICY_FILE_LOCK, POLICY_OPS},
    {HTTP_DELETE, "/v1/tasks/{task}/artifacts/{name}", POLICY_ARTIFACT_WRITE, POLICY_OPS},
    {HTTP_GET, "/v1/sessions", POLICY_SESSION_LIST, POLICY_OPS},
    {HTTP_GET, AGENT "/shells", POLICY_ROUND_READ, POLICY_OPS},
    {HTTP_DELETE, AGENT "/shells/{name}", POLICY_ROUND_INPUT, POLICY_OPS},
    {HTTP_POST, "/v1/rounds/{id}/resize", POLICY_ROUND_INPUT, POLICY_OPS},
    {HTTP_POST, "/v1/rounds/{id}/stdin", POLICY_ROUND_INPUT, POLICY_OPS},
    {HTTP_POST, "/v1/rounds/{id}/keys", POLICY_ROUND_INPUT, POLICY_OPS},
    {HTTP_POST, "/v1/rounds/{id}/signal", POLICY_ROUND_INPUT, POLICY_OPS},
    {HTTP_POST, "/v1/sessions/{id}/terminate", POLICY_SESSION_END, POLICY_OPS},
    {HTTP_GET, "/v1/rounds/{id}", POLICY_ROUND_READ, POLICY_OPS},
    {HTTP_GET, "/v1/rounds/{id}/output", POLICY_ROUND_READ, POLICY_OPS},
    {HTTP_GET, "/v1/rounds/{id}/screen", POLICY_ROUND_READ, POLICY_OPS},
};

/* A tool that has no row here is shown to nobody. */
static const struct judged *judged_find(const struct mcp_tool *t)
{
	for (size_t i = 0; i < sizeof(judged) / sizeof(judged[0]); i++)
		if (judged[i].method == t->method && strcmp(judged[i].pattern, t->pattern) == 0)
			return &judged[i];
	return NULL;
}

bool mcp_tool_has_operation(const struct mcp_tool *t)
{
	return judged_find(t) != NULL;
}

bool mcp_tool_judged(struct hub *h, const struct request *rq, const struct mcp_tool *t)
{
	const struct judged *j = judged_find(t);
	bool pty = t->fixed && strstr(t->fixed, "\"pty\"");

	if (pty && !broker_policy_may(h, rq, POLICY_TERMINAL_OPEN))
		return false;
	return j && broker_policy_may(h, rq, j->op) && (j->also == POLICY_OPS || broker_policy_may(h, rq, j->also));
}

int mcp_tool_allowed(const struct grant *g, const struct mcp_tool *t, struct err *e)
{
	uint32_t lacks = t->all & ~g->scopes;
	char names[128];

	if (lacks || (t->any && !(t->any & g->scopes))) {
		grant_scopes_format(lacks ? lacks : t->any, names, sizeof(names));
		return err_set(e, ERR_FORBIDDEN, "%s needs scope %s%s, which your grant lacks", t->name,
			       lacks ? "" : "of ", names);
	}
	return 0;
}

/* muxctl cp: a file or a directory between this machine and a sandbox, which is named as AGENT:PATH. */
#include "base/ids.h"
#include "base/json.h"
#include "muxd/ctl/api.h"
#include "muxd/ctl/files.h"
#include "muxd/ctl/nouns.h"
#include "muxd/ctl/sink.h"
#include "muxd/ctl/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct ctl_option cp_options[] = {
    {"parents", 'p', NULL, "Make missing directories in the sandbox."},
    {"force", 'f', NULL, "A directory in the sandbox takes the place of what has its name."},
    {"merge", 'm', NULL, "A directory goes into the one in the sandbox that has its name."},
    {"timeout", 0, "DURATION", "Give up after this time."},
    {"task", 0, "ID", "Task that it belongs to (default: console)."},
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl cp)."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_column copied_columns[] = {
    {"path", "path"}, {"size", "size"}, {"files", "files"}, {"bytes", "bytes"}, {"sha256", "sha256"}, {NULL, NULL},
};

/* One of the two names. agent "": it is here. */
struct place {
	char agent[AGENT_NAME_MAX + 1];
	const char *path;
};

struct copying {
	struct ctl *c;
	const struct ctl_args *a;
	const char *agent, *inside; /* in the sandbox */
	const char *here;
	char *to; /* made of the destination; NULL: it is as it was given */
	unsigned long long timeout_ns;
};

/* As of kubectl cp: what stands before the first colon. A name of this machine with one in it is written "./a:b". */
static void place_parse(const char *text, struct place *out)
{
	const char *colon = strchr(text, ':');
	struct err ignored = {0};

	*out = (struct place){.path = text};
	if (!colon || strchr("/.", *text) || (size_t)(colon - text) >= sizeof(out->agent))
		return;
	memcpy(out->agent, text, (size_t)(colon - text));
	if (target_name_check(out->agent, &ignored))
		out->agent[0] = '\0';
	else
		out->path = colon[1] ? colon + 1 : ".";
}

static struct ctl_wish copy_wish(const struct copying *y)
{
	return (struct ctl_wish){.kind = "staff",
				 .agent = y->agent,
				 .scopes = "files",
				 .task = args_get(y->a, "task"),
				 .reason = args_get_or(y->a, "reason", "muxctl cp"),
				 .work_ns = y->timeout_ns};
}

/* Is that a directory of the sandbox? What cannot be looked at (cp of a file reaches places that fs does not) is none.
 */
static bool inside_is_directory(const struct copying *y, const char *path)
{
	struct ctl_wish w = copy_wish(y);
	json_t *body = json_pack("{s:o,s:b,s:s*}", "path", json_text_or_base64(path), "follow", 1, "task_id",
				 args_get(y->a, "task"));
	struct api_call call = {
	    .method = "POST", .path = "/v1/agents/*/fs/*", .names = {y->agent, "stat"}, .body = body};
	struct err e = {0};
	json_t *o = NULL;
	bool is = body && api_ask(y->c, &w, &call, &o, &e) == 0 &&
		  strcmp(json_get_text(json_object_get(o, "entry") ? json_object_get(o, "entry") : o, "type"),
			 "directory") == 0;

	json_decref(o);
	return is;
}

static bool here_is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* DIRECTORY/NAME, with the last name of the source: what cp(1) makes of a directory that is there. NULL: no memory. */
static char *copy_join(const char *dir, const char *source)
{
	size_t n = strlen(source), begin;
	char *out = NULL;

	while (n > 1 && source[n - 1] == '/')
		n--;
	for (begin = n; begin > 0 && source[begin - 1] != '/'; begin--)
		;
	if (n - begin == 1 && source[begin] == '.') /* of "." and "dir/." what is in it */
		return strdup(dir);
	return asprintf(&out, "%s%s%.*s", dir, dir[strlen(dir) - 1] == '/' ? "" : "/", (int)(n - begin),
			source + begin) < 0
		   ? NULL
		   : out;
}

/* ---- in */

static json_t *tree_query(const struct copying *y, const char *path)
{
	char *encoded = base64_encode(path, strlen(path), true);
	json_t *q = encoded ? json_pack("{s:s,s:s*}", "path_base64", encoded, "task_id", args_get(y->a, "task")) : NULL;
	static const char *const flags[][2] = {{"parents", "parents"}, {"force", "overwrite"}, {"merge", "merge"}};
	char ms[24];

	free(encoded);
	for (size_t i = 0; q && i < sizeof(flags) / sizeof(flags[0]); i++)
		if (args_has(y->a, flags[i][0]))
			json_object_set_new(q, flags[i][1], json_string("true"));
	snprintf(ms, sizeof(ms), "%llu", y->timeout_ns / 1000000);
	if (q && y->timeout_ns)
		json_object_set_new(q, "timeout_ms", json_string(ms));
	return q;
}

static int put_tree(struct copying *y, json_t **out, struct err *e)
{
	struct api_call call = {.method = "PUT", .path = "/v1/agents/*/fs/*", .names = {y->agent, "tree"}};
	struct api_flow flow = {.in_fd = -1, .type = "application/x-tar"};
	struct ctl_wish w = copy_wish(y);
	int rc = tree_pack(y->here, &flow.in_fd, e);

	if (rc == 0 && !(call.query = tree_query(y, y->inside)))
		rc = err_set(e, ERR_NOMEM, "no memory for the question");
	if (rc == 0)
		rc = api_stream(y->c, &w, &call, &flow, out, e);
	if (flow.in_fd >= 0)
		close(flow.in_fd);
	return rc;
}

static struct file_wish copy_file_wish(const struct copying *y)
{
	return (struct file_wish){.agent = y->agent,
				  .path = y->inside,
				  .task = args_get(y->a, "task"),
				  .reason = args_get_or(y->a, "reason", "muxctl cp"),
				  .mode = -1,
				  .size = -1,
				  .parents = args_has(y->a, "parents"),
				  .timeout_ns = y->timeout_ns};
}

static int put_file(struct copying *y, json_t **out, struct err *e)
{
	struct file_wish w = copy_file_wish(y);
	struct stat st;
	int fd = strcmp(y->here, "-") == 0 ? STDIN_FILENO : open(y->here, O_RDONLY | O_CLOEXEC), rc = 0;

	if (fd < 0 || fstat(fd, &st))
		rc = err_sys(e, errno, "open %s", y->here);
	if (rc == 0 && S_ISREG(st.st_mode)) {
		w.size = fd == STDIN_FILENO ? -1 : st.st_size;
		w.mode = fd == STDIN_FILENO ? -1 : (long long)(st.st_mode & 0777);
	}
	if (rc == 0)
		rc = files_put(y->c, &w, fd, out, e);
	if (fd > STDIN_FILENO)
		close(fd);
	return rc;
}

static int copy_in(struct copying *y, json_t **out, struct err *e)
{
	bool tree = here_is_directory(y->here);

	if (!args_has(y->a, "merge") && !args_has(y->a, "force") && strcmp(y->here, "-") != 0 &&
	    inside_is_directory(y, y->inside) && !(y->inside = y->to = copy_join(y->inside, y->here)))
		return err_set(e, ERR_NOMEM, "no memory");
	return tree ? put_tree(y, out, e) : put_file(y, out, e);
}

/* ---- out */

static int get_tree(struct copying *y, json_t **out, struct err *e)
{
	struct api_call call = {.method = "GET", .path = "/v1/agents/*/fs/*", .names = {y->agent, "tree"}};
	struct tree *t = calloc(1, sizeof(*t));
	struct api_flow flow = {.in_fd = -1, .take = tree_take, .arg = t};
	struct ctl_wish w = copy_wish(y);
	int rc;

	if (!t)
		return err_set(e, ERR_NOMEM, "no memory");
	rc = tree_open(y->here, t, e);
	if (rc == 0 && !(call.query = tree_query(y, y->inside)))
		rc = err_set(e, ERR_NOMEM, "no memory for the question");
	if (rc == 0)
		rc = api_stream(y->c, &w, &call, &flow, NULL, e);
	if (rc == 0)
		rc = tree_settle(t, e);
	if (rc == 0 &&
	    !(*out = json_pack("{s:o,s:I,s:I,s:I}", "path", json_text_or_base64(y->here), "files", (json_int_t)t->files,
			       "bytes", (json_int_t)t->bytes, "links_left_out", (json_int_t)t->links)))
		rc = err_set(e, ERR_NOMEM, "no memory");
	tree_close(t);
	free(t);
	return rc;
}

static int get_file(struct copying *y, json_t **out, struct err *e)
{
	struct file_wish w = copy_file_wish(y);
	struct sink sink;
	int rc = sink_open(y->here, &sink, e);

	if (rc == 0)
		rc = files_get(y->c, &w, sink.fd, out, e);
	if (rc == 0)
		rc = sink_settle(&sink, -1, e);
	sink_close(&sink);
	return rc;
}

static int copy_out(struct copying *y, json_t **out, struct err *e)
{
	bool tree = inside_is_directory(y, y->inside);

	if (here_is_directory(y->here) && !(y->here = y->to = copy_join(y->here, y->inside)))
		return err_set(e, ERR_NOMEM, "no memory");
	if (tree && strcmp(y->here, "-") == 0)
		return err_set(e, ERR_INVAL, "%.200s is a directory: muxctl fs pack prints it as an archive",
			       y->inside);
	return tree ? get_tree(y, out, e) : get_file(y, out, e);
}

/* ---- the command */

static int cp_run(struct ctl *c, const struct ctl_args *a)
{
	struct copying y = {.c = c, .a = a};
	struct place from, to;
	json_t *o = NULL;
	struct err e = {0};
	int rc = args_duration(a, "timeout", &y.timeout_ns, &e);

	place_parse(a->operands[0], &from);
	place_parse(a->operands[1], &to);
	if (rc == 0 && (!*from.path || !*to.path))
		rc = err_set(&e, ERR_INVAL, "a name is empty");
	if (rc == 0 && (from.agent[0] != '\0') == (to.agent[0] != '\0'))
		rc = err_set(&e, ERR_INVAL,
			     from.agent[0] ? "both are in a sandbox: muxctl fs cp copies inside one"
					   : "neither is in a sandbox: write AGENT:PATH for the one that is");
	if (rc == 0) {
		bool out = from.agent[0] != '\0';

		y.agent = out ? from.agent : to.agent;
		y.inside = out ? from.path : to.path;
		y.here = out ? to.path : from.path;
		rc = out ? copy_out(&y, &o, &e) : copy_in(&y, &o, &e);
	}
	free(y.to);
	if (rc == 0 && !c->json && from.agent[0] && strcmp(to.path, "-") == 0) {
		json_decref(o);
		return 0;
	}
	return ctl_finish(c, rc, &e, o, NULL, copied_columns);
}

const struct ctl_command copy_commands[] = {
    {"cp", "SOURCE DESTINATION", 2, 2, "Copy a file or a directory into an agent's sandbox, or out of it.", cp_options,
     .run = cp_run,
     .more = "One of the two is AGENT:PATH, relative to /workspace unless it begins with /; a name here with\n"
	     "a colon is written ./NAME. As with cp(1), a DESTINATION that is a directory gets the source under\n"
	     "its own name. A directory comes whole or not at all: out of a sandbox without its symbolic links\n"
	     "and with the permissions of new files, under a name that is free; and is below /workspace.\n",
     .any_bytes = true},
    {0},
};

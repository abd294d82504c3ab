/* muxctl demo: create, exec, put, get, destroy against the running daemon, each step told in one line. */
#include "base/clock.h"
#include "base/ids.h"
#include "base/text.h"
#include "muxd/ctl/api.h"
#include "muxd/ctl/files.h"
#include "muxd/ctl/nouns.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CONTENT   (1024 * 1024)
#define WAIT_MS   60000
#define EXIT_CODE 7

static const struct ctl_option options[] = {
    {"backend", 0, "NAME", "local or kubernetes: fail when agents of this daemon are elsewhere."},
    {"keep", 0, NULL, "Leave the sandbox there."},
    {NULL, 0, NULL, NULL},
};

struct demo {
	struct ctl *c;
	const char *wanted; /* backend; NULL: either */
	char agent[32];
	char told[200];    /* by the step, for its line */
	int content, back; /* memory files: what is put, what comes back */
	json_t *put;
	json_t *steps;
};

/* ---- the steps: 0, or what went wrong in e; demo->told says what was seen */

static int step_create(struct demo *d, struct err *e)
{
	struct ctl_wish w = {.kind = "staff", .agent = d->agent, .scopes = "lifecycle", .reason = "muxctl demo"};
	struct api_call call = {.method = "POST", .path = "/v1/agents/*/resume", .names = {d->agent}};
	json_t *answer = NULL;
	int rc = api_ask(d->c, &w, &call, &answer, e);
	const char *backend;

	if (rc < 0)
		return rc;
	backend = json_string_value(json_object_get(answer, "backend"));
	backend = backend ? backend : "?";
	text_format(d->told, sizeof(d->told), "sandbox %s runs, backend %.20s", d->agent, backend);
	if (d->wanted && (strcmp(d->wanted, "local") == 0) != (strcmp(backend, "local") == 0))
		rc = err_set(e, ERR_BAD_STATE, "agents of this daemon are %s: set sandbox.backend to %s",
			     strcmp(backend, "local") == 0 ? "on this machine" : "in the cluster", d->wanted);
	json_decref(answer);
	return rc;
}

static int check_round(struct demo *d, const json_t *round, struct err *e)
{
	const char *text = json_string_value(json_object_get(json_object_get(round, "stdout"), "data"));
	const json_t *exit = json_object_get(round, "exit");
	int code = (int)json_integer_value(json_object_get(exit, "code"));

	if (!text || strncmp(text, "hello from ", 11) != 0)
		return err_set(e, ERR_CORRUPT, "the round printed \"%.60s\"", text ? text : "");
	if (code != EXIT_CODE)
		return err_set(e, ERR_CORRUPT, "the round ended with %d, not with %d", code, EXIT_CODE);
	text_format(d->told, sizeof(d->told), "\"%.*s\", exit code %d", (int)strcspn(text, "\n"), text, code);
	return 0;
}

static int step_exec(struct demo *d, struct err *e)
{
	struct ctl_wish w = {.kind = "staff", .agent = d->agent, .scopes = "rounds", .reason = "muxctl demo"};
	json_t *body = json_pack("{s:[s,s,s],s:i,s:i}", "argv", "sh", "-c", "echo hello from $(hostname); exit 7",
				 "timeout_ms", WAIT_MS, "wait_ms", WAIT_MS);
	struct api_call call = {.method = "POST", .path = "/v1/agents/*/rounds", .names = {d->agent}, .body = body};
	json_t *round = NULL;
	int rc = api_ask(d->c, &w, &call, &round, e);

	if (rc == 0)
		rc = check_round(d, round, e);
	json_decref(round);
	return rc;
}

static int make_content(struct demo *d, struct err *e)
{
	uint8_t *p;

	d->content = memfd_create("muxctl-demo", MFD_CLOEXEC);
	d->back = memfd_create("muxctl-demo", MFD_CLOEXEC);
	if (d->content < 0 || d->back < 0 || ftruncate(d->content, CONTENT) < 0)
		return err_sys(e, errno, "make a file in memory");
	p = mmap(NULL, CONTENT, PROT_READ | PROT_WRITE, MAP_SHARED, d->content, 0);
	if (p == MAP_FAILED)
		return err_sys(e, errno, "map a file in memory");
	if (random_bytes(p, CONTENT) < 0)
		(void)err_set(e, ERR_SYS, "no random bytes");
	munmap(p, CONTENT);
	return e->code;
}

static struct file_wish the_file(const struct demo *d)
{
	return (struct file_wish){.agent = d->agent,
				  .path = "demo/a file",
				  .reason = "muxctl demo",
				  .mode = 0640,
				  .size = CONTENT,
				  .parents = true,
				  .timeout_ns = 120 * NS_PER_SEC};
}

static void tell_file(struct demo *d, const json_t *o)
{
	const char *sum = json_string_value(json_object_get(o, "sha256"));

	text_format(d->told, sizeof(d->told), "%lld bytes, SHA-256 %.12s...",
		    (long long)json_integer_value(json_object_get(o, "size")), sum ? sum : "?");
}

static int step_put(struct demo *d, struct err *e)
{
	struct file_wish w = the_file(d);
	int rc = make_content(d, e);

	if (rc == 0)
		rc = files_put(d->c, &w, d->content, &d->put, e);
	if (rc == 0)
		tell_file(d, d->put);
	return rc;
}

/* The same bytes, not only the same digest: that was reckoned by the daemon both times. */
static int demo_compare(const struct demo *d, struct err *e)
{
	uint8_t *a = mmap(NULL, CONTENT, PROT_READ, MAP_SHARED, d->content, 0);
	uint8_t *b = mmap(NULL, CONTENT, PROT_READ, MAP_SHARED, d->back, 0);
	int rc = 0;

	if (a == MAP_FAILED || b == MAP_FAILED)
		rc = err_sys(e, errno, "map a file in memory");
	else if (lseek(d->back, 0, SEEK_END) != CONTENT || memcmp(a, b, CONTENT) != 0)
		rc = err_set(e, ERR_CORRUPT, "what came back is not what was put");
	if (a != MAP_FAILED)
		munmap(a, CONTENT);
	if (b != MAP_FAILED)
		munmap(b, CONTENT);
	return rc;
}

static int step_get(struct demo *d, struct err *e)
{
	struct file_wish w = the_file(d);
	json_t *o = NULL;
	int rc = files_get(d->c, &w, d->back, &o, e);

	if (rc == 0)
		tell_file(d, o);
	json_decref(o);
	return rc ? rc : demo_compare(d, e);
}

static int step_destroy(struct demo *d, struct err *e)
{
	struct ctl_wish w = {.kind = "staff", .agent = d->agent, .scopes = "lifecycle", .reason = "muxctl demo"};
	struct api_call call = {.method = "DELETE",
				.path = "/v1/agents/*",
				.names = {d->agent},
				.query = json_pack("{s:s,s:s}", "reason", "muxctl demo", "wipe", "true")};
	json_t *answer = NULL;
	int rc = api_ask(d->c, &w, &call, &answer, e);

	json_decref(answer);
	if (rc == 0)
		snprintf(d->told, sizeof(d->told), "sandbox and workspace are gone");
	return rc;
}

/* ---- telling them */

static const struct step {
	const char *name;
	int (*run)(struct demo *d, struct err *e);
} steps[] = {{"create", step_create}, {"exec", step_exec}, {"put", step_put}, {"get", step_get}};
static const struct step last = {"destroy", step_destroy};

static void demo_tell(struct demo *d, const struct step *s, const struct err *e, uint64_t ns)
{
	bool failed = e->code != 0;
	char *text;

	if (d->c->json) {
		json_t *o = json_pack("{s:s,s:b,s:s,s:I}", "step", s->name, "ok", !failed, "text",
				      failed ? e->message : d->told, "ms", (json_int_t)(ns / NS_PER_MS));
		if (o && failed)
			json_object_set_new(o, "code", json_string(err_name(e->code)));
		json_array_append_new(d->steps, o);
		return;
	}
	text = ctl_clean(failed ? e->message : d->told);
	printf("%-4s  %-8s %7.1f ms  %s\n", failed ? "FAIL" : "ok", s->name, (double)ns / (double)NS_PER_MS,
	       text ? text : "");
	fflush(stdout);
	free(text);
}

static int run_step(struct demo *d, const struct step *s, struct err *e)
{
	uint64_t begun = clock_boot_ns();
	int rc;

	*e = (struct err){0};
	d->told[0] = '\0';
	rc = s->run(d, e);
	if (rc < 0 && !e->code)
		err_set(e, rc, "%s", err_name(rc));
	demo_tell(d, s, e, clock_boot_ns() - begun);
	return rc;
}

/* The first failure decides; the sandbox is taken away in any case, unless it never came to be or is to stay. */
static int run_all(struct demo *d, bool keep, struct err *e)
{
	struct err end = {0};
	int rc = 0;
	size_t i = 0;

	while (rc == 0 && i < sizeof(steps) / sizeof(steps[0]))
		rc = run_step(d, &steps[i++], e);
	if (keep)
		return rc;
	int end_rc = run_step(d, &last, &end);
	if (rc == 0 && end_rc < 0)
		*e = end;
	return rc ? rc : end_rc;
}

static int name_agent(struct demo *d, struct err *e)
{
	uint8_t r[4];

	if (random_bytes(r, sizeof(r)) < 0)
		return err_set(e, ERR_SYS, "no random bytes for a name");
	snprintf(d->agent, sizeof(d->agent), "demo-%02x%02x%02x%02x", r[0], r[1], r[2], r[3]);
	return 0;
}

static int demo_run(struct ctl *c, const struct ctl_args *a)
{
	struct demo d = {.c = c, .wanted = args_get(a, "backend"), .content = -1, .back = -1, .steps = json_array()};
	struct err e = {0};
	int rc = name_agent(&d, &e);

	if (rc == 0 && d.wanted && strcmp(d.wanted, "local") != 0 && strcmp(d.wanted, "kubernetes") != 0)
		rc = err_set(&e, ERR_INVAL, "--backend is \"%.20s\": local or kubernetes", d.wanted);
	if (rc < 0)
		return ctl_fail(c, &e);
	rc = run_all(&d, args_has(a, "keep"), &e);
	if (c->json) {
		json_t *o = json_pack("{s:s,s:b,s:O}", "agent", d.agent, "ok", rc == 0, "steps", d.steps);
		(void)ctl_print_json(c, o);
		json_decref(o);
	}
	if (d.content >= 0)
		close(d.content);
	if (d.back >= 0)
		close(d.back);
	json_decref(d.put);
	json_decref(d.steps);
	return rc < 0 ? err_exit_code(e.code) : 0;
}

const struct ctl_command demo_commands[] = {
    {"demo", "", 0, 0, "Create, exec, put, get and destroy in a sandbox of its own, and print each step's time.",
     options, .run = demo_run,
     .more = "The exit status is 0 when every step succeeded, else that of the first error.\n"},
    {0},
};

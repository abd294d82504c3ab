#include "muxd/ctl/args.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/utf8.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX 32
#define USAGE_MAX   (64 * 1024)

const struct ctl_option args_common[] = {
    {"state", 0, "DIR", "State directory of the daemon (else $MUXD_STATE, else ./.muxd)."},
    {"token-file", 0, "FILE", "A token to use in place of a grant of its own making: at an edge, a lease."},
    {"output", 'o', "table|json", "How results and errors are printed."},
    {"help", 'h', NULL, "This text."},
    {NULL, 0, NULL, NULL},
};
#define COMMON (sizeof(args_common) / sizeof(args_common[0]))
const struct ctl_option args_before[] = {
    {"version", 'V', NULL, "Version of muxctl."},
    {NULL, 0, NULL, NULL},
};

/* A table and the common options in getopt's form. */
struct getopt_form {
	struct option longs[OPTIONS_MAX + 1];
	const struct ctl_option *rows[OPTIONS_MAX];
	char shorts[OPTIONS_MAX * 2 + 4];
	int n;
};

static void form_add(struct getopt_form *f, const struct ctl_option *table)
{
	size_t len = strlen(f->shorts);

	for (; table && table->name && f->n < OPTIONS_MAX; table++) {
		f->longs[f->n] =
		    (struct option){table->name, table->metavar ? required_argument : no_argument, NULL, 0};
		f->rows[f->n++] = table;
		if (!table->letter)
			continue;
		f->shorts[len++] = table->letter;
		if (table->metavar)
			f->shorts[len++] = ':';
		f->shorts[len] = '\0';
	}
}

/* prefix: "+:" stops at the first operand, ":" lets options stand anywhere. */
static void form_init(struct getopt_form *f, const char *prefix, const struct ctl_option *own)
{
	memset(f, 0, sizeof(*f));
	memcpy(f->shorts, prefix, strlen(prefix) + 1);
	form_add(f, own);
	form_add(f, args_common);
}

static int take_output(const char *value, struct ctl_args *out, struct err *e)
{
	if (strcmp(value, "json") != 0 && strcmp(value, "table") != 0)
		return err_set(e, ERR_INVAL, "-o is \"%.40s\": table or json", value);
	out->json = strcmp(value, "json") == 0;
	return 0;
}

static int take_value(struct ctl_args *out, const struct ctl_option *o, const char *value, struct err *e)
{
	if (strcmp(o->name, "output") == 0)
		return take_output(value, out, e);
	if (strcmp(o->name, "help") == 0) {
		out->help = true;
		return 0;
	}
	if (strcmp(o->name, "state") == 0) {
		if (!*value)
			return err_set(e, ERR_INVAL, "--state is empty");
		out->state_dir = value;
		return 0;
	}
	/* A command may have an option of that name for a token of another use: of a run, of a bridge. */
	if (strcmp(o->name, "token-file") == 0 && o >= args_common && o < args_common + COMMON) {
		out->token_file = value;
		return 0;
	}
	struct ctl_value *values = realloc(out->values, (out->nvalues + 1) * sizeof(*values));
	if (!values)
		return err_set(e, ERR_NOMEM, "no memory for the arguments");
	out->values = values;
	values[out->nvalues++] = (struct ctl_value){o->name, value ? value : ""};
	return 0;
}

static const struct ctl_option *by_letter(const struct getopt_form *f, int letter)
{
	for (int i = 0; i < f->n; i++)
		if (letter && f->rows[i]->letter == letter)
			return f->rows[i];
	return NULL;
}

/* The word that getopt could not use, as it was written. */
static int bad_option(int got, char **argv, struct err *e)
{
	char letter[3] = {'-', (char)optopt, '\0'};
	/* A bad letter may stand amid others, so optind cannot name the word; a bad long one is the word before. */
	const char *word = optopt > 0 && optopt < 256 ? letter : argv[optind - 1];

	if (got == ':')
		return err_set(e, ERR_INVAL, "option %s needs a value", word);
	return err_set(e, ERR_INVAL, "unknown option %s (put -- before a command's own options)", word);
}

static int parse_options(struct getopt_form *f, int argc, char **argv, struct ctl_args *out, struct err *e)
{
	int index, got, rc = 0;

	optind = 0;
	opterr = 0;
	while (rc == 0 && (index = -1, optopt = 0, got = getopt_long(argc, argv, f->shorts, f->longs, &index)) != -1) {
		const struct ctl_option *o = index >= 0 ? f->rows[index] : by_letter(f, got);
		rc = got == ':' || got == '?' || !o ? bad_option(got, argv, e) : take_value(out, o, optarg, e);
	}
	return rc;
}

int args_global(int argc, char **argv, struct ctl_args *out, bool *out_version, int *out_next, struct err *e)
{
	struct getopt_form f;

	form_init(&f, "+:", args_before);
	int rc = parse_options(&f, argc, argv, out, e);
	*out_version = rc == 0 && args_has(out, "version");
	*out_next = optind;
	return rc;
}

/* Does "grant create" begin with the word? Its length then, else 0. */
static size_t first_word(const char *name, const char *word)
{
	size_t n = strcspn(name, " ");

	return strlen(word) == n && strncmp(name, word, n) == 0 ? n : 0;
}

const struct ctl_command *args_next(const struct ctl_command *const **tables, const struct ctl_command *cmd)
{
	cmd = cmd ? cmd + 1 : **tables;
	if (cmd && !cmd->name)
		cmd = *++*tables;
	return cmd;
}

int args_command(int argc, char **argv, const struct ctl_command *const *tables, const struct ctl_command **out,
		 int *out_words, struct err *e)
{
	const struct ctl_command *alone = NULL; /* of one word: "run", beside "run start" */
	char verbs[200] = "";
	size_t len = 0;

	if (argc < 1)
		return err_set(e, ERR_INVAL, "no command given (muxctl --help lists them)");
	for (const struct ctl_command *cmd = NULL; (cmd = args_next(&tables, cmd));) {
		const char *name = cmd->name;
		size_t n = first_word(name, argv[0]);
		if (n == 0)
			continue;
		if (!name[n]) {
			alone = cmd;
			continue;
		}
		if (argc > 1 && strcmp(name + n + 1, argv[1]) == 0) {
			*out = cmd;
			*out_words = 2;
			return 0;
		}
		int put = snprintf(verbs + len, sizeof(verbs) - len, "%s%s", len ? ", " : "", name + n + 1);
		if (put > 0 && (size_t)put < sizeof(verbs) - len)
			len += (size_t)put;
	}
	if (alone) {
		*out = alone;
		*out_words = 1;
		return 0;
	}
	if (len)
		return err_set(e, ERR_INVAL, "muxctl %.40s: missing subcommand: %s", argv[0], verbs);
	return err_set(e, ERR_INVAL, "unknown command %.40s (muxctl --help lists them)", argv[0]);
}

/* Arguments go as JSON, which would say another text than was given. Names of files on this machine stay here. */
static int check_utf8(const struct ctl_command *cmd, const struct ctl_args *a, struct err *e)
{
	static const char *const local[] = {"state", "file", "expect-head", "key", "record", "token-file"};

	for (size_t i = 0; i < a->nvalues; i++) {
		bool here = false;
		for (size_t k = 0; k < sizeof(local) / sizeof(local[0]); k++)
			here = here || strcmp(a->values[i].name, local[k]) == 0;
		if (!here && !utf8_valid((const uint8_t *)a->values[i].value, strlen(a->values[i].value)))
			return err_set(e, ERR_INVAL, "--%s is not UTF-8: \"%s\"", a->values[i].name,
				       a->values[i].value);
	}
	for (size_t i = 0; !cmd->any_bytes && i < a->noperands; i++)
		if (!utf8_valid((const uint8_t *)a->operands[i], strlen(a->operands[i])))
			return err_set(e, ERR_INVAL, "argument %zu is not UTF-8: \"%s\"", i + 1, a->operands[i]);
	return 0;
}

/* As docker has it: options end at the second operand, which is put behind the first. Its index; argc: there is none.
 */
static int options_end(struct getopt_form *f, int argc, char **argv)
{
	int got, first = 0;

	f->shorts[0] = '-'; /* operands come in their order, as 1 */
	optind = 0;
	opterr = 0;
	while ((got = getopt_long(argc, argv, f->shorts, f->longs, NULL)) != -1 && got != '?' && got != ':') {
		int at = optind - 1;

		if (got == 1 && first)
			return at;
		if (got == 1)
			first = at;
	}
	return argc;
}

int args_parse(const struct ctl_command *cmd, int argc, char **argv, struct ctl_args *out, struct err *e)
{
	struct getopt_form f;

	out->command = cmd;
	form_init(&f, "-:", cmd->options);
	int end = cmd->runs ? options_end(&f, argc, argv) : argc;
	form_init(&f, ":", cmd->options);
	int rc = parse_options(&f, end, argv, out, e);
	if (rc < 0 || out->help)
		return rc;
	out->operands = argv + optind;
	out->noperands = (size_t)(argc - optind);
	if ((int)out->noperands < cmd->min)
		return err_set(e, ERR_INVAL, "muxctl %s needs %s", cmd->name, cmd->operands);
	if (cmd->max >= 0 && (int)out->noperands > cmd->max)
		return err_set(e, ERR_INVAL, "muxctl %s: %.60s is one argument too many", cmd->name,
			       out->operands[cmd->max]);
	return check_utf8(cmd, out, e);
}

void args_finish(struct ctl_args *a)
{
	if (!a)
		return;
	free(a->values);
	*a = (struct ctl_args){0};
}

const char *args_get(const struct ctl_args *a, const char *name)
{
	for (size_t i = a->nvalues; i-- > 0;)
		if (strcmp(a->values[i].name, name) == 0)
			return a->values[i].value;
	return NULL;
}

const char *args_get_or(const struct ctl_args *a, const char *name, const char *otherwise)
{
	const char *value = args_get(a, name);

	return value ? value : otherwise;
}

bool args_has(const struct ctl_args *a, const char *name)
{
	return args_get(a, name) != NULL;
}

int args_duration(const struct ctl_args *a, const char *name, unsigned long long *out_ns, struct err *e)
{
	const char *value = args_get(a, name);
	uint64_t ns = 0;

	if (!value)
		return 0;
	if (clock_parse_duration(value, &ns) < 0)
		return err_set(e, ERR_INVAL, "--%s is \"%.40s\", not a duration such as 90s, 15m or 1h30m", name,
			       value);
	*out_ns = ns;
	return 0;
}

int args_number(const struct ctl_args *a, const char *name, long long min, long long max, long long *out, struct err *e)
{
	const char *value = args_get(a, name);
	char *end;

	if (!value)
		return 0;
	errno = 0;
	long long n = strtoll(value, &end, 10);
	if (!*value || *end || errno || n < min || n > max)
		return err_set(e, ERR_INVAL, "--%s is \"%.40s\": %lld to %lld is allowed", name, value, min, max);
	*out = n;
	return 0;
}

static void usage_options(struct buf *b, const struct ctl_option *o)
{
	for (; o && o->name; o++) {
		char left[80];
		char letter[5] = "    ";
		if (o->letter) {
			letter[0] = '-';
			letter[1] = o->letter;
			letter[2] = ',';
		}
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->metavar ? " " : "",
			 o->metavar ? o->metavar : "");
		buf_printf(b, "  %-28s %s\n", left, o->help);
	}
}

static char *usage_text(struct buf *b)
{
	const char *s = buf_cstr(b);
	char *out = s ? strdup(s) : NULL;

	buf_finish(b);
	return out;
}

char *args_usage(const struct ctl_command *cmd)
{
	struct buf b;

	buf_init(&b, USAGE_MAX);
	buf_printf(&b, "usage: muxctl %s%s%s [options]\n\n%s\n\n", cmd->name, *cmd->operands ? " " : "", cmd->operands,
		   cmd->help);
	usage_options(&b, cmd->options);
	usage_options(&b, args_common);
	if (cmd->more)
		buf_printf(&b, "\n%s", cmd->more);
	return usage_text(&b);
}

char *args_usage_all(const struct ctl_command *const *tables)
{
	struct buf b;

	buf_init(&b, USAGE_MAX);
	buf_append_str(&b, "usage: muxctl [--state DIR] [-o table|json] COMMAND ...\n\n");
	for (const struct ctl_command *cmd = NULL; (cmd = args_next(&tables, cmd));) {
		char left[100];
		snprintf(left, sizeof(left), "%s %s", cmd->name, cmd->operands);
		buf_printf(&b, "  %-34s %s\n", left, cmd->help);
	}
	buf_append_str(&b, "\n");
	usage_options(&b, args_common);
	usage_options(&b, args_before);
	buf_append_str(&b, "\nmuxctl COMMAND --help says more. Exit status: 0, that of the round (exec), or one that\n"
			   "tells the kind of error; see muxctl(1).\n");
	return usage_text(&b);
}

void args_patterns(const struct ctl_args *a, const char *name, json_t *out)
{
	const char *text = args_get(a, name);
	json_t *list = text ? json_array() : NULL;

	for (size_t n; list && *text; text += n + (text[n] == ',')) {
		n = strcspn(text, ",");
		json_array_append_new(list, json_stringn(text, n));
	}
	if (list && out)
		json_object_set_new(out, name, list);
	else
		json_decref(list);
}

void args_bounds(const struct ctl_args *a, long long uses, json_t *out)
{
	if (out && uses)
		json_object_set_new(out, "uses", json_integer(uses));
	if (out && args_has(a, "operations"))
		json_object_set_new(out, "operations", json_string(args_get(a, "operations")));
}

int args_env(const struct ctl_args *a, json_t *out, struct err *e)
{
	return args_pairs(a, "env", out, e);
}

int args_pairs(const struct ctl_args *a, const char *option, json_t *out, struct err *e)
{
	for (size_t i = 0; i < a->nvalues; i++) {
		if (strcmp(a->values[i].name, option) != 0)
			continue;
		const char *text = a->values[i].value, *eq = strchr(text, '=');
		if (!eq || eq == text)
			return err_set(e, ERR_INVAL, "--%s %.60s is not NAME=VALUE", option, text);
		json_t *v = json_string(eq + 1);
		char *name = strndup(text, (size_t)(eq - text));
		int rc = name && v ? json_object_set_new(out, name, v) : -1;
		free(name);
		if (rc < 0)
			return err_set(e, ERR_NOMEM, "no memory for the question");
	}
	return 0;
}

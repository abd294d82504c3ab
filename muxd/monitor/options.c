#include "muxd/monitor/options.h"

#include "base/err.h"

#include <string.h>

const char options_usage[] =
    "usage: muxd serve --state DIR [--https HOST:PORT] [--ssh HOST:PORT] [--config FILE] [--end-sandboxes]\n"
    "       muxd serve --edge --state DIR --config FILE [--https HOST:PORT] [--end-sandboxes]\n"
    "       muxd serve --print-config\n"
    "       muxd check-config FILE\n"
    "       muxd version\n";

struct flag {
	const char *name;
	const char **value; /* exactly one of the two */
	bool *on;
};

/* "--name value" or "--name=value". Returns how many words were taken. */
static int options_take(const struct flag *f, int left, char *const *argv, struct err *e)
{
	size_t len = strlen(f->name);
	const char *value;
	int words = 1;

	if (f->on) {
		*f->on = true;
		return 1;
	}
	if (argv[0][len] == '=') {
		value = argv[0] + len + 1;
	} else {
		if (left < 2)
			return err_set(e, ERR_INVAL, "%s needs a value", f->name);
		value = argv[1];
		words = 2;
	}
	if (*value == '\0')
		return err_set(e, ERR_INVAL, "%s needs a value that is not empty", f->name);
	if (*f->value)
		return err_set(e, ERR_INVAL, "%s is given twice", f->name);
	*f->value = value;
	return words;
}

static bool is_flag(const struct flag *f, const char *word)
{
	size_t len = strlen(f->name);

	return strncmp(word, f->name, len) == 0 && (word[len] == '\0' || (f->value && word[len] == '='));
}

int options_parse(int argc, char *const *argv, struct options *out, struct err *e)
{
	struct options o = {0};
	const struct flag flags[] = {
	    {"--state", &o.state_dir, NULL},
	    {"--https", &o.https, NULL},
	    {"--ssh", &o.ssh, NULL},
	    {"--config", &o.config, NULL},
	    {"--edge", NULL, &o.edge},
	    {"--end-sandboxes", NULL, &o.end_sandboxes},
	    {"--foreground-sandboxes", NULL, &o.end_sandboxes},
	    {"--print-config", NULL, &o.print_config},
	    {"--help", NULL, &o.help},
	};
	const size_t n = sizeof flags / sizeof flags[0];

	for (int i = 1; i < argc;) {
		size_t k = 0;
		int words;

		while (k < n && !is_flag(&flags[k], argv[i]))
			k++;
		if (k == n)
			return err_set(e, ERR_INVAL, "unknown argument %s", argv[i]);
		words = options_take(&flags[k], argc - i, argv + i, e);
		if (words < 0)
			return words;
		i += words;
	}
	if (!o.state_dir && !o.print_config && !o.help)
		return err_set(e, ERR_INVAL, "--state DIR is needed");
	*out = o;
	return 0;
}

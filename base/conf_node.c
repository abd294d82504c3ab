#include "base/conf_node.h"

#include "base/err.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int conf_fail(const struct conf_reader *r, const yaml_mark_t *at, const char *fmt, ...)
{
	char why[ERR_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	text_vformat(why, sizeof(why), fmt, ap);
	va_end(ap);
	return err_set(r->e, ERR_CONFIG, "%s:%zu:%zu: %s", r->name, at->line + 1, at->column + 1, why);
}

int conf_fail_memory(const struct conf_reader *r)
{
	return err_set(r->e, ERR_NOMEM, "no memory for the configuration");
}

yaml_node_t *conf_node_at(const struct conf_reader *r, int index)
{
	return yaml_document_get_node(r->doc, index);
}

/* A scalar that says something. what: "rules.kind". */
int conf_need_scalar(const struct conf_reader *r, const yaml_node_t *n, const char *what, const char **out)
{
	const char *s = yamldoc_scalar(n);

	if (!s || yamldoc_is_null(n))
		return conf_fail(r, &n->start_mark, "%s %s", what, s ? "has no value" : "is not a single value");
	*out = s;
	return 0;
}

#include "base/err.h"

#include "base/text.h"
#include "base/visible.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#undef err_set /* the analyzer's view of them, see err.h */
#undef err_limit
#undef err_sys

struct err_row {
	const char *name;
	int http, exit;
	const char *hint;
};

static const struct err_row err_rows[] = {
#define ERR_ROW_(name, code, http, exit, hint) {code, http, exit, hint},
    ERR_TABLE(ERR_ROW_)
#undef ERR_ROW_
};

#define ERR_ROWS ((int)(sizeof(err_rows) / sizeof(err_rows[0])))

_Static_assert(ERR_END_ == ERR_BASE_ + 1 + (int)(sizeof(err_rows) / sizeof(err_rows[0])), "one row for each code");
_Static_assert(ERR_END_ < 0, "codes stay negative");

static const struct err_row *err_row(int code)
{
	if (code <= ERR_BASE_ || code >= ERR_END_)
		code = ERR_INTERNAL;
	return &err_rows[code - ERR_BASE_ - 1];
}

const char *err_name(int code)
{
	return code == 0 ? "ok" : err_row(code)->name;
}

const char *err_hint(int code)
{
	return code == 0 ? "" : err_row(code)->hint;
}

int err_http_status(int code)
{
	return code == 0 ? 200 : err_row(code)->http;
}

int err_exit_code(int code)
{
	return code == 0 ? 0 : err_row(code)->exit;
}

int err_by_name(const char *name)
{
	if (!name)
		return 0;
	for (int i = 0; i < ERR_ROWS; i++)
		if (strcmp(err_rows[i].name, name) == 0)
			return ERR_BASE_ + 1 + i;
	return 0;
}

/*
 * Formatted aside first: an argument may be the old e->message. Messages quote what peers sent and end up in JSON and
 * on terminals: what cannot be seen is written as an escape.
 */
static void err_fill(struct err *e, int code, const char *suffix, const char *fmt, va_list ap)
{
	char text[ERR_MESSAGE_MAX];
	size_t n = text_vformat(text, sizeof(text), fmt, ap);

	if (suffix)
		text_format(text + n, sizeof(text) - n, ": %s", suffix);
	visible_put(e->message, sizeof(e->message), text, strlen(text), 0);
	e->code = code;
	e->kube = (struct err_kube){0};
	e->policy = (struct err_policy){0};
	e->share = (struct err_share){0};
	e->begun = (struct err_begun){0};
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return code;
	va_start(ap, fmt);
	err_fill(e, code, NULL, fmt, ap);
	va_end(ap);
	return code;
}

int err_again(struct err *e, int rc, const struct err *why, const char *head)
{
	const struct err_kube kube = why ? why->kube : (struct err_kube){0};
	const struct err_policy policy = why ? why->policy : (struct err_policy){0};
	const struct err_share share = why ? why->share : (struct err_share){0};
	const struct err_begun begun = why ? why->begun : (struct err_begun){0};
	size_t was = why ? strlen(why->message) : 0, is;

	if (!e)
		return rc;
	err_set(e, rc, "%s%s%s", head ? head : "", head ? ": " : "", was ? why->message : err_name(rc));
	is = strlen(e->message);
	e->kube = kube;
	e->policy = policy;
	e->share = share;
	e->begun = begun;
	if (head && kube.code)
		e->kube.at = is > was && is - was + kube.at < is ? (unsigned)(is - was) + kube.at : (unsigned)is;
	return rc;
}

int err_limit(struct err *e, int code, const struct err_share *what, const char *fmt, ...)
{
	const struct err_share share = *what;
	va_list ap;

	if (!e)
		return code;
	va_start(ap, fmt);
	err_fill(e, code, NULL, fmt, ap);
	va_end(ap);
	e->share = share;
	return code;
}

void err_set_begun(struct err *e, const char *id, bool round)
{
	if (!e)
		return;
	text_put(e->begun.id, sizeof(e->begun.id), id ? id : "");
	e->begun.round = round;
}

static int err_from_errno(int errnum)
{
	switch (errnum) {
	case ENOMEM:
		return ERR_NOMEM;
	case ENOSPC:
	case EDQUOT:
		return ERR_DISK_FULL;
	case EADDRINUSE:
		return ERR_ADDR_IN_USE;
	case EACCES:
	case EPERM:
	case EROFS:
		return ERR_PERMISSION;
	case ENOENT:
		return ERR_NOT_FOUND;
	case EAGAIN:
		return ERR_AGAIN;
	case EMFILE:
	case ENFILE:
		return ERR_LIMIT;
	case ETIMEDOUT:
		return ERR_TIMEOUT;
	case ECONNREFUSED:
		return ERR_UNAVAILABLE;
	case EPIPE:
	case ECONNRESET:
		return ERR_EOF;
	case EFBIG:
	case EMSGSIZE:
		return ERR_TOO_LARGE;
	case ECANCELED:
		return ERR_CANCELLED;
	default:
		return ERR_SYS;
	}
}

int err_sys(struct err *e, int errnum, const char *fmt, ...)
{
	int code = err_from_errno(errnum);
	char reason[128];
	va_list ap;

	if (!e)
		return code;
	va_start(ap, fmt);
	err_fill(e, code, strerror_r(errnum, reason, sizeof(reason)), fmt, ap);
	va_end(ap);
	if (code == ERR_LIMIT)
		e->share = (struct err_share){"fixed.open_files", "daemon", 0, 0, 1};
	return code;
}

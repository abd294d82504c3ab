#include "muxd/hub/broker/workspace_from.h"

#include "base/err.h"
#include "base/text.h"

#include <string.h>

static const struct {
	const char *words; /* that it begins with */
	enum workspace_form form;
} forms[] = {{"snapshot:", WORKSPACE_SNAPSHOT}, {"artifact:", WORKSPACE_ARTIFACT}, {"bundle:", WORKSPACE_BUNDLE}};

#define FORMS (sizeof(forms) / sizeof(forms[0]))

static const char *behind(const char *text, enum workspace_form *out)
{
	for (size_t i = 0; i < FORMS; i++)
		if (strncmp(text, forms[i].words, strlen(forms[i].words)) == 0) {
			*out = forms[i].form;
			return text + strlen(forms[i].words);
		}
	return NULL;
}

static int workspace_bad(const char *text, const char *why, struct err *e)
{
	return err_set(e, ERR_INVAL, "workspace is \"%.300s\": %s", text, why);
}

static int put_part(char *out, size_t size, const char *from, size_t n)
{
	if (!n || n >= size)
		return ERR_INVAL;
	memcpy(out, from, n);
	out[n] = '\0';
	return 0;
}

/* TASK/NAME, and of a bundle what is behind a #, which neither a task nor the name of a bundle has. */
static int read_artifact(const char *text, const char *at, struct workspace_from *w, struct err *e)
{
	const char *hash = w->form == WORKSPACE_BUNDLE ? strchr(at, '#') : NULL;
	size_t n = hash ? (size_t)(hash - at) : strlen(at);
	const char *slash = memrchr(at, '/', n);
	struct err why = {0};

	if (!slash || put_part(w->task, sizeof(w->task), at, (size_t)(slash - at)) ||
	    put_part(w->name, sizeof(w->name), slash + 1, n - (size_t)(slash + 1 - at)))
		return workspace_bad(text,
				     w->form == WORKSPACE_BUNDLE
					 ? "behind bundle: stand the task and the name of an artifact, TASK/NAME, or "
					   "TASK/NAME#REF"
					 : "behind artifact: stand the task and the name of an artifact, TASK/NAME",
				     e);
	if (!hash)
		return 0;
	if (git_revision_check(hash + 1, &why))
		return err_set(e, ERR_INVAL, "workspace is \"%.300s\": what is behind # %s", text, why.message);
	text_put(w->ref, sizeof(w->ref), hash + 1);
	return 0;
}

int workspace_from_parse(const char *text, struct workspace_from *out, struct err *e)
{
	struct workspace_from w = {0};
	const char *at = behind(text, &w.form);
	int rc = 0;

	if (!at)
		return err_set(e, ERR_UNSUPPORTED,
			       "workspace is \"%.64s\": a sandbox begins with snapshot:ID, artifact:TASK/NAME, "
			       "bundle:TASK/NAME#REF, or with nothing",
			       text);
	if (w.form != WORKSPACE_SNAPSHOT)
		rc = read_artifact(text, at, &w, e);
	else if (id_parse(at, &w.snapshot) || id_is_nil(&w.snapshot))
		rc = workspace_bad(text, "behind snapshot: stands the id of one", e);
	if (!rc)
		*out = w;
	return rc;
}

const char *workspace_from_text(const struct workspace_from *w, char out[WORKSPACE_TEXT_SZ])
{
	text_format(out, WORKSPACE_TEXT_SZ, "%s%s/%s%s%s",
		    w->form == WORKSPACE_BUNDLE ? "bundle:" : "artifact:", w->task, w->name, w->ref[0] ? "#" : "",
		    w->ref);
	return out;
}

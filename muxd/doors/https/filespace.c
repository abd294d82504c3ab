/* The files of an agent in step with the owner's store, over HTTPS. */
#include "base/schema.h"
#include "base/text.h"
#include "muxd/doors/https/body.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/route.h"
#include "muxd/hub/filespace/broker_filespace.h"

#include <string.h>

struct sync_fields {
	const char *direction;
};
static const struct schema_field sync_fields[] = {
    {"direction", SCHEMA_TEXT, true, 1, 8, NULL, SCHEMA_TO(struct sync_fields, direction)},
};

static int direction_of(const char *text, enum filespace_direction *out, struct err *e)
{
	if (strcmp(text, "pull") == 0)
		*out = FILESPACE_PULL;
	else if (strcmp(text, "push") == 0)
		*out = FILESPACE_PUSH;
	else
		return err_set(e, ERR_INVAL, "direction is pull or push, not \"%.20s\"", text);
	return 0;
}

void rest_filespace_sync(struct http_exchange *x)
{
	enum filespace_direction d = FILESPACE_PUSH;
	struct sync_fields f = {0};
	struct err e = {0};
	struct schema s = {.out = &f, .e = &e, .null_is_absent = true};
	json_t *body = NULL;
	int rc = rest_body_any(x, &body, &e);

	if (!rc)
		rc = schema_object(&s, NULL, body, SCHEMA_FIELDS(sync_fields));
	if (!rc)
		rc = direction_of(f.direction, &d, &e);
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_filespace_sync(x->hub, &x->rq, x->params[0], d, http_reply_result, x);
	json_decref(body);
}

void rest_filespace_show(struct http_exchange *x)
{
	broker_filespace_show(x->hub, &x->rq, x->params[0], http_reply_result, x);
}

/* A POST of the head. Any 2xx will do where no key is configured; with one the answer holds a receipt as of muxd's. */
#include "base/clock.h"
#include "base/err.h"
#include "muxd/witness/home.h"
#include "muxd/witness/https.h"
#include "muxd/witness/kind.h"

int kind_https_send(const struct kind_call *c, json_t **out, struct err *e)
{
	struct https_call call = {
	    .url = c->conf->url, .token = c->token, .ca = c->ca, .body = c->head, .timeout_ns = c->conf->timeout_ns};
	json_t *answer = NULL, *receipt;
	long status = 0;
	int rc = https_do(&call, &status, &answer, e);

	if (rc)
		return rc;
	if (json_is_object(json_object_get(answer, "newest")))
		rc = home_known(c->home, c->conf->name, json_object_get(answer, "newest"), e);
	if (rc == 0 && (status < 200 || status > 299))
		rc = https_refused(c->conf->url, status, answer, e);
	receipt = json_object_get(answer, "receipt");
	if (rc == 0)
		*out = json_is_object(receipt) ? json_incref(receipt)
					       : json_pack("{s:i, s:I}", "status", (int)status, "witness_wall_ns",
							   (json_int_t)clock_wall_ns());
	if (rc == 0 && !*out)
		rc = err_set(e, ERR_NOMEM, "no memory for a receipt");
	json_decref(answer);
	return rc;
}

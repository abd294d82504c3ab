#include "recorder/chain/receipt.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/timestamp.h"
#include "recorder/chain/chain_format.h"
#include "recorder/chain/chain_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PURPOSE "muxd witness 1"
#define SIGNED  (CHAIN_SIGNED + 8)

static void message(const struct chain_head *h, int64_t wall_ns, uint8_t out[SIGNED])
{
	chain_head_message(h, out);
	put_u64(out + CHAIN_SIGNED, (uint64_t)wall_ns);
}

int receipt_make(const struct signer *s, const struct chain_head *h, int64_t wall_ns, json_t **out, struct err *e)
{
	char id[ID_STR_LEN], hash[2 * CHAIN_HASH + 1], wall[40], *signature = NULL;
	uint8_t bytes[SIGNED], sig[SIGN_LEN];
	int rc;

	message(h, wall_ns, bytes);
	rc = signer_sign(s, PURPOSE, bytes, sizeof bytes, sig, e);
	if (rc)
		return rc;
	id_format(&h->log_id, id);
	chain_hex(h->hash, CHAIN_HASH, hash);
	clock_format_utc(wall_ns, wall, sizeof wall);
	signature = base64_encode(sig, sizeof sig, true);
	json_t *o = signature ? json_pack("{s:s, s:I, s:s, s:I, s:I, s:s, s:s, s:s}", "log_id", id, "seq",
					  (json_int_t)h->seq, "hash", hash, "wall_ns", (json_int_t)h->wall_ns,
					  "witness_wall_ns", (json_int_t)wall_ns, "witness_wall", wall, "kid",
					  signer_public(s)->kid, "signature", signature)
			      : NULL;
	free(signature);
	if (!o)
		return err_set(e, ERR_NOMEM, "no memory for a receipt");
	*out = o;
	return 0;
}

static int same_head(const json_t *receipt, const struct chain_head *h, struct err *e)
{
	const char *id = NULL, *hash = NULL;
	uint8_t bytes[CHAIN_HASH];
	struct id log_id;
	int64_t seq = 0;
	int rc = json_need_str(receipt, "log_id", &id, e);

	if (rc == 0)
		rc = json_need_int(receipt, "seq", 0, INT64_MAX, &seq, e);
	if (rc == 0)
		rc = json_need_str(receipt, "hash", &hash, e);
	if (rc == 0 && (id_parse(id, &log_id) || chain_unhex(hash, bytes, sizeof bytes)))
		rc = err_set(e, ERR_INVAL, "the receipt's log_id or hash is malformed");
	if (rc)
		return rc;
	if ((uint64_t)seq != h->seq || memcmp(bytes, h->hash, sizeof bytes) != 0 || !id_equal(&log_id, &h->log_id))
		return err_set(e, ERR_CONFLICT,
			       "the receipt is for entry %" PRId64 ", not for entry %" PRIu64 " as sent", seq, h->seq);
	return 0;
}

int receipt_check(const json_t *receipt, const struct chain_head *h, const uint8_t key[GRANT_KEY_LEN], struct err *e)
{
	const char *text = NULL;
	uint8_t bytes[SIGNED], *sig = NULL;
	int64_t wall = 0;
	size_t n = 0;
	int rc = same_head(receipt, h, e);

	if (rc == 0)
		rc = json_need_int(receipt, "witness_wall_ns", INT64_MIN, INT64_MAX, &wall, e);
	if (rc == 0)
		rc = json_need_str(receipt, "signature", &text, e);
	if (rc)
		return rc;
	message(h, wall, bytes);
	if (base64_decode(text, strlen(text), true, &sig, &n) || n != SIGN_LEN)
		rc = err_set(e, ERR_INVAL, "the receipt's signature is malformed");
	else if (sign_verify(key, PURPOSE, bytes, sizeof bytes, sig))
		rc = err_set(e, ERR_TOKEN_FORGED, "the receipt is not signed by the witness's key");
	free(sig);
	return rc;
}

int receipt_stamp(const json_t *receipt, const struct chain_head *h, const char *ca, int64_t now_ns,
		  struct timestamp *out, struct err *e)
{
	const char *text = NULL;
	uint8_t *bytes = NULL;
	size_t n = 0;
	int rc = json_need_str(receipt, "tsr", &text, e);

	if (rc == 0 && base64_decode(text, strlen(text), false, &bytes, &n))
		rc = err_set(e, ERR_INVAL, "the receipt's tsr is no base64");
	if (rc == 0)
		rc = timestamp_check(bytes, n, h->hash, ca, now_ns, out, e);
	free(bytes);
	return rc;
}

#include "muxd/hub/session/keep.h"

#include "base/err.h"
#include "base/text.h"
#include "base/utf8.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

int keep_init(struct keep *k, uint64_t head_max, uint64_t tail_max)
{
	memset(k, 0, sizeof(*k));
	k->head_max = head_max;
	k->tail_max = tail_max;
	k->whole = true;
	k->sha = EVP_MD_CTX_new();
	if (!k->sha || EVP_DigestInit_ex(k->sha, EVP_sha256(), NULL) != 1)
		return ERR_NOMEM;
	return 0;
}

void keep_finish(struct keep *k)
{
	EVP_MD_CTX_free(k->sha);
	free(k->head);
	free(k->tail);
	memset(k, 0, sizeof(*k));
}

size_t keep_held(const struct keep *k)
{
	return k->head_cap + k->tail_cap;
}

static int grow(uint8_t **p, size_t *cap, size_t need, uint64_t max)
{
	size_t n = *cap ? *cap : 1024;
	uint8_t *q;

	if (need <= *cap)
		return 0;
	while (n < need)
		n *= 2;
	if (n > max)
		n = (size_t)max;
	q = realloc(*p, n);
	if (!q)
		return ERR_NOMEM;
	*p = q;
	*cap = n;
	return 0;
}

static size_t add_head(struct keep *k, const uint8_t *p, size_t n, int *rc)
{
	uint64_t room = k->head_max - k->head_len;
	size_t take = n < room ? n : (size_t)room;

	if (!take)
		return 0;
	*rc = grow(&k->head, &k->head_cap, k->head_len + take, k->head_max);
	if (*rc)
		return 0;
	memcpy(k->head + k->head_len, p, take);
	k->head_len += take;
	return take;
}

/* While the tail has not wrapped it grows like a plain buffer; at its full size it becomes a ring. */
static int add_tail(struct keep *k, const uint8_t *p, size_t n)
{
	size_t keep = n < k->tail_max ? n : (size_t)k->tail_max, at, first;
	uint64_t held = k->tail_total < k->tail_cap ? k->tail_total : k->tail_cap;
	int rc;

	if (!k->tail_max || !n || !p)
		return 0;
	if (k->tail_cap < k->tail_max && k->tail_total + n > k->tail_cap) {
		uint64_t want = held + n < k->tail_max ? held + n : k->tail_max;

		rc = grow(&k->tail, &k->tail_cap, (size_t)want, k->tail_max);
		if (rc)
			return rc;
	}
	if (!k->tail)
		return ERR_NOMEM;
	k->tail_total += n;
	p += n - keep;
	at = (size_t)((k->tail_total - keep) % k->tail_cap);
	first = k->tail_cap - at < keep ? k->tail_cap - at : keep;
	memcpy(k->tail + at, p, first);
	memcpy(k->tail, p + first, keep - first);
	return 0;
}

int keep_add(struct keep *k, const uint8_t *p, size_t n)
{
	size_t taken;
	int rc = 0, rc2;

	k->total += n;
	if (k->whole && EVP_DigestUpdate(k->sha, p, n) != 1)
		rc = ERR_INTERNAL;
	taken = add_head(k, p, n, &rc);
	rc2 = add_tail(k, p + taken, n - taken);
	return rc ? rc : rc2;
}

int keep_regain(struct keep *k, uint64_t head_max, const struct buf *head, const struct buf *tail, const char *hex)
{
	struct keep again;
	int rc = keep_init(&again, head_max, k->tail_max);

	if (!rc && buf_len(head))
		rc = keep_add(&again, buf_ptr(head), buf_len(head));
	if (!rc && buf_len(tail))
		rc = add_tail(&again, buf_ptr(tail), buf_len(tail));
	if (rc) {
		keep_finish(&again);
		return rc;
	}
	again.whole = false;
	again.total = k->total;
	text_put(again.hex, sizeof(again.hex), hex);
	again.hex_total = k->total;
	keep_finish(k);
	*k = again;
	return 0;
}

static bool keep_hash(const struct keep *k, uint8_t md[EVP_MAX_MD_SIZE])
{
	EVP_MD_CTX *so_far = EVP_MD_CTX_new();
	unsigned len = 0;
	bool ok = so_far && EVP_MD_CTX_copy_ex(so_far, k->sha) == 1 && EVP_DigestFinal_ex(so_far, md, &len) == 1;

	EVP_MD_CTX_free(so_far);
	return ok && len == 32;
}

/* More may come behind a look at it: a digest of fewer bytes than were counted is none. */
const char *keep_digest(struct keep *k)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t md[EVP_MAX_MD_SIZE];

	if (k->hex[0] && k->hex_total == k->total)
		return k->hex;
	if (!k->whole || !keep_hash(k, md))
		return "";
	for (unsigned i = 0; i < 32; i++) {
		k->hex[2 * i] = digits[md[i] >> 4];
		k->hex[2 * i + 1] = digits[md[i] & 15];
	}
	k->hex[64] = '\0';
	k->hex_total = k->total;
	return k->hex;
}

/* The tail in order; caller frees. */
static uint8_t *tail_copy(const struct keep *k, size_t *out_n)
{
	size_t n = k->tail_total < k->tail_cap ? (size_t)k->tail_total : k->tail_cap;
	size_t at = k->tail_cap ? (size_t)((k->tail_total - n) % k->tail_cap) : 0, first;
	uint8_t *p = malloc(n + 1);

	if (!p)
		return NULL;
	first = k->tail_cap - at < n ? k->tail_cap - at : n;
	if (n) {
		memcpy(p, k->tail + at, first);
		memcpy(p + first, k->tail, n - first);
	}
	*out_n = n;
	return p;
}

/* behind: of the last bytes so many are for the next answer, when goes_on. */
static int set_content(json_t *o, const struct keep *k, uint64_t omitted, bool goes_on, size_t *out_behind)
{
	size_t tail_len = 0;
	uint8_t *tail = tail_copy(k, &tail_len), *all = NULL;
	int rc = ERR_NOMEM;

	if (!tail)
		return rc;
	if (omitted) {
		rc = json_set_bytes(o, "data", "encoding", k->head ? k->head : tail, k->head_len);
		*out_behind = goes_on ? utf8_open_end(tail, tail_len) : 0;
		if (!rc)
			rc = json_set_bytes(o, "tail", "tail_encoding", tail, tail_len - *out_behind);
		goto out;
	}
	all = malloc(k->head_len + tail_len + 1);
	if (!all)
		goto out;
	if (k->head_len)
		memcpy(all, k->head, k->head_len);
	memcpy(all + k->head_len, tail, tail_len);
	*out_behind = goes_on ? utf8_open_end(all, k->head_len + tail_len) : 0;
	rc = json_set_bytes(o, "data", "encoding", all, k->head_len + tail_len - *out_behind);
out:
	free(all);
	free(tail);
	return rc;
}

static void set_whole(json_t *o, const struct keep *k)
{
	json_object_set_new(o, "total_bytes", json_integer((json_int_t)k->total));
	json_object_set_new(o, "sha256", k->hex[0] ? json_string(k->hex) : json_null());
}

static json_t *content_json(const struct keep *k, bool goes_on)
{
	uint64_t tail = k->tail_total < k->tail_cap ? k->tail_total : k->tail_cap;
	uint64_t omitted = k->total - k->head_len - tail;
	json_t *o = json_object();
	size_t behind = 0;

	if (!o || set_content(o, k, omitted, goes_on, &behind)) {
		json_decref(o);
		return NULL;
	}
	set_whole(o, k);
	json_object_set_new(o, "truncated", json_boolean(omitted > 0));
	if (omitted)
		json_object_set_new(o, "omitted_bytes", json_integer((json_int_t)omitted));
	if (goes_on)
		json_object_set_new(o, "next_offset", json_integer((json_int_t)(k->total - behind)));
	return o;
}

json_t *keep_json(const struct keep *k)
{
	return content_json(k, false);
}

json_t *keep_so_far(const struct keep *k)
{
	return content_json(k, true);
}

json_t *keep_brief(const struct keep *k)
{
	json_t *o = json_object();

	set_whole(o, k);
	return o;
}

// tier: check
#include "base/err.h"
#include "base/json.h"
#include "policy/grant.h"
#include "policy/grant_known.h"
#include "policy/jws.h"
#include "policy/reason.h"

#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND      INT64_C(1000000000)
#define NOW         (INT64_C(1800000000) * SECOND)
#define ISSUER      "01890a5d-ac96-774b-bcce-b302099a8057"
#define HEADER_KEYS "\"alg\":\"EdDSA\",\"typ\":\"muxd-grant\""

struct fixture {
	uint8_t seed[GRANT_KEY_LEN];
	struct grant_public_key key;
	struct grant_keyset keys;
};

static struct grant example(void)
{
	struct grant g = {.kind = GRANT_STAFF,
			  .scopes = SCOPE_TERMINAL | SCOPE_ROUNDS,
			  .issued_ns = NOW,
			  .not_before_ns = NOW,
			  .expires_ns = NOW + 900 * SECOND,
			  .issuer = ISSUER,
			  .principal = "ada@example.org",
			  .agent = "demo",
			  .task = "console",
			  .reason = "first look"};
	assert_int_equal(id_new(&g.id), 0);
	return g;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	if (!f || grant_key_create(f->seed, &f->key))
		return -1;
	f->keys = (struct grant_keyset){&f->key, 1};
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static int verify(const struct fixture *f, const char *token, int64_t now, struct grant *out)
{
	return grant_verify(token, strlen(token), &f->keys, ISSUER, now, out, NULL);
}

static int known_verify(struct grants_known *known, const char *token, size_t len, const struct grant_keyset *keys,
			const char *issuer, int64_t now, struct grant *out)
{
	const struct grant_trust t = {.keys = keys, .issuer = issuer};

	return grants_known_verify(known, token, len, &t, now, out, NULL);
}

static void a_signed_grant_comes_back_whole(void **state)
{
	const struct fixture *f = *state;
	struct grant g = example(), back;
	char *token = NULL;

	strcpy(g.reason, "Gr\xc3\xbc\xc3\x9f\x65 \"quoted\" \\ back \xe2\x82\xac \xf0\x9f\x98\x80");
	assert_int_equal(grant_sign(&g, f->key.kid, f->seed, &token, NULL), 0);
	assert_true(strlen(token) <= GRANT_TOKEN_MAX);
	assert_int_equal(verify(f, token, NOW + SECOND, &back), 0);
	assert_true(id_equal(&g.id, &back.id));
	assert_int_equal(back.kind, g.kind);
	assert_int_equal(back.scopes, g.scopes);
	assert_true(back.issued_ns == g.issued_ns && back.not_before_ns == g.not_before_ns &&
		    back.expires_ns == g.expires_ns);
	assert_string_equal(back.issuer, g.issuer);
	assert_string_equal(back.principal, g.principal);
	assert_string_equal(back.agent, g.agent);
	assert_string_equal(back.task, g.task);
	assert_string_equal(back.reason, g.reason);
	grant_token_free(token);
	grant_token_free(NULL);
}

static void it_holds_from_its_beginning_until_its_end(void **state)
{
	const struct fixture *f = *state;
	struct grant g = example(), back;
	char *token = NULL;

	assert_int_equal(grant_sign(&g, f->key.kid, f->seed, &token, NULL), 0);
	assert_int_equal(verify(f, token, NOW - 1, &back), ERR_TOKEN_NOT_YET);
	assert_int_equal(verify(f, token, NOW, &back), 0);
	assert_int_equal(verify(f, token, g.expires_ns - 1, &back), 0);
	assert_int_equal(verify(f, token, g.expires_ns, &back), ERR_TOKEN_EXPIRED);
	assert_int_equal(verify(f, token, INT64_MAX, &back), ERR_TOKEN_EXPIRED);
	grant_token_free(token);
}

static void no_byte_of_a_token_can_be_changed(void **state)
{
	const struct fixture *f = *state;
	struct grant g = example(), back = {0};
	char *token = NULL;
	size_t len;

	assert_int_equal(grant_sign(&g, f->key.kid, f->seed, &token, NULL), 0);
	len = strlen(token);
	for (size_t i = 0; i < len; i++) {
		char was = token[i];
		int rc;

		for (int bit = 0; bit < 8; bit++) {
			token[i] = (char)(was ^ (1 << bit));
			rc = grant_verify(token, len, &f->keys, ISSUER, NOW, &back, NULL);
			assert_true(rc == ERR_TOKEN_MALFORMED || rc == ERR_TOKEN_FORGED);
		}
		token[i] = was;
		rc = grant_verify(token, i, &f->keys, ISSUER, NOW, &back, NULL);
		assert_int_equal(rc, ERR_TOKEN_MALFORMED); /* cut short */
	}
	assert_true(id_is_nil(&back.id)); /* untouched on failure */
	assert_int_equal(grant_verify(token, len, &f->keys, ISSUER, NOW, &back, NULL), 0);
	grant_token_free(token);
}

static void trailing_bytes_and_over_long_tokens_are_refused(void **state)
{
	static const char *const tails[] = {"\n", " ", ".", "=", "A", ".AAAA", NULL};
	const struct fixture *f = *state;
	struct grant g = example(), back;
	char *token = NULL, longer[GRANT_TOKEN_MAX + 10];

	assert_int_equal(grant_sign(&g, f->key.kid, f->seed, &token, NULL), 0);
	for (size_t i = 0; tails[i]; i++) {
		snprintf(longer, sizeof longer, "%s%s", token, tails[i]);
		assert_int_equal(verify(f, longer, NOW, &back), ERR_TOKEN_MALFORMED);
		snprintf(longer, sizeof longer, "%s%s", tails[i], token);
		assert_int_equal(verify(f, longer, NOW, &back), ERR_TOKEN_MALFORMED);
	}
	memset(longer, 'A', sizeof longer);
	assert_int_equal(grant_verify(longer, sizeof longer, &f->keys, ISSUER, NOW, &back, NULL), ERR_TOKEN_MALFORMED);
	grant_token_free(token);
}

static void another_daemons_token_is_forged(void **state)
{
	const struct fixture *f = *state;
	struct grant g = example(), back;
	struct grant_public_key other_key;
	uint8_t other_seed[GRANT_KEY_LEN];
	char *token = NULL;

	assert_int_equal(grant_key_create(other_seed, &other_key), 0);
	assert_int_equal(grant_sign(&g, other_key.kid, other_seed, &token, NULL), 0);
	assert_int_equal(verify(f, token, NOW, &back), ERR_TOKEN_FORGED); /* key id that nobody knows */
	grant_token_free(token);
	assert_int_equal(grant_sign(&g, f->key.kid, other_seed, &token, NULL), 0);
	assert_int_equal(verify(f, token, NOW, &back), ERR_TOKEN_FORGED); /* our key id, their key */
	grant_token_free(token);
	strcpy(g.issuer, "01890a5d-ac96-774b-bcce-b302099a8058");
	assert_int_equal(grant_sign(&g, f->key.kid, f->seed, &token, NULL), 0);
	assert_int_equal(verify(f, token, NOW, &back), ERR_TOKEN_FORGED); /* our key, another instance */
	grant_token_free(token);
}

static void every_key_of_the_set_verifies(void **state)
{
	const struct fixture *f = *state;
	struct grant g = example(), back;
	struct grant_public_key two[2] = {[1] = f->key};
	struct grant_keyset keys = {two, 2};
	uint8_t seed[GRANT_KEY_LEN];
	char *token = NULL;

	assert_int_equal(grant_key_create(seed, &two[0]), 0);
	assert_int_equal(grant_sign(&g, f->key.kid, f->seed, &token, NULL), 0);
	assert_int_equal(grant_verify(token, strlen(token), &keys, ISSUER, NOW, &back, NULL), 0);
	grant_token_free(token);
	assert_int_equal(grant_sign(&g, two[0].kid, seed, &token, NULL), 0);
	assert_int_equal(grant_verify(token, strlen(token), &keys, ISSUER, NOW, &back, NULL), 0);
	grant_token_free(token);
}

/* A remembered token must answer as the token itself does, whatever changed since. */
static void a_known_token_is_asked_for_what_may_have_changed(void **state)
{
	const struct fixture *f = *state;
	struct grants_known known = {0};
	struct grant g = example(), back;
	struct grant_public_key other, same_kid = f->key;
	struct grant_keyset none = {0}, others = {&other, 1}, swapped = {&same_kid, 1};
	uint8_t seed[GRANT_KEY_LEN];
	char *token = NULL;
	size_t len;

	assert_int_equal(grant_key_create(seed, &other), 0);
	memcpy(same_kid.key, other.key, sizeof same_kid.key);
	assert_int_equal(grant_sign(&g, f->key.kid, f->seed, &token, NULL), 0);
	len = strlen(token);
	for (int i = 0; i < 2; i++) { /* the second time from memory */
		memset(&back, 0, sizeof back);
		assert_int_equal(known_verify(&known, token, len, &f->keys, ISSUER, NOW, &back), 0);
		assert_memory_equal(&back.id, &g.id, sizeof g.id);
		assert_string_equal(back.reason, g.reason);
	}
	assert_int_equal(known_verify(&known, token, len, &f->keys, ISSUER, NOW - 1, &back), ERR_TOKEN_NOT_YET);
	assert_int_equal(known_verify(&known, token, len, &f->keys, ISSUER, g.expires_ns, &back), ERR_TOKEN_EXPIRED);
	assert_int_equal(known_verify(&known, token, len, &f->keys, "another", NOW, &back), ERR_TOKEN_FORGED);
	assert_int_equal(known_verify(&known, token, len, &none, ISSUER, NOW, &back), ERR_TOKEN_FORGED);
	assert_int_equal(known_verify(&known, token, len, &others, ISSUER, NOW, &back), ERR_TOKEN_FORGED);
	assert_int_equal(known_verify(&known, token, len, &swapped, ISSUER, NOW, &back), ERR_TOKEN_FORGED);
	assert_int_equal(known_verify(&known, token, len, &f->keys, ISSUER, NOW, &back), 0);
	grants_known_finish(&known);
	grant_token_free(token);
}

static void nothing_is_remembered_of_a_token_that_is_not_good(void **state)
{
	const struct fixture *f = *state;
	struct grants_known known = {0};
	struct grant g = example(), back = {0};
	char *token = NULL;
	size_t len;

	assert_int_equal(grant_sign(&g, f->key.kid, f->seed, &token, NULL), 0);
	len = strlen(token);
	assert_int_equal(known_verify(&known, token, len, &f->keys, ISSUER, NOW, &back), 0);
	memset(&back, 0, sizeof back);
	for (size_t i = 0; i < len; i++) {
		char was = token[i];

		token[i] = was == 'A' ? 'B' : 'A';
		for (int again = 0; again < 2; again++) {
			int rc = known_verify(&known, token, len, &f->keys, ISSUER, NOW, &back);

			assert_true(rc == ERR_TOKEN_MALFORMED || rc == ERR_TOKEN_FORGED || was == token[i]);
			rc = known_verify(&known, token, i, &f->keys, ISSUER, NOW, &back);
			assert_int_equal(rc, ERR_TOKEN_MALFORMED);
		}
		token[i] = was;
	}
	assert_true(id_is_nil(&back.id));
	grants_known_finish(&known);
	grant_token_free(token);
}

/* More tokens than there are places: each is good all the same. */
static void a_place_is_taken_by_the_next_good_token(void **state)
{
	const struct fixture *f = *state;
	struct grants_known known = {0};
	char *tokens[2 * GRANT_KNOWN_MAX];
	struct grant made[2 * GRANT_KNOWN_MAX], back;

	for (int i = 0; i < 2 * GRANT_KNOWN_MAX; i++) {
		made[i] = example();
		assert_int_equal(grant_sign(&made[i], f->key.kid, f->seed, &tokens[i], NULL), 0);
	}
	for (int i = 0; i < 4 * GRANT_KNOWN_MAX; i++) {
		int k = i % (2 * GRANT_KNOWN_MAX);

		assert_int_equal(known_verify(&known, tokens[k], strlen(tokens[k]), &f->keys, ISSUER, NOW, &back), 0);
		assert_true(id_equal(&back.id, &made[k].id));
	}
	for (int i = 0; i < 2 * GRANT_KNOWN_MAX; i++)
		grant_token_free(tokens[i]);
	grants_known_finish(&known);
}

/* A token with any header and payload, signed with the right key: what a buggy or hostile signer could make. */
static char *raw_token(const struct fixture *f, const char *header, const void *payload, size_t len)
{
	char *h = base64_encode(header, strlen(header), true), *p = base64_encode(payload, len, true);
	char *text = NULL, *token = NULL, *s;
	uint8_t sig[64];
	size_t sig_len = sizeof sig;
	EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, f->seed, GRANT_KEY_LEN);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	int n = asprintf(&text, "%s.%s", h, p);

	assert_true(n > 0);
	assert_int_equal(EVP_DigestSignInit(ctx, NULL, NULL, NULL, key), 1);
	assert_int_equal(EVP_DigestSign(ctx, sig, &sig_len, (uint8_t *)text, (size_t)n), 1);
	s = base64_encode(sig, sig_len, true);
	assert_true(asprintf(&token, "%s.%s", text, s) > 0);
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
	free(h);
	free(p);
	free(s);
	free(text);
	return token;
}

static const char good_claims[] =
    "{\"iss\":\"" ISSUER "\",\"jti\":\"01890a5d-ac96-774b-bcce-b302099a8059\",\"sub\":\"ada\","
    "\"iat\":1799999999,\"nbf\":1799999999,\"exp\":1800000900,\"kind\":\"staff\","
    "\"agent\":\"demo\",\"scopes\":\"terminal\",\"task\":\"console\",\"reason\":\"look\"}";

static void the_header_has_one_spelling(void **state)
{
	const struct fixture *f = *state;
	const char *k = f->key.kid;
	struct {
		const char *format;
		int want;
	} const cases[] = {
	    {"{" HEADER_KEYS ",\"kid\":\"%s\"}", 0},
	    {"{\"alg\":\"none\",\"typ\":\"muxd-grant\",\"kid\":\"%s\"}", ERR_TOKEN_MALFORMED},
	    {"{\"alg\":\"HS256\",\"typ\":\"muxd-grant\",\"kid\":\"%s\"}", ERR_TOKEN_MALFORMED},
	    {"{\"alg\":\"eddsa\",\"typ\":\"muxd-grant\",\"kid\":\"%s\"}", ERR_TOKEN_MALFORMED},
	    {"{\"alg\":\"EdDSA\",\"typ\":\"JWT\",\"kid\":\"%s\"}", ERR_TOKEN_MALFORMED},
	    {"{\"alg\":\"EdDSA\",\"kid\":\"%s\"}", ERR_TOKEN_MALFORMED},
	    {"{" HEADER_KEYS ",\"crit\":[],\"kid\":\"%s\"}", ERR_TOKEN_MALFORMED},
	    {"{" HEADER_KEYS ",\"jwk\":{},\"kid\":\"%s\"}", ERR_TOKEN_MALFORMED},
	    {"{\"alg\":\"EdDSA\"," HEADER_KEYS ",\"kid\":\"%s\"}", ERR_TOKEN_MALFORMED},
	    {"{" HEADER_KEYS ",\"kid\":\"0%s\"}", ERR_TOKEN_MALFORMED},
	    {"{" HEADER_KEYS ", \"kid\":\"%s\"}", ERR_TOKEN_MALFORMED},
	    {"{" HEADER_KEYS ",\"kid\":\"%s\"} ", ERR_TOKEN_MALFORMED},
	    {"[%s]", ERR_TOKEN_MALFORMED},
	    {"%s", ERR_TOKEN_MALFORMED},
	};
	char header[256];
	struct grant back;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char *token;

		snprintf(header, sizeof header, cases[i].format, k);
		token = raw_token(f, header, good_claims, strlen(good_claims));
		assert_int_equal(verify(f, token, NOW, &back), cases[i].want);
		free(token);
	}
}

/* The good claims with one part replaced. */
static char *edited(const char *from, const char *to)
{
	const char *at = strstr(good_claims, from);
	char *out = NULL;

	assert_non_null(at);
	assert_true(asprintf(&out, "%.*s%s%s", (int)(at - good_claims), good_claims, to, at + strlen(from)) > 0);
	return out;
}

static void bad_claims_are_refused_even_when_signed(void **state)
{
	static const struct {
		const char *from, *to;
		int want;
	} cases[] = {
	    {"\"look\"", "\"look\"", 0},
	    {"\"staff\"", "\"root\"", ERR_TOKEN_MALFORMED},
	    {"\"terminal\"", "\"\"", ERR_TOKEN_MALFORMED},
	    {"\"terminal\"", "\"terminal,terminal\"", ERR_TOKEN_MALFORMED},
	    {"\"terminal\"", "\"terminal,\"", ERR_TOKEN_MALFORMED},
	    {"\"terminal\"", "[\"terminal\"]", ERR_TOKEN_MALFORMED},
	    {"\"demo\"", "\"Demo!\"", ERR_TOKEN_MALFORMED},
	    {"\"demo\"", "\"*\"", ERR_TOKEN_MALFORMED}, /* staff without scope admin */
	    {"\"look\"", "\"\"", ERR_TOKEN_MALFORMED},
	    {"\"look\"", "\"\\u0000x\"", ERR_TOKEN_MALFORMED},
	    {"\"look\"", "\"a\\u001b[2J\"", ERR_TOKEN_MALFORMED},
	    {"\"ada\"", "\"\"", ERR_TOKEN_MALFORMED},
	    {"\"ada\"", "\"a b\"", ERR_TOKEN_MALFORMED},
	    {"\"sub\":\"ada\"", "\"sub\":\"ada\",\"sub\":\"eve\"", ERR_TOKEN_MALFORMED},
	    {"\"sub\":\"ada\",", "", ERR_TOKEN_MALFORMED},
	    {"\"sub\":\"ada\"", "\"sub\":\"ada\",\"aud\":\"x\"", ERR_TOKEN_MALFORMED},
	    {"1800000900", "1800000900.5", ERR_TOKEN_MALFORMED},
	    {"1800000900", "\"1800000900\"", ERR_TOKEN_MALFORMED},
	    {"1800000900", "9223372037", ERR_TOKEN_MALFORMED},
	    {"1800000900", "9223372036854775808", ERR_TOKEN_MALFORMED},
	    {"1800000900", "-5", ERR_TOKEN_MALFORMED},
	    {"1800000900", "1799999999", ERR_TOKEN_MALFORMED}, /* ends when it begins */
	    {"\"nbf\":1799999999", "\"nbf\":0", ERR_TOKEN_MALFORMED},
	    {"\"look\"}", "\"look\"}x", ERR_TOKEN_MALFORMED},
	    {"\"look\"}", "\"look\"", ERR_TOKEN_MALFORMED},
	    {"{", "[{", ERR_TOKEN_MALFORMED},
	};
	const struct fixture *f = *state;
	char header[128];

	snprintf(header, sizeof header, "{" HEADER_KEYS ",\"kid\":\"%s\"}", f->key.kid);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char *claims = edited(cases[i].from, cases[i].to);
		char *token = raw_token(f, header, claims, strlen(claims));
		struct grant back;

		if (verify(f, token, NOW, &back) != cases[i].want)
			fail_msg("case %zu: %s", i, claims);
		free(token);
		free(claims);
	}
}

static void base64url_has_one_spelling(void **state)
{
	const struct fixture *f = *state;
	char header[128], *token = NULL;
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	struct grant back;
	size_t last;
	const char *digit;

	snprintf(header, sizeof header, "{" HEADER_KEYS ",\"kid\":\"%s\"}", f->key.kid);
	token = raw_token(f, header, good_claims, strlen(good_claims));
	assert_int_equal(verify(f, token, NOW, &back), 0);
	/* 64 bytes of signature leave four unused bits in the last digit: another digit, the same bytes. */
	last = strlen(token) - 1;
	digit = strchr(digits, token[last]);
	token[last] = digits[(size_t)(digit - digits) ^ 1];
	assert_int_equal(verify(f, token, NOW, &back), ERR_TOKEN_MALFORMED);
	free(token);
}

static void what_a_grant_must_say(void **state)
{
	const struct fixture *f = *state;
	struct {
		const char *field;
		struct grant g;
		int want;
	} cases[] = {
	    {"as it is", example(), 0},
	    {"reason", example(), ERR_REASON_REQUIRED},
	    {"scopes", example(), ERR_INVAL},
	    {"scope that nobody knows", example(), ERR_INVAL},
	    {"agent", example(), ERR_INVAL},
	    {"everybody", example(), ERR_INVAL},
	    {"everybody, admin", example(), 0},
	    {"everybody, auditor", example(), 0},
	    {"everybody, agent", example(), ERR_INVAL},
	    {"names that begin so, agent", example(), 0},
	    {"names that begin so, staff", example(), ERR_INVAL},
	    {"names that no name begins with", example(), ERR_INVAL},
	    {"a star in the middle", example(), ERR_INVAL},
	    {"a renewal of nothing", example(), ERR_INVAL},
	    {"principal", example(), ERR_INVAL},
	    {"no task", example(), 0},
	    {"task", example(), ERR_INVAL},
	    {"ttl", example(), ERR_INVAL},
	    {"negative ttl", example(), ERR_INVAL},
	    {"issuer", example(), ERR_INVAL},
	    {"id", example(), ERR_INVAL},
	    {"principal without end", example(), ERR_INVAL},
	    {"kind", example(), ERR_INVAL},
	};
	size_t i = 1;

	(void)f;
	strcpy(cases[i++].g.reason, " \t ");
	cases[i++].g.scopes = 0;
	cases[i++].g.scopes = 1 << 10;
	strcpy(cases[i++].g.agent, "-demo");
	strcpy(cases[i++].g.agent, "*");
	strcpy(cases[i].g.agent, "*");
	cases[i++].g.scopes |= SCOPE_ADMIN;
	strcpy(cases[i].g.agent, "*");
	cases[i++].g.kind = GRANT_AUDITOR;
	strcpy(cases[i].g.agent, "*");
	cases[i++].g.kind = GRANT_AGENT;
	strcpy(cases[i].g.agent, "ci-*");
	cases[i++].g.kind = GRANT_AGENT;
	strcpy(cases[i++].g.agent, "ci-*");
	strcpy(cases[i].g.agent, "-*");
	cases[i++].g.kind = GRANT_AGENT;
	strcpy(cases[i].g.agent, "c*i");
	cases[i++].g.kind = GRANT_AGENT;
	cases[i].g.since_ns = cases[i].g.issued_ns;
	i++;
	cases[i++].g.principal[0] = '\0';
	cases[i++].g.task[0] = '\0';
	strcpy(cases[i++].g.task, "two words");
	cases[i].g.expires_ns = cases[i].g.not_before_ns + SECOND - 1;
	i++;
	cases[i].g.expires_ns = cases[i].g.not_before_ns - SECOND;
	i++;
	strcpy(cases[i++].g.issuer, "me");
	memset(&cases[i++].g.id, 0, sizeof cases[0].g.id);
	memset(cases[i++].g.principal, 'a', sizeof cases[0].g.principal);
	cases[i++].g.kind = (enum grant_kind)17;
	assert_int_equal(i, sizeof cases / sizeof cases[0]);
	for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct err e = {0};
		if (grant_check(&cases[i].g, &e) != cases[i].want)
			fail_msg("%s: %s", cases[i].field, e.message);
		if (cases[i].want)
			assert_true(e.message[0] != '\0');
	}
}

static void a_token_stays_short_enough_for_a_password(void **state)
{
	const struct fixture *f = *state;
	struct grant g = example();
	char *token = NULL;
	struct err e = {0};

	memset(g.reason, 'r', 200);
	g.reason[200] = '\0';
	assert_int_equal(grant_sign(&g, f->key.kid, f->seed, &token, &e), 0);
	assert_true(strlen(token) <= GRANT_TOKEN_MAX);
	grant_token_free(token);
	token = NULL;
	memset(g.reason, '"', 256); /* each quote takes two bytes in JSON */
	g.reason[256] = '\0';
	memset(g.principal, 'p', GRANT_NAME_MAX);
	g.principal[GRANT_NAME_MAX] = '\0';
	assert_int_equal(grant_sign(&g, f->key.kid, f->seed, &token, &e), ERR_TOO_LARGE);
	assert_null(token);
}

static void reasons(void **state)
{
	static const struct {
		const char *text;
		int want;
	} cases[] = {
	    {"look at ticket 4711", 0},
	    {"\xe8\xaa\xbf\xe6\x9f\xbb", 0},
	    {"x", 0},
	    {"", ERR_REASON_REQUIRED},
	    {"   ", ERR_REASON_REQUIRED},
	    {"\t\r\n", ERR_REASON_REQUIRED},
	    {"\xc2\xa0\xe3\x80\x80\xe2\x80\x83", ERR_REASON_REQUIRED}, /* no-break, ideographic and em space */
	    {"\xe2\x80\x8b\xef\xbb\xbf", ERR_REASON_REQUIRED},         /* zero width space, byte order mark */
	    {"two\nlines", ERR_INVAL},
	    {"a\x1b[31m", ERR_INVAL},
	    {"a\x7f", ERR_INVAL},
	    {"a\xc2\x9b", ERR_INVAL},                                    /* C1 control */
	    {"a\xe2\x80\xae", ERR_INVAL},                                /* right-to-left override */
	    {"a\xe2\x80\x8f", ERR_INVAL},                                /* right-to-left mark */
	    {"a\xd8\x9c", ERR_INVAL},                                    /* Arabic letter mark */
	    {"a\xe2\x80\x8b", ERR_INVAL},                                /* zero width space */
	    {"a\xee\x80\x80", ERR_INVAL},                                /* private use */
	    {"a\xcd\xb8", ERR_INVAL},                                    /* unassigned */
	    {"\xd9\x85\xdb\x8c\xe2\x80\x8c\xd8\xb1\xd9\x88\xd9\x85", 0}, /* Persian, with its non-joiner */
	    {"\xe2\x9d\xa4\xef\xb8\x8f", 0},                             /* an emoji's variant */
	    {"a\xff", ERR_INVAL},
	    {"a\xc0\x80", ERR_INVAL},     /* overlong */
	    {"a\xed\xa0\x80", ERR_INVAL}, /* surrogate */
	};
	char longest[GRANT_REASON_MAX + 2];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		if (reason_check(cases[i].text, NULL) != cases[i].want)
			fail_msg("case %zu", i);
	}
	memset(longest, 'x', sizeof longest - 1);
	longest[sizeof longest - 1] = '\0';
	assert_int_equal(reason_check(longest, NULL), ERR_INVAL);
	assert_int_equal(reason_check(longest + 1, NULL), 0);
}

static void what_a_grant_allows(void **state)
{
	struct grant g = example(), all = example();
	struct err e = {0};

	(void)state;
	strcpy(all.agent, "*");
	assert_int_equal(grant_allows(&g, "demo", SCOPE_TERMINAL | SCOPE_ROUNDS, &e), 0);
	assert_int_equal(grant_allows(&g, "demo", 0, &e), 0);
	assert_int_equal(grant_allows(&all, "other", SCOPE_TERMINAL, &e), 0);
	assert_int_equal(grant_allows(&g, "demo2", SCOPE_TERMINAL, &e), ERR_FORBIDDEN);
	assert_non_null(strstr(e.message, "demo2"));
	assert_int_equal(grant_allows(&g, "demo", SCOPE_TERMINAL | SCOPE_REPLAY | SCOPE_ADMIN, &e), ERR_FORBIDDEN);
	assert_non_null(strstr(e.message, "replay,admin"));
	assert_int_equal(grant_allows(&g, "*", SCOPE_TERMINAL, &e), ERR_FORBIDDEN);
	assert_int_equal(grant_allows(&g, "demo/pod", SCOPE_TERMINAL, &e), ERR_FORBIDDEN);
	strcpy(g.agent, "ns/pod");
	assert_int_equal(grant_allows(&g, "ns/pod/main", SCOPE_TERMINAL, &e), 0);
	assert_int_equal(grant_allows(&g, "ns/pod2", SCOPE_TERMINAL, &e), ERR_FORBIDDEN);
	strcpy(g.agent, "ns/pod/main");
	assert_int_equal(grant_allows(&g, "ns/pod", SCOPE_TERMINAL, &e), ERR_FORBIDDEN);
}

/* A copy is called after its agent, and is for whom that is for: for no pattern that meets its name alone. */
static void a_copy_is_for_whom_its_agent_is(void **state)
{
	static const struct {
		const char *wide, *name;
		bool covers;
	} t[] = {{"demo", "demo-fork-0123456789ab", true},
		 {"demo", "demo-base-0123456789ab", true},
		 {"demo", "demo-fork-0123456789a", false},
		 {"demo-*", "demo-fork-0123456789ab", false},
		 {"demo-fork-*", "demo-fork-0123456789ab", false},
		 {"demo-fork-0123456789ab", "demo-fork-0123456789ab", true},
		 {"demo-fork-0123456789ab", "demo-fork-0123456789ac", false},
		 {"dem*", "demo-fork-0123456789ab", true},
		 {"*", "demo-base-0123456789ab", true},
		 {"demo", "demo-fork-*", false},
		 {"demo-*", "demo-fork-*", true},
		 {"demo-*", "demo-x-fork-0123456789ab", true},
		 {"other", "demo-fork-0123456789ab", false}};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		if (grant_covers(t[i].wide, t[i].name) != t[i].covers)
			fail_msg("%s and %s", t[i].wide, t[i].name);
}

static void whose_task_it_is(void **state)
{
	struct grant with = example(), without = example();
	const char *task = NULL;

	(void)state;
	without.task[0] = '\0';
	assert_int_equal(grant_task(&with, NULL, &task, NULL), 0);
	assert_string_equal(task, "console");
	assert_int_equal(grant_task(&with, "console", &task, NULL), 0);
	assert_int_equal(grant_task(&without, "t-1", &task, NULL), 0);
	assert_string_equal(task, "t-1");
	assert_int_equal(grant_task(&with, "t-1", &task, NULL), ERR_TASK_MISMATCH);
	assert_int_equal(grant_task(&without, NULL, &task, NULL), ERR_TASK_REQUIRED);
	assert_int_equal(grant_task(&without, "", &task, NULL), ERR_TASK_REQUIRED);
	assert_int_equal(grant_task(&without, "a b", &task, NULL), ERR_INVAL);
	assert_true(grant_owns(&with, with.principal, false, "another"));
	assert_true(grant_owns(&with, with.principal, true, "console"));
	assert_false(grant_owns(&with, with.principal, true, "another"));
	assert_true(grant_owns(&without, with.principal, true, "another"));
	assert_false(grant_owns(&with, "somebody", false, "console"));
	assert_string_equal(task, "t-1");
}

static void names_go_both_ways(void **state)
{
	enum grant_kind kind = GRANT_SERVICE;
	uint32_t scopes = 0;
	char text[128];

	(void)state;
	for (int k = GRANT_STAFF; k <= GRANT_SERVICE; k++) {
		assert_int_equal(grant_kind_parse(grant_kind_name((enum grant_kind)k), &kind, NULL), 0);
		assert_int_equal((int)kind, k);
	}
	assert_int_equal(grant_kind_parse("Staff", &kind, NULL), ERR_INVAL);
	grant_scopes_format(0x1ff, text, sizeof text);
	assert_string_equal(text, "terminal,rounds,files,observe,drive,replay,lifecycle,admin,ports");
	assert_int_equal(grant_scopes_parse(text, &scopes, NULL), 0);
	assert_int_equal(scopes, 0x1ff);
	for (uint32_t s = 1; s < 512; s++) {
		grant_scopes_format(s, text, sizeof text);
		assert_int_equal(grant_scopes_parse(text, &scopes, NULL), 0);
		assert_int_equal(scopes, s);
	}
	assert_int_equal(grant_scopes_parse("terminal, rounds", &scopes, NULL), ERR_INVAL);
	assert_int_equal(grant_scopes_parse(",terminal", &scopes, NULL), ERR_INVAL);
	assert_int_equal(grant_scopes_parse("", &scopes, NULL), ERR_INVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_signed_grant_comes_back_whole, setup, teardown),
	    cmocka_unit_test_setup_teardown(it_holds_from_its_beginning_until_its_end, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_known_token_is_asked_for_what_may_have_changed, setup, teardown),
	    cmocka_unit_test_setup_teardown(nothing_is_remembered_of_a_token_that_is_not_good, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_place_is_taken_by_the_next_good_token, setup, teardown),
	    cmocka_unit_test_setup_teardown(no_byte_of_a_token_can_be_changed, setup, teardown),
	    cmocka_unit_test_setup_teardown(trailing_bytes_and_over_long_tokens_are_refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(another_daemons_token_is_forged, setup, teardown),
	    cmocka_unit_test_setup_teardown(every_key_of_the_set_verifies, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_header_has_one_spelling, setup, teardown),
	    cmocka_unit_test_setup_teardown(bad_claims_are_refused_even_when_signed, setup, teardown),
	    cmocka_unit_test_setup_teardown(base64url_has_one_spelling, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_a_grant_must_say, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_token_stays_short_enough_for_a_password, setup, teardown),
	    cmocka_unit_test(reasons),
	    cmocka_unit_test(what_a_grant_allows),
	    cmocka_unit_test(a_copy_is_for_whom_its_agent_is),
	    cmocka_unit_test(whose_task_it_is),
	    cmocka_unit_test(names_go_both_ways),
	};
	return cmocka_run_group_tests_name("grant", tests, NULL, NULL);
}

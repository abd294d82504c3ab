/*
 * An S3 bucket with object lock: each head is an object of its own, whose version nobody can delete or change before
 * its time, the owner of the account neither (mode COMPLIANCE).
 *
 * The key is URL/LOG ID/SEQUENCE.json, so that a head never replaces another; one that is sent again is one version
 * more. Requests are signed (Signature Version 4) by libcurl, every x-amz header and the body with it. What the service
 * says of the new version (a HEAD of it) is compared with what was asked for: a bucket that keeps no versions, or took
 * the object without its lock, is no witness.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "muxd/witness/home.h"
#include "muxd/witness/https.h"
#include "muxd/witness/kind.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HEADERS_MAX  8
#define TIME_LEN     21 /* 2026-11-22T18:59:00Z and NUL */
#define SKEW_SECONDS 120

enum answered { VERSION, ETAG, MODE, UNTIL, ANSWERS };

/* Of a credential file: two or three lines. */
struct credential {
	char *text, *id, *secret, *session;
};

struct put {
	const struct kind_call *c;
	struct credential who;
	char *body, *url, *user, *sigv4;
	char until[TIME_LEN], sha256[2 * 32 + 1];
	time_t until_s;
	char *headers[HEADERS_MAX + 1]; /* NULL-terminated */
	size_t nheaders;
	struct https_header got[ANSWERS];
};

static void credential_finish(struct credential *who)
{
	if (who->text)
		explicit_bzero(who->text, strlen(who->text));
	free(who->text);
	*who = (struct credential){0};
}

static int credential_read(const char *text, struct credential *out, struct err *e)
{
	struct credential who = {.text = text ? strdup(text) : NULL};
	char *rest = who.text, *more;

	who.id = rest ? strsep(&rest, "\n") : NULL;
	who.secret = rest ? strsep(&rest, "\n") : NULL;
	who.session = rest ? strsep(&rest, "\n") : NULL;
	more = rest;
	if (!who.id || !*who.id || !who.secret || !*who.secret || strchr(who.id, ':') ||
	    (who.session && !*who.session) || more) {
		credential_finish(&who);
		return err_set(
		    e, ERR_CONFIG,
		    "the credential holds no access key id, secret access key and perhaps session token, each on "
		    "a line of its own");
	}
	*out = who;
	return 0;
}

static int digest_hex(const char *text, char out[2 * 32 + 1], struct err *e)
{
	uint8_t digest[32];

	if (EVP_Digest(text, strlen(text), digest, NULL, EVP_sha256(), NULL) != 1)
		return err_set(e, ERR_NOMEM, "no memory for a digest");
	for (size_t i = 0; i < sizeof digest; i++)
		snprintf(out + 2 * i, 3, "%02x", digest[i]);
	return 0;
}

/* Services want one checksum or the other with a lock: this one all of them know. */
static char *digest_md5(const char *text)
{
	uint8_t digest[16], out[25];

	if (EVP_Digest(text, strlen(text), digest, NULL, EVP_md5(), NULL) != 1)
		return NULL;
	EVP_EncodeBlock(out, digest, sizeof digest);
	return strdup((const char *)out);
}

static int add_header(struct put *p, const char *name, const char *value, struct err *e)
{
	char *line = NULL;

	if (p->nheaders == HEADERS_MAX || !value || asprintf(&line, "%s: %s", name, value) < 0)
		return err_set(e, ERR_NOMEM, "no memory for an exchange");
	p->headers[p->nheaders++] = line;
	return 0;
}

static void drop_headers(struct put *p)
{
	while (p->nheaders) {
		char *line = p->headers[--p->nheaders];

		p->headers[p->nheaders] = NULL;
		explicit_bzero(line, strlen(line));
		free(line);
	}
}

/* Of every request. */
static int sign(struct put *p, const char *body, struct err *e)
{
	int rc = digest_hex(body, p->sha256, e);

	drop_headers(p);
	if (rc == 0)
		rc = add_header(p, "x-amz-content-sha256", p->sha256, e);
	if (rc == 0 && p->who.session)
		rc = add_header(p, "x-amz-security-token", p->who.session, e);
	return rc;
}

static const char *mode_of(const struct conf_witness *w)
{
	return w->lock_mode && strcmp(w->lock_mode, "governance") == 0 ? "GOVERNANCE" : "COMPLIANCE";
}

static int exchange(struct put *p, const char *method, const char *url, const char *body, long *out_status,
		    char *answer, size_t size, struct err *e)
{
	struct https_call call = {.url = url,
				  .ca = p->c->ca,
				  .method = method,
				  .bytes = body,
				  .bytes_n = body ? strlen(body) : 0,
				  .type = "application/json",
				  .sigv4 = p->sigv4,
				  .user = p->user,
				  .headers = (const char *const *)p->headers,
				  .want = p->got,
				  .nwant = ANSWERS,
				  .timeout_ns = p->c->conf->timeout_ns};
	struct buf text;
	size_t n;
	int rc;

	for (size_t i = 0; i < ANSWERS; i++)
		p->got[i].value[0] = '\0';
	buf_init(&text, HTTPS_ANSWER_MAX);
	rc = https_bytes(&call, out_status, &text, e);
	n = buf_len(&text) < size ? buf_len(&text) : size - 1;
	if (n)
		memcpy(answer, buf_ptr(&text), n);
	answer[n] = '\0';
	buf_finish(&text);
	return rc;
}

/* <Code> and <Message> of an answer in XML; the whole is not read: an answer is not to be believed anyway. */
static int kind_s3_refused(const struct put *p, long status, const char *answer, struct err *e)
{
	char code[64] = "", words[160] = "";
	const char *at = strstr(answer, "<Code>"), *message = strstr(answer, "<Message>");

	if (at)
		(void)sscanf(at, "<Code>%63[A-Za-z0-9]", code);
	if (message)
		(void)sscanf(message, "<Message>%159[ -;=-~]", words);
	return err_set(e, ERR_UNAVAILABLE, "%s answered %ld%s%s%s%s", p->c->conf->url, status, *code ? " " : "", code,
		       *words ? ": " : "", words);
}

static int store(struct put *p, struct err *e)
{
	char answer[2048];
	char *md5 = digest_md5(p->body);
	long status = 0;
	int rc = sign(p, p->body, e);

	if (rc == 0)
		rc = add_header(p, "Content-MD5", md5, e);
	if (rc == 0)
		rc = add_header(p, "x-amz-object-lock-mode", mode_of(p->c->conf), e);
	if (rc == 0)
		rc = add_header(p, "x-amz-object-lock-retain-until-date", p->until, e);
	if (rc == 0)
		rc = exchange(p, "PUT", p->url, p->body, &status, answer, sizeof answer, e);
	if (rc == 0 && status != 200)
		rc = kind_s3_refused(p, status, answer, e);
	if (rc == 0 && (!*p->got[VERSION].value || strcmp(p->got[VERSION].value, "null") == 0))
		rc = err_set(e, ERR_UNAVAILABLE, "%s keeps no versions: object lock is not on in its bucket",
			     p->c->conf->url);
	free(md5);
	return rc;
}

/* A version id is the service's text, and goes into a URL. */
static bool plain_version(const char *id)
{
	return id[strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")] == '\0';
}

static bool locked_until(const char *text, time_t least)
{
	struct tm tm = {0};
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

	return end && timegm(&tm) >= least;
}

/* Does the new version have the lock that was asked for? Who may not ask is answered without these headers. */
static int kind_s3_look(struct put *p, const char *version, bool *out_locked, struct err *e)
{
	char answer[2048];
	char *url = NULL;
	long status = 0;
	int rc =
	    asprintf(&url, "%s?versionId=%s", p->url, version) < 0 ? err_set(e, ERR_NOMEM, "no memory for a URL") : 0;

	if (rc == 0)
		rc = sign(p, "", e);
	if (rc == 0)
		rc = exchange(p, "HEAD", url, NULL, &status, answer, sizeof answer, e);
	if (rc == 0 && status != 200)
		rc = err_set(e, ERR_UNAVAILABLE, "%s took the head and answers %ld for it", p->c->conf->url, status);
	if (rc == 0 && *p->got[MODE].value && strcmp(p->got[MODE].value, mode_of(p->c->conf)) != 0)
		rc = err_set(e, ERR_UNAVAILABLE, "%s took the head under lock %.20s, not %s", p->c->conf->url,
			     p->got[MODE].value, mode_of(p->c->conf));
	if (rc == 0 && *p->got[MODE].value && !locked_until(p->got[UNTIL].value, p->until_s - SKEW_SECONDS))
		rc = err_set(e, ERR_UNAVAILABLE, "%s took the head with a shorter lock than until %s", p->c->conf->url,
			     p->until);
	*out_locked = rc == 0 && *p->got[MODE].value;
	free(url);
	return rc;
}

static int kind_s3_prepare(struct put *p, struct err *e)
{
	const struct conf_witness *w = p->c->conf;
	const char *log_id = NULL;
	struct tm tm;
	int rc = credential_read(p->c->token, &p->who, e);

	if (rc == 0)
		rc = json_need_str(p->c->head, "log_id", &log_id, e);
	p->until_s = (time_t)((uint64_t)clock_wall_ns() / NS_PER_SEC + w->lock_ns / NS_PER_SEC);
	if (rc == 0 && (!gmtime_r(&p->until_s, &tm) ||
			strftime(p->until, sizeof p->until, "%Y-%m-%dT%H:%M:%SZ", &tm) != TIME_LEN - 1))
		rc = err_set(e, ERR_CONFIG, "lock ends beyond the year 9999");
	if (rc == 0 && (!(p->body = json_text(p->c->head)) ||
			asprintf(&p->url, "%s/%s/%020lld.json", w->url, log_id, (long long)p->c->seq) < 0 ||
			asprintf(&p->user, "%s:%s", p->who.id, p->who.secret) < 0 ||
			asprintf(&p->sigv4, "aws:amz:%s:s3", w->region) < 0))
		rc = err_set(e, ERR_NOMEM, "no memory for an exchange");
	return rc;
}

static void put_finish(struct put *p)
{
	drop_headers(p);
	if (p->user)
		explicit_bzero(p->user, strlen(p->user));
	credential_finish(&p->who);
	free(p->user);
	free(p->sigv4);
	free(p->url);
	free(p->body);
}

int kind_s3_send(const struct kind_call *c, json_t **out, struct err *e)
{
	struct put p = {.c = c,
			.got = {[VERSION] = {.name = "x-amz-version-id"},
				[ETAG] = {.name = "etag"},
				[MODE] = {.name = "x-amz-object-lock-mode"},
				[UNTIL] = {.name = "x-amz-object-lock-retain-until-date"}}};
	char version[HTTPS_HEADER_MAX] = "", etag[HTTPS_HEADER_MAX] = "";
	bool locked = false;
	int rc = kind_s3_prepare(&p, e);

	if (rc == 0)
		rc = store(&p, e);
	if (rc == 0 && !plain_version(p.got[VERSION].value))
		rc = err_set(e, ERR_PROTOCOL, "%s names a version that no URL can hold", c->conf->url);
	if (rc == 0) {
		snprintf(version, sizeof version, "%s", p.got[VERSION].value);
		snprintf(etag, sizeof etag, "%s", p.got[ETAG].value);
		rc = kind_s3_look(&p, version, &locked, e);
	}
	if (rc == 0 && !(*out = json_pack("{s:s, s:s, s:s, s:s, s:b, s:I}", "object", p.url, "version", version, "etag",
					  etag, "locked_until", p.until, "lock_seen", (int)locked, "witness_wall_ns",
					  (json_int_t)clock_wall_ns())))
		rc = err_set(e, ERR_NOMEM, "no memory for a receipt");
	put_finish(&p);
	return rc;
}

/* A log-in as the client drives it: names, tokens, keys, reasons. */
#define LOG_SUBSYS "ssh"
#include "muxd/doors/ssh/auth.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/doors/ssh/conn.h"
#include "muxd/hub/core/hub.h"
#include "policy/reason.h"

#include <ctype.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

/* An agent full of keys is no attack; a thousand of them is. */
#define OFFERS_MAX 32

/* A line on the client's screen before it is in (SSH_MSG_USERAUTH_BANNER). */
static void auth_say(struct ssh_conn *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void auth_say(struct ssh_conn *c, const char *fmt, ...)
{
	char raw[600], line[610];
	va_list ap;
	ssh_string s;
	size_t n;

	va_start(ap, fmt);
	text_vformat(raw, sizeof(raw), fmt, ap);
	va_end(ap);
	ssh_login_printable(line, sizeof(raw), raw);
	n = strlen(line);
	memcpy(line + n, "\r\n", 3);
	s = ssh_string_from_char(line);
	if (s)
		ssh_send_issue_banner(c->ssh, s);
	ssh_string_free(s);
}

/* One more failure: the next try is read a second later than after the one before. */
static void auth_failed(struct ssh_conn *c)
{
	uint64_t delay = ++c->auth.failures * NS_PER_SEC;

	(void)admit_failed(c->place, clock_boot_ns());
	if (c->auth.failures >= hub_conf(c->door->hub)->ssh_max_auth_tries) {
		ssh_auth_set_state(c, SSH_AUTHN_FAILED);
		ssh_auth_audit(c, "too many tries", ERR_RATE_LIMITED, "too many log-ins failed on one connection");
		ssh_conn_doom(c, "too many log-ins failed");
		return;
	}
	ssh_conn_pause(c, delay);
}

static int auth_refused(struct ssh_conn *c, const struct err *e)
{
	auth_say(c, "muxd: %s (%s). %s", e->message, err_name(e->code), err_hint(e->code));
	auth_failed(c);
	return SSH_AUTH_DENIED;
}

/* A try whose content is not looked at is a failure like any other, and its reason is in the audit log. */
static int auth_unseen(struct ssh_conn *c, const char *what, int code, const char *why)
{
	ssh_auth_audit(c, what, code, why);
	auth_failed(c);
	return SSH_AUTH_DENIED;
}

/* Without a login name that can be one there is nothing to try again. */
static void auth_nameless(struct ssh_conn *c, int code, const char *why, const char *doom)
{
	ssh_auth_given_up(c, "login name", code, why);
	ssh_auth_set_state(c, SSH_AUTHN_FAILED);
	ssh_conn_doom(c, "%s", doom);
}

/* The login name holds for the whole connection. False: refused, and said so. */
static bool auth_user(struct ssh_conn *c, const char *user)
{
	static const char too_long[] = "a login name that is too long";
	struct err e = {0};

	if (c->auth.state == SSH_AUTHN_FAILED || c->auth.state == SSH_AUTHN_DONE)
		return false;
	if (!user || strlen(user) >= sizeof(c->auth.user)) {
		auth_nameless(c, ERR_INVAL, too_long, too_long);
		return false;
	}
	admit_spoke(c->place, clock_boot_ns());
	if (c->auth.user[0] && strcmp(c->auth.user, user) != 0) {
		(void)auth_unseen(c, "login name", ERR_UNAUTHENTICATED, "another login name than the first one");
		return false;
	}
	if (c->auth.user[0])
		return true;
	if (ssh_login_parse(user, &c->auth.login, &e) != 0) {
		auth_say(c, "muxd: %s. Log in as AGENT@host, or AGENT+SESSION@host.", e.message);
		auth_nameless(c, e.code, e.message, "no login name");
		return false;
	}
	strcpy(c->auth.user, user);
	return true;
}

/* A request that comes while a delay runs is refused unseen; it was sent without waiting for the answer before. */
static bool auth_too_early(struct ssh_conn *c)
{
	if (!c->paused)
		return false;
	(void)auth_unseen(c, "early try", ERR_RATE_LIMITED, "sent during the delay after a failure, and not looked at");
	return true;
}

/* The grant of c->auth.in is valid. False: there is no room for one more, which is said. */
static bool auth_let_in(struct ssh_conn *c)
{
	static const char full[] =
	    "too many connections of people who are logged in (ssh.max_connections, ssh.max_per_address)";
	const struct admit_rules r = ssh_door_rules(c->door);
	enum grant_kind kind = request_kept_grant(c->auth.in)->kind;

	if (admit_in(c->place, &r, kind == GRANT_STAFF || kind == GRANT_AUDITOR, clock_boot_ns())) {
		ssh_auth_set_state(c, SSH_AUTHN_DONE);
		ssh_conn_opened(c);
		return true;
	}
	ssh_auth_set_state(c, SSH_AUTHN_FAILED);
	auth_say(c, "muxd: %s", full);
	ssh_auth_audit(c, "connection", ERR_LIMIT, full);
	ssh_conn_doom(c, "%s", full);
	return false;
}

static int token_check(struct ssh_conn *c, const char *token)
{
	struct origin from = ssh_auth_origin(c);
	struct err e = {0};
	struct request rq = {0};
	int rc;

	if (auth_too_early(c))
		return SSH_AUTH_DENIED;
	rc = broker_authenticate(c->door->hub, token, strlen(token), &from, &rq, &e);
	if (rc == 0) {
		rc = grant_allows(&rq.grant, c->auth.login.agent, 0, &e);
		if (rc)
			broker_audit_refused(c->door->hub, &from, "agent", &rq.grant, &e);
	}
	if (rc) {
		OPENSSL_cleanse(&rq, sizeof(rq));
		return auth_refused(c, &e);
	}
	c->auth.in = request_keep(c->door->hub, &rq);
	OPENSSL_cleanse(&rq, sizeof(rq));
	if (!c->auth.in) {
		ssh_conn_doom(c, "out of memory");
		return SSH_AUTH_DENIED;
	}
	return auth_let_in(c) ? SSH_AUTH_SUCCESS : SSH_AUTH_DENIED;
}

static int auth_on_none(ssh_session s, const char *user, void *arg)
{
	struct ssh_conn *c = arg;

	(void)s;
	auth_user(c, user);
	return SSH_AUTH_DENIED;
}

static const char reason_alone[] = "after a key only the reason is wanted";

static bool auth_has_key(const struct ssh_conn *c)
{
	return c->auth.state != SSH_AUTHN_START && c->auth.state != SSH_AUTHN_TOKEN_ASKED;
}

static int auth_on_password(ssh_session s, const char *user, const char *password, void *arg)
{
	struct ssh_conn *c = arg;

	(void)s;
	if (!auth_user(c, user) || !password)
		return SSH_AUTH_DENIED;
	if (auth_has_key(c))
		return auth_unseen(c, "password", ERR_UNAUTHENTICATED, reason_alone);
	return token_check(c, password);
}

static const struct conf_staff *key_owner(struct ssh_conn *c, ssh_key key)
{
	const struct conf_staff *who = NULL;
	char *blob = NULL;
	const char *type = ssh_key_type_to_char(ssh_key_type(key));

	if (ssh_key_type(key) == SSH_KEYTYPE_ECDSA_P256 || ssh_key_type(key) == SSH_KEYTYPE_ECDSA_P384 ||
	    ssh_key_type(key) == SSH_KEYTYPE_ECDSA_P521)
		type = ssh_pki_key_ecdsa_name(key);
	if (type && ssh_pki_export_pubkey_base64(key, &blob) == SSH_OK)
		who = ssh_login_staff(hub_conf(c->door->hub), type, blob, c->auth.login.agent);
	ssh_string_free_char(blob);
	return who;
}

static int key_shown(struct ssh_conn *c, const struct conf_staff *who)
{
	text_put(c->auth.principal, sizeof(c->auth.principal), who->principal);
	ssh_auth_set_state(c, SSH_AUTHN_KEY_SHOWN);
	ssh_set_auth_methods(c->ssh, SSH_AUTH_METHOD_INTERACTIVE);
	auth_say(
	    c,
	    "muxd: key of %s accepted; the reason comes next, at a prompt (no BatchMode: scripts use a grant token as "
	    "the password).",
	    c->auth.principal);
	return SSH_AUTH_PARTIAL;
}

static int auth_on_key(ssh_session s, const char *user, struct ssh_key_struct *key, char signature, void *arg)
{
	struct ssh_conn *c = arg;
	const struct conf_staff *who;

	(void)s;
	if (!auth_user(c, user) || (auth_has_key(c) && signature == SSH_PUBLICKEY_STATE_NONE))
		return SSH_AUTH_DENIED;
	if (auth_has_key(c))
		return auth_unseen(c, "key", ERR_UNAUTHENTICATED, reason_alone);
	if (signature != SSH_PUBLICKEY_STATE_NONE && auth_too_early(c))
		return SSH_AUTH_DENIED;
	who = key_owner(c, key);
	if (who && signature == SSH_PUBLICKEY_STATE_NONE)
		return SSH_AUTH_SUCCESS; /* go on and sign */
	if (who && signature == SSH_PUBLICKEY_STATE_VALID)
		return key_shown(c, who);
	if (who || signature != SSH_PUBLICKEY_STATE_NONE) {
		ssh_auth_audit(c, "key", ERR_UNAUTHENTICATED, "a signature without a key of staff for this agent");
		auth_failed(c);
	} else if (++c->auth.offers > OFFERS_MAX) {
		ssh_auth_given_up(c, "key", ERR_UNAUTHENTICATED, "too many keys were offered");
		ssh_auth_set_state(c, SSH_AUTHN_FAILED);
		ssh_conn_doom(c, "too many keys were offered");
	}
	return SSH_AUTH_DENIED;
}

/* Without an answer libssh would ask the host's Kerberos, before anybody is known. */
static ssh_string auth_on_gssapi(ssh_session s, const char *user, int n, ssh_string *oids, void *arg)
{
	(void)s;
	(void)user;
	(void)n;
	(void)oids;
	(void)arg;
	return NULL;
}

static void auth_ask(struct ssh_conn *c, ssh_message msg, const char *title, const char *prompt, char echo)
{
	const char *prompts[] = {prompt};

	if (ssh_message_auth_interactive_request(msg, title, "", prompt ? 1 : 0, prompt ? prompts : NULL,
						 prompt ? &echo : NULL) == SSH_ERROR)
		ssh_conn_doom(c, "a prompt could not be sent");
}

/* The first word of keyboard-interactive: what is missing is asked for. */
static bool prompt_first(struct ssh_conn *c, ssh_message msg)
{
	if (!auth_user(c, ssh_message_auth_user(msg)))
		return false;
	switch (c->auth.state) {
	case SSH_AUTHN_START:
	case SSH_AUTHN_TOKEN_ASKED:
		ssh_auth_set_state(c, SSH_AUTHN_TOKEN_ASKED);
		auth_ask(c, msg, "", "Token as password: ", 0);
		return true;
	case SSH_AUTHN_KEY_SHOWN:
	case SSH_AUTHN_REASON_ASKED:
		ssh_auth_set_state(c, SSH_AUTHN_REASON_ASKED);
		auth_ask(c, msg, "", "Reason: ", 1);
		return true;
	default:
		return false;
	}
}

static void auth_on_issued(void *arg, int rc, const struct err *e, const struct request *rq)
{
	struct ssh_auth_issue *issue = arg;
	struct ssh_conn *c = issue->conn;

	if (!c) {
		free(issue);
		return;
	}
	ssh_conn_enter(c);
	if (rc == 0 && !(c->auth.in = request_keep(c->door->hub, rq)))
		err_set(&issue->refused, ERR_NOMEM, "no memory for the log-in");
	else if (rc)
		issue->refused = *e;
	if (c->auth.in)
		ssh_auth_forget_issue(c);
	if (c->auth.state == SSH_AUTHN_ISSUING)
		ssh_auth_set_state(c, SSH_AUTHN_ISSUED);
	ssh_conn_resume(c);
	ssh_conn_leave(c);
}

static int reason_take(const char *answer, char out[GRANT_REASON_MAX + 1], struct err *e)
{
	size_t n;

	while (isspace((unsigned char)*answer))
		answer++;
	n = strlen(answer);
	while (n > 0 && isspace((unsigned char)answer[n - 1]))
		n--;
	if (n == 0)
		return err_set(e, ERR_REASON_REQUIRED, "the reason was empty");
	if (n > GRANT_REASON_MAX)
		return err_set(e, ERR_TOO_LARGE, "reason too long (max %d bytes)", GRANT_REASON_MAX);
	memcpy(out, answer, n);
	out[n] = '\0';
	return reason_check(out, e);
}

/* True when an answer was sent; false: refuse. */
static bool reason_given(struct ssh_conn *c, ssh_message msg, const char *answer)
{
	char reason[GRANT_REASON_MAX + 1];
	struct origin from = ssh_auth_origin(c);
	struct ssh_auth_issue *issue;
	struct err e = {0};

	if (reason_take(answer, reason, &e) != 0) {
		ssh_auth_audit(c, "reason", e.code, e.message);
		ssh_auth_set_state(c, SSH_AUTHN_KEY_SHOWN);
		auth_refused(c, &e);
		return false;
	}
	issue = calloc(1, sizeof(*issue));
	if (!issue) {
		ssh_conn_doom(c, "out of memory");
		return false;
	}
	issue->conn = c;
	c->auth.issue = issue;
	ssh_auth_set_state(c, SSH_AUTHN_ISSUING);
	auth_ask(c, msg, "", NULL, 0);
	ssh_conn_pause(c, 0);
	broker_issue_staff(c->door->hub, c->auth.principal, c->auth.login.agent, reason, &from, auth_on_issued, issue);
	return true;
}

/* The client's empty answer after its reason: the grant is there, or why not. */
static bool issue_finish(struct ssh_conn *c, ssh_message msg)
{
	if (c->auth.issue) {
		ssh_auth_set_state(c, SSH_AUTHN_KEY_SHOWN);
		auth_refused(c, &c->auth.issue->refused);
		ssh_auth_forget_issue(c);
		return false;
	}
	return auth_let_in(c) && ssh_message_auth_reply_success(msg, 0) == SSH_OK;
}

static bool prompt_answered(struct ssh_conn *c, ssh_message msg)
{
	const enum ssh_auth_state state = c->auth.state;
	const char *answer = NULL;

	if (state == SSH_AUTHN_DONE || state == SSH_AUTHN_FAILED)
		return false;
	if (state == SSH_AUTHN_ISSUED)
		return issue_finish(c, msg);
	if (ssh_userauth_kbdint_getnanswers(c->ssh) == 1)
		answer = ssh_userauth_kbdint_getanswer(c->ssh, 0);
	if (answer && state == SSH_AUTHN_TOKEN_ASKED)
		return token_check(c, answer) == SSH_AUTH_SUCCESS && ssh_message_auth_reply_success(msg, 0) == SSH_OK;
	if (answer && state == SSH_AUTHN_REASON_ASKED)
		return !auth_too_early(c) && reason_given(c, msg, answer);
	(void)auth_unseen(c, "answer", ERR_UNAUTHENTICATED, "not the one answer that was asked for");
	return false;
}

bool ssh_auth_message(struct ssh_conn *c, ssh_message msg)
{
	if (ssh_message_subtype(msg) != SSH_AUTH_METHOD_INTERACTIVE)
		return false;
	if (ssh_message_auth_kbdint_is_response(msg))
		return prompt_answered(c, msg);
	return prompt_first(c, msg);
}

void ssh_auth_begin(struct ssh_conn *c)
{
	int methods = SSH_AUTH_METHOD_PASSWORD | SSH_AUTH_METHOD_INTERACTIVE;

	if (ssh_login_has_staff(hub_conf(c->door->hub)))
		methods |= SSH_AUTH_METHOD_PUBLICKEY;
	ssh_set_auth_methods(c->ssh, methods);
	c->callbacks.auth_none_function = auth_on_none;
	c->callbacks.auth_password_function = auth_on_password;
	c->callbacks.auth_pubkey_function = auth_on_key;
	c->callbacks.gssapi_select_oid_function = auth_on_gssapi;
}

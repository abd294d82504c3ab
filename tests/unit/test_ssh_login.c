// tier: check
/* Login names of the SSH door, and whose key may enter which agent. */
#include "base/conf.h"
#include "base/err.h"
#include "muxd/doors/ssh/login.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define SESSION "01890a5d-ac96-774b-bcce-b302099a8057"

static void names_that_are_taken(void **state)
{
	static const struct {
		const char *user, *agent, *session;
		bool attach;
	} t[] = {
	    {"demo", "demo", "", false},
	    {"demo+last", "demo", "", true},
	    {"demo+" SESSION, "demo", SESSION, true},
	    {SESSION, SESSION, "", false},
	    {"ns/pod-1/app", "ns/pod-1/app", "", false},
	    {"ns/pod-1+last", "ns/pod-1", "", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ssh_login l;

		assert_int_equal(ssh_login_parse(t[i].user, &l, NULL), 0);
		assert_string_equal(l.agent, t[i].agent);
		assert_string_equal(l.session, t[i].session);
		assert_int_equal(l.attach, t[i].attach);
	}
}

static void names_that_are_refused(void **state)
{
	static const char *const t[] = {"",          "+last",     "demo+",     "demo+newest",      "demo+last+last",
					"demo+1234", "Demo",      "demo;ls",   "../demo",          "demo\n",
					"-demo",     "demo last", "root@demo", "demo+" SESSION "0"};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ssh_login l = {.agent = "untouched"};
		struct err e = {0};

		assert_int_equal(ssh_login_parse(t[i], &l, &e), ERR_INVAL);
		assert_int_equal(e.code, ERR_INVAL);
		assert_true(e.message[0] != '\0');
		assert_string_equal(l.agent, "untouched");
	}
}

static void a_name_that_is_too_long(void **state)
{
	char user[600];
	struct ssh_login l;

	(void)state;
	memset(user, 'a', sizeof(user) - 1);
	user[sizeof(user) - 1] = '\0';
	assert_int_equal(ssh_login_parse(user, &l, NULL), ERR_INVAL);
}

static char alice[] = "alice", bob[] = "bob", demo[] = "demo", build[] = "build", every[] = "*";
static char alice_ed25519[] = "ssh-ed25519 AAAAalice alice@desk", alice_rsa[] = "  ssh-rsa\tAAAArsa\n";
static char bob_ed25519[] = "ssh-ed25519 AAAAbob";
static char *alice_keys[] = {alice_ed25519, alice_rsa}, *alice_agents[] = {demo, build};
static char *bob_keys[] = {bob_ed25519}, *bob_agents[] = {every};
static struct conf_staff staff[] = {
    {.principal = alice, .keys = alice_keys, .nkeys = 2, .agents = alice_agents, .nagents = 2},
    {.principal = bob, .keys = bob_keys, .nkeys = 1, .agents = bob_agents, .nagents = 1},
};

static void whose_key_enters_where(void **state)
{
	static const struct {
		const char *type, *blob, *agent, *principal;
	} t[] = {
	    {"ssh-ed25519", "AAAAalice", "demo", "alice"},
	    {"ssh-ed25519", "AAAAalice", "build", "alice"},
	    {"ssh-ed25519", "AAAAalice", "other", NULL},
	    {"ssh-rsa", "AAAArsa", "demo", "alice"},
	    {"ssh-rsa", "AAAAalice", "demo", NULL},
	    {"ssh-ed25519", "AAAAbob", "anything", "bob"},
	    {"ssh-ed25519", "AAAAalic", "demo", NULL},
	    {"ssh-ed25519", "AAAAalicee", "demo", NULL},
	    {"ssh-ed25519", "", "demo", NULL},
	    {"ssh-ed25519-cert-v01@openssh.com", "AAAAbob", "demo", NULL},
	};
	const struct conf c = {.staff = staff, .nstaff = 2};

	(void)state;
	assert_true(ssh_login_has_staff(&c));
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		const struct conf_staff *s = ssh_login_staff(&c, t[i].type, t[i].blob, t[i].agent);

		if (t[i].principal) {
			assert_non_null(s);
			assert_string_equal(s->principal, t[i].principal);
		} else {
			assert_null(s);
		}
	}
}

static void without_staff_no_key_is_asked_for(void **state)
{
	const struct conf c = {0};

	(void)state;
	assert_false(ssh_login_has_staff(&c));
	assert_null(ssh_login_staff(&c, "ssh-ed25519", "AAAA", "demo"));
}

static void text_of_a_peer_is_made_printable(void **state)
{
	char out[14];

	(void)state;
	ssh_login_printable(out, sizeof(out), "a\x1b[31m\n");
	assert_string_equal(out, "a\\x1b[31m\\n");
	ssh_login_printable(out, 8, "abcdefghij");
	assert_string_equal(out, "abcd\xe2\x80\xa6");
	ssh_login_printable(out, sizeof(out), "");
	assert_string_equal(out, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_that_are_taken),
	    cmocka_unit_test(names_that_are_refused),
	    cmocka_unit_test(a_name_that_is_too_long),
	    cmocka_unit_test(whose_key_enters_where),
	    cmocka_unit_test(without_staff_no_key_is_asked_for),
	    cmocka_unit_test(text_of_a_peer_is_made_printable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

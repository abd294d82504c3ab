// tier: check
#include "base/err.h"
#include "muxd/monitor/file.h"
#include "muxd/monitor/grants.h"
#include "muxd/monitor/tally.h"
#include "policy/grant_narrow.h"
#include "tests/lib/folders_fail.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000000)
#define NOW    (INT64_C(1800000000) * SECOND)

struct fixture {
	char dir[64], path[96];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	strcpy(f->dir, "/tmp/muxd-grants.XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	snprintf(f->path, sizeof f->path, "%s/grants.log", f->dir);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	unlink(f->path);
	rmdir(f->dir);
	free(f);
	return 0;
}

static struct grant lasting(int64_t seconds)
{
	struct grant g = {.kind = GRANT_STAFF,
			  .scopes = SCOPE_TERMINAL,
			  .issued_ns = NOW,
			  .not_before_ns = NOW,
			  .expires_ns = NOW + seconds * SECOND,
			  .issuer = "01890a5d-ac96-774b-bcce-b302099a8057",
			  .principal = "ada",
			  .agent = "demo",
			  .task = "console",
			  .reason = "say \"why\" \xe2\x82\xac"};
	assert_int_equal(id_new(&g.id), 0);
	return g;
}

static struct grants *open_at(const char *path, int64_t now, struct grants_load *load)
{
	struct grants *g = NULL;
	struct err e = {0};

	if (grants_open(path, now, &g, load, &e))
		fail_msg("%s", e.message);
	return g;
}

static size_t lines_of(const char *path)
{
	char *text = NULL;
	size_t len = 0, n = 0;

	assert_int_equal(file_read(path, 1 << 24, &text, &len, NULL), 0);
	for (size_t i = 0; i < len; i++)
		n += text[i] == '\n';
	free(text);
	return n;
}

static int count_one(void *arg, const struct id *id, int64_t expires_ns)
{
	(void)id;
	(void)expires_ns;
	++*(size_t *)arg;
	return 0;
}

static size_t revoked_count(const struct grants *g)
{
	size_t n = 0;

	assert_int_equal(grants_each_revoked(g, count_one, &n), 0);
	return n;
}

static void append(const char *path, const char *text)
{
	FILE *f = fopen(path, "a");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void grants_and_revocations_survive_a_restart(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grant a = lasting(900), b = lasting(900);
	struct grants_revoked out;
	struct stat st;
	json_t *list = NULL;
	bool more = true;

	assert_int_equal(grants_create(g, &a, "admin", "uid 0", NULL), 0);
	assert_int_equal(grants_create(g, &b, "ssh-key", "net", NULL), 0);
	assert_int_equal(grants_create(g, &b, "admin", "uid 0", NULL), ERR_CONFLICT);
	assert_int_equal(grants_revoke(g, &a.id, GRANTS_WITH_ALL, NOW, "admin", "uid 0", &out, NULL), 0);
	assert_true(id_equal(&out.id, &a.id) && out.until_ns == a.expires_ns);
	grants_close(g);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);

	g = open_at(f->path, NOW + SECOND, &load);
	assert_int_equal(load.alive, 2);
	assert_int_equal(load.expired, 0);
	assert_int_equal(load.torn_bytes, 0);
	assert_int_equal(revoked_count(g), 1);
	assert_int_equal(grants_list(g, NULL, NULL, 10, &list, &more), 0);
	assert_false(more);
	assert_int_equal(json_array_size(list), 2);
	assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "reason")), a.reason);
	assert_true(json_is_true(json_object_get(json_array_get(list, 1), "revoked")));
	assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "via")), "ssh-key");
	assert_null(json_object_get(json_array_get(list, 0), "token"));
	json_decref(list);
	grants_close(g);
}

static bool is_alive(const struct grants *g, const struct grant *of)
{
	struct grant found;

	return grants_get(g, &of->id, &found, NULL, NULL) == 0 && id_equal(&found.id, &of->id);
}

/* Renewals of a grant and grants made from it go with it, also when it has expired itself, and stay gone. */
static void a_revocation_is_of_all_that_came_of_the_grant(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grant a = lasting(10), renewal = lasting(600), child = lasting(300), other = lasting(900),
		     unsaid = lasting(700);
	struct grants_revoked out;

	renewal.kin.first = unsaid.kin.first = a.id;
	renewal.since_ns = unsaid.since_ns = a.issued_ns;
	child.kin.above[child.kin.depth++] = a.id;
	assert_int_equal(grants_create(g, &a, "admin", "uid 0", NULL), 0);
	assert_int_equal(grants_create(g, &renewal, "grant", "grant a", NULL), 0);
	assert_true(grants_ends(g, &a.id) == a.expires_ns); /* a renewal counts once it is journaled */
	assert_int_equal(grants_renewed(g, &renewal.id, NULL), 0);
	assert_int_equal(grants_create(g, &child, "grant", "grant a", NULL), 0);
	assert_int_equal(grants_create(g, &other, "admin", "uid 0", NULL), 0);
	assert_int_equal(grants_create(g, &unsaid, "grant", "grant a", NULL), 0);
	assert_int_equal(grants_revoke(g, &unsaid.id, GRANTS_ALONE, NOW, "admin", "not journaled", &out, NULL), 0);
	assert_true(is_alive(g, &a) && is_alive(g, &renewal) && is_alive(g, &child) && !is_alive(g, &unsaid));
	assert_true(grants_ends(g, &a.id) == renewal.expires_ns);
	grants_close(g);

	g = open_at(f->path, NOW + 20 * SECOND, &load); /* the first of them is over, and the log written anew */
	assert_true(is_alive(g, &renewal) && is_alive(g, &child) && !is_alive(g, &unsaid));
	assert_int_equal(grants_revoke(g, &a.id, GRANTS_WITH_ALL, NOW, "admin", "uid 0", &out, NULL),
			 0); /* the id that is shown */
	assert_true(id_equal(&out.id, &a.id) && out.until_ns == unsaid.expires_ns);
	assert_true(!is_alive(g, &renewal) && !is_alive(g, &child) && is_alive(g, &other));
	assert_true(grants_ends(g, &a.id) == 0);
	grants_close(g);

	for (int restart = 0; restart < 2; restart++) {
		g = open_at(f->path, NOW + (restart ? 400 : 30) * SECOND, &load);
		assert_true(!is_alive(g, &renewal) && !is_alive(g, &child) && is_alive(g, &other));
		grants_close(g);
	}
}

/* The daemon ended before a renewal was journaled: nobody was told of it. */
static void a_renewal_that_was_not_journaled_is_none_after_a_restart(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grant a = lasting(100), renewal = lasting(600);
	struct grants_revoked out;

	renewal.kin.first = a.id;
	renewal.since_ns = a.issued_ns;
	assert_int_equal(grants_create(g, &a, "admin", "uid 0", NULL), 0);
	assert_int_equal(grants_create(g, &renewal, "grant", "grant a", NULL), 0);
	grants_close(g);
	g = open_at(f->path, NOW + SECOND, &load);
	assert_true(is_alive(g, &a) && !is_alive(g, &renewal));
	/* A revocation of it is one of its whole line, also after another restart. */
	assert_int_equal(grants_revoke(g, &renewal.id, GRANTS_WITH_ALL, NOW, "admin", "uid 0", &out, NULL), 0);
	assert_true(!is_alive(g, &a));
	grants_close(g);
	g = open_at(f->path, NOW + 2 * SECOND, &load);
	assert_true(!is_alive(g, &a) && !is_alive(g, &renewal));
	grants_close(g);
}

static void one_grant_does_not_fill_the_store(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grant a = lasting(900), child;
	int rc = 0;

	assert_int_equal(grants_create(g, &a, "admin", "uid 0", NULL), 0);
	for (int i = 1; i < GRANTS_OF_ONE && rc == 0; i++) {
		child = lasting(800);
		child.kin.above[child.kin.depth++] = a.id;
		rc = grants_create(g, &child, "grant", "grant a", NULL);
	}
	assert_int_equal(rc, 0);
	child = lasting(800);
	child.kin.above[child.kin.depth++] = a.id;
	assert_int_equal(grants_create(g, &child, "grant", "grant a", NULL), ERR_LIMIT);
	/* A renewal has the way of what it renews: it is one more of the same all the same. */
	child = lasting(850);
	child.kin.first = a.id;
	assert_int_equal(grants_create(g, &child, "admin", "uid 0", NULL), ERR_LIMIT);
	child = lasting(800);
	assert_int_equal(grants_create(g, &child, "admin", "uid 0", NULL), 0);
	grants_close(g);
}

/* A log of n grants, as it would be after so many calls, without the wait for each. */
static void write_grants(const char *path, const char *via, const char *by, size_t n)
{
	FILE *f = fopen(path, "a");
	char id[ID_STR_LEN];

	assert_non_null(f);
	for (size_t i = 0; i < n; i++) {
		struct grant g = lasting(900);

		id_format(&g.id, id);
		fprintf(
		    f,
		    "{\"op\":\"create\",\"id\":\"%s\",\"principal\":\"org/a\",\"kind\":\"agent\",\"agent\":\"demo\","
		    "\"scopes\":\"rounds\",\"task\":\"\",\"reason\":\"r\",\"issuer\":\"%s\",\"issued_ns\":%lld,"
		    "\"not_before_ns\":%lld,\"expires_ns\":%lld,\"via\":\"%s\",\"by\":\"%s\"}\n",
		    id, g.issuer, (long long)g.issued_ns, (long long)g.not_before_ns, (long long)g.expires_ns, via, by);
	}
	fclose(f);
}

/* The tokens of one issuer take nobody else's room, and all of them together not the administrator's. */
static void an_issuer_leaves_room_for_others(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grant one = lasting(900);
	struct err e = {0};
	struct grants *g;

	write_grants(f->path, "issuer", "issuer a", GRANTS_OF_SOURCE);
	g = open_at(f->path, NOW, &load);
	assert_int_equal(grants_create(g, &one, "issuer", "issuer a", &e), ERR_LIMIT);
	assert_non_null(strstr(e.message, "issuer a"));
	assert_int_equal(grants_create(g, &one, "issuer", "issuer b", NULL), 0);
	grants_close(g);
	write_grants(f->path, "cluster", "net", GRANTS_MAX - GRANTS_OF_ADMIN - GRANTS_OF_SOURCE - 1);
	g = open_at(f->path, NOW, &load);
	one = lasting(900);
	assert_int_equal(grants_create(g, &one, "ssh-key", "net", NULL), ERR_LIMIT);
	assert_int_equal(grants_create(g, &one, "admin", "uid 0", NULL), 0);
	grants_close(g);
}

struct owed {
	struct id grant[4];
	struct grants_owed of[4];
	size_t n, room; /* room: as many are taken */
};

static int take_owed(void *arg, const struct grant *grant, const struct grants_owed *o)
{
	struct owed *x = arg;

	if (x->n == x->room)
		return ERR_LIMIT;
	x->grant[x->n] = grant->id;
	x->of[x->n++] = *o;
	return 0;
}

static size_t take(struct grants *g, size_t room, struct owed *out)
{
	*out = (struct owed){.room = room};
	grants_each_owed(g, take_owed, out);
	return out->n;
}

static void told_all(struct grants *g)
{
	struct owed x;

	take(g, 4, &x);
	for (size_t i = 0; i < x.n; i++)
		grants_told(g, &x.grant[i], &x.of[i].event);
}

/* However often the log is read or written anew meanwhile, and also once the grant is over. */
static void a_revocation_owes_an_event_until_it_is_told(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grant a = lasting(20), dead = lasting(5), got;
	struct grants_revoked out;
	struct owed first, again;

	assert_int_equal(grants_create(g, &a, "admin", "uid 0", NULL), 0);
	assert_int_equal(grants_create(g, &dead, "admin", "uid 0", NULL), 0);
	assert_int_equal(take(g, 4, &first), 0);
	assert_int_equal(grants_revoke(g, &a.id, GRANTS_WITH_ALL, NOW + 1, "grant", "anna", &out, NULL), 0);
	assert_false(out.again);
	assert_int_equal(take(g, 0, &first), 0); /* nobody had room */
	assert_int_equal(take(g, 4, &first), 1);
	assert_int_equal(take(g, 4, &again), 0); /* it is on its way */
	assert_true(id_equal(&first.grant[0], &a.id) && first.of[0].at_ns == NOW + 1);
	assert_string_equal(first.of[0].via, "grant");
	assert_string_equal(first.of[0].by, "anna");
	assert_int_equal(grants_revoke(g, &a.id, GRANTS_WITH_ALL, NOW + 2, "admin", "uid 0", &out, NULL), 0);
	assert_true(out.again);
	assert_int_equal(take(g, 4, &again), 0);
	for (int i = 0; i < 3; i++) { /* as it is, written anew, and of a grant that is over */
		grants_close(g);
		g = open_at(f->path, NOW + 10 * i * SECOND, &load);
		assert_int_equal(take(g, 4, &again), 1);
		assert_memory_equal(&again.of[0], &first.of[0], sizeof first.of[0]);
		assert_int_equal(grants_get(g, &a.id, &got, NULL, NULL), ERR_TOKEN_REVOKED);
	}
	assert_int_equal(load.alive, 0);
	grants_told(g, &a.id, &dead.id); /* another event */
	grants_told(g, &a.id, &again.of[0].event);
	assert_int_equal(take(g, 4, &again), 0);
	grants_close(g);
	g = open_at(f->path, NOW + 15 * SECOND, &load);
	assert_int_equal(take(g, 4, &again), 0);
	assert_int_equal(grants_get(g, &a.id, &got, NULL, NULL), ERR_TOKEN_REVOKED);
	grants_close(g);
	g = open_at(f->path, NOW + 20 * SECOND, &load);
	assert_int_equal(grants_count(g), 0);
	grants_close(g);
}

/* The lines of a muxd that knew of no events. */
static void what_an_earlier_muxd_revoked_owes_none(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grant a = lasting(900);
	char id[ID_STR_LEN], line[200];
	struct owed x;

	assert_int_equal(grants_create(g, &a, "admin", "uid 0", NULL), 0);
	grants_close(g);
	id_format(&a.id, id);
	snprintf(line, sizeof line, "{\"op\":\"revoke\",\"id\":\"%s\",\"expires_ns\":1,\"at_ns\":1,\"by\":\"uid 0\"}\n",
		 id);
	append(f->path, line);
	g = open_at(f->path, NOW, &load);
	assert_int_equal(revoked_count(g), 1);
	assert_int_equal(take(g, 4, &x), 0);
	grants_close(g);
}

static void revoking_again_is_no_error_and_no_second_line(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grant a = lasting(900), unknown = lasting(1);
	struct grants_revoked out;

	assert_int_equal(grants_create(g, &a, "admin", "uid 0", NULL), 0);
	assert_int_equal(grants_revoke(g, &a.id, GRANTS_WITH_ALL, NOW, "admin", "uid 0", &out, NULL), 0);
	assert_int_equal(grants_revoke(g, &a.id, GRANTS_WITH_ALL, NOW, "admin", "uid 0", &out, NULL), 0);
	assert_int_equal(lines_of(f->path), 2);
	assert_int_equal(grants_revoke(g, &unknown.id, GRANTS_WITH_ALL, NOW, "admin", "uid 0", &out, NULL),
			 ERR_NOT_FOUND);
	grants_close(g);
}

static void expired_ones_are_dropped_at_the_start(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grant kept = lasting(900), gone = lasting(10);
	struct grants_revoked out;

	assert_int_equal(grants_create(g, &gone, "admin", "uid 0", NULL), 0);
	assert_int_equal(grants_create(g, &kept, "admin", "uid 0", NULL), 0);
	assert_int_equal(grants_revoke(g, &gone.id, GRANTS_WITH_ALL, NOW, "admin", "uid 0", &out, NULL), 0);
	assert_int_equal(grants_revoke(g, &kept.id, GRANTS_WITH_ALL, NOW, "admin", "uid 0", &out, NULL), 0);
	told_all(g);
	grants_close(g);
	g = open_at(f->path, NOW + 10 * SECOND, &load);
	assert_int_equal(load.alive, 1);
	assert_int_equal(load.expired, 1);
	assert_int_equal(lines_of(f->path), 2); /* what is kept, and that it is revoked */
	assert_int_equal(revoked_count(g), 1);
	/* The new file is the one that is written on. */
	gone = lasting(800);
	assert_int_equal(grants_create(g, &gone, "admin", "uid 0", NULL), 0);
	assert_int_equal(lines_of(f->path), 3);
	grants_close(g);
}

static void a_running_store_rewrites_its_log_once_most_of_it_is_dead(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grant kept = lasting(900);

	assert_int_equal(grants_create(g, &kept, "admin", "uid 0", NULL), 0);
	for (int i = 0; i < 1001; i++) {
		struct grant short_one = lasting(5);
		assert_int_equal(grants_create(g, &short_one, "admin", "uid 0", NULL), 0);
	}
	assert_int_equal(grants_expire(g, NOW + SECOND, NULL), 0);
	assert_int_equal(lines_of(f->path), 1002);
	assert_int_equal(grants_expire(g, NOW + 6 * SECOND, NULL), 0);
	assert_int_equal(grants_count(g), 1);
	assert_int_equal(lines_of(f->path), 1);
	grants_close(g);
}

/* The log has its new name by then: what is told as revoked must be in that file, or not be told. */
static void a_rewritten_log_whose_folder_is_not_synced_loses_nothing(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grant a = lasting(900), b = lasting(900), dead = lasting(5);
	struct grants_revoked out;

	assert_int_equal(grants_create(g, &a, "admin", "uid 0", NULL), 0);
	assert_int_equal(grants_create(g, &dead, "admin", "uid 0", NULL), 0);
	grants_close(g);
	folders_fail = true;
	g = open_at(f->path, NOW + 6 * SECOND, &load);
	assert_int_equal(grants_revoke(g, &a.id, GRANTS_WITH_ALL, NOW, "admin", "uid 0", &out, NULL), ERR_DISK_FULL);
	assert_int_equal(revoked_count(g), 0);
	folders_fail = false;
	assert_int_equal(grants_revoke(g, &a.id, GRANTS_WITH_ALL, NOW, "admin", "uid 0", &out, NULL), 0);
	assert_int_equal(grants_create(g, &b, "admin", "uid 0", NULL), 0);
	grants_close(g);
	g = open_at(f->path, NOW + 6 * SECOND, &load);
	assert_int_equal(load.alive, 2);
	assert_int_equal(revoked_count(g), 1);
	grants_close(g);
}

static void a_torn_last_line_is_cut_off(void **state)
{
	static const char *const tails[] = {"{\"op\":\"create\",\"id\":\"0189", "{", "{\"op\":\"revoke\"}"};
	struct fixture *f = *state;
	struct grants_load load;
	struct grant a = lasting(900), b = lasting(900);
	struct grants *g = open_at(f->path, NOW, &load);

	assert_int_equal(grants_create(g, &a, "admin", "uid 0", NULL), 0);
	grants_close(g);
	for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
		append(f->path, tails[i]);
		g = open_at(f->path, NOW, &load);
		assert_int_equal(load.torn_bytes, strlen(tails[i]));
		assert_int_equal(load.alive, 1);
		assert_int_equal(lines_of(f->path), 1);
		grants_close(g);
	}
	g = open_at(f->path, NOW, &load);
	assert_int_equal(load.torn_bytes, 0);
	assert_int_equal(grants_create(g, &b, "admin", "uid 0", NULL), 0); /* and the log goes on cleanly */
	grants_close(g);
	g = open_at(f->path, NOW, &load);
	assert_int_equal(load.alive, 2);
	grants_close(g);
}

static void damage_in_the_middle_refuses_the_start(void **state)
{
	static const char *const lines[] = {
	    "garbage\n",
	    "{\"op\":\"forget\"}\n",
	    "{\"op\":\"revoke\",\"id\":\"01890a5d-ac96-774b-bcce-b302099a8057\"}\n", /* of a grant never made */
	    "{\"op\":\"create\",\"id\":\"01890a5d-ac96-774b-bcce-b302099a8057\"}\n",
	    "[]\n",
	    "\n",
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		struct grants_load load;
		struct grants *g = open_at(f->path, NOW, &load), *none = NULL;
		struct grant a = lasting(900);
		struct err e = {0};

		assert_int_equal(grants_create(g, &a, "admin", "uid 0", NULL), 0);
		grants_close(g);
		append(f->path, lines[i]);
		assert_int_equal(grants_open(f->path, NOW, &none, &load, &e), ERR_CORRUPT);
		assert_non_null(strstr(e.message, "grants.log:2:"));
		assert_null(none);
		unlink(f->path);
	}
}

static void a_full_disk_leaves_no_half_line(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grant a = lasting(900), b = lasting(900);
	struct grants_revoked out;
	struct rlimit old, small;
	struct stat st;

	assert_int_equal(grants_create(g, &a, "admin", "uid 0", NULL), 0);
	assert_int_equal(stat(f->path, &st), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){(rlim_t)st.st_size + 50, old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_true(grants_create(g, &b, "admin", "uid 0", NULL) < 0); /* 50 bytes were written, then EFBIG */
	assert_true(grants_revoke(g, &a.id, GRANTS_WITH_ALL, NOW, "admin", "uid 0", &out, NULL) < 0);
	assert_int_equal(revoked_count(g), 0); /* not in memory either */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(lines_of(f->path), 1);
	assert_int_equal(grants_revoke(g, &a.id, GRANTS_WITH_ALL, NOW, "admin", "uid 0", &out, NULL),
			 0); /* it works again */
	grants_close(g);
	g = open_at(f->path, NOW, &load);
	assert_int_equal(load.torn_bytes, 0);
	assert_int_equal(load.alive, 1);
	assert_int_equal(revoked_count(g), 1);
	grants_close(g);
}

static int count_along(void *arg, const struct grant *grant)
{
	(void)grant;
	++*(int *)arg;
	return 0;
}

/* One token in three: spelled in two ways where it is shown, and asked for a grant beside that. Nothing of another. */
static void what_stands_for_a_token_ends_with_any_grant_of_it(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grants_token shown = {.until_ns = NOW + 900 * SECOND, .shown = true}, aside = shown, other = shown;
	struct grant one = lasting(900), two = lasting(900), asked = lasting(900), below = lasting(900),
		     theirs = lasting(900), got;
	struct grants_revoked out;
	struct owed before, after;
	int along = 0;

	assert_int_equal(id_new(&shown.id), 0);
	assert_int_equal(id_new(&other.id), 0);
	aside.id = shown.id;
	aside.shown = false;
	below.kin.depth = 1;
	below.kin.above[0] = two.id;
	assert_int_equal(grants_create_for(g, &one, &shown, "issuer", "issuer x", NULL), 0);
	assert_int_equal(grants_create_for(g, &two, &shown, "issuer", "issuer x", NULL), 0);
	assert_int_equal(grants_create_for(g, &asked, &aside, "issuer", "issuer x", NULL), 0);
	assert_int_equal(grants_create_for(g, &theirs, &other, "issuer", "issuer x", NULL), 0);
	assert_int_equal(grants_create(g, &below, "grant", "grant x", NULL), 0);
	assert_int_equal(grants_revoke(g, &one.id, GRANTS_WITH_ALL, NOW, "admin", "uid 0", &out, NULL), 0);
	assert_int_equal(grants_each_taken_along(g, &one.id, count_along, &along), 0);
	assert_int_equal(grants_revoke(g, &one.id, GRANTS_WITH_ALL, NOW, "admin", "uid 0", &out, NULL), 0);
	assert_int_equal(grants_each_taken_along(g, &one.id, count_along, &along), 0);
	assert_int_equal(along, 1); /* it is told once */
	assert_int_equal(take(g, 4, &before), 2);
	assert_false(id_equal(&before.of[0].event, &before.of[1].event));
	for (int again = 0; again < 3; again++) { /* as it is, as one line of the log says it, and written anew */
		assert_int_equal(grants_get(g, &one.id, &got, NULL, NULL), ERR_TOKEN_REVOKED);
		assert_int_equal(grants_get(g, &two.id, &got, NULL, NULL), ERR_TOKEN_REVOKED);
		assert_int_equal(grants_get(g, &below.id, &got, NULL, NULL), ERR_TOKEN_REVOKED);
		assert_int_equal(grants_get(g, &asked.id, &got, NULL, NULL), 0);
		assert_int_equal(grants_get(g, &theirs.id, &got, NULL, NULL), 0);
		grants_close(g);
		g = open_at(f->path, NOW, &load);
		assert_int_equal(take(g, 4, &after), 2);
		assert_memory_equal(after.of, before.of, sizeof before.of);
	}
	/* The other way round: what was asked for is revoked, and what stands for the token goes along. */
	aside = other;
	aside.shown = false;
	asked = lasting(900);
	assert_int_equal(grants_create_for(g, &asked, &aside, "issuer", "issuer x", NULL), 0);
	assert_int_equal(grants_revoke(g, &asked.id, GRANTS_WITH_ALL, NOW, "admin", "uid 0", &out, NULL), 0);
	assert_int_equal(grants_get(g, &theirs.id, &got, NULL, NULL), ERR_TOKEN_REVOKED);
	grants_close(g);
}

static void lists_come_in_pages_newest_first(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grant made[7];
	struct id before = {{0}};
	bool more = true;
	size_t seen = 0;

	for (size_t i = 0; i < 7; i++) {
		made[i] = lasting(900);
		assert_int_equal(grants_create(g, &made[i], "admin", "uid 0", NULL), 0);
	}
	while (more) {
		json_t *list = NULL;

		assert_int_equal(grants_list(g, NULL, seen ? &before : NULL, 3, &list, &more), 0);
		for (size_t i = 0; i < json_array_size(list); i++, seen++) {
			const char *id = json_string_value(json_object_get(json_array_get(list, i), "id"));

			assert_int_equal(id_parse(id, &before), 0);
			assert_true(id_equal(&before, &made[6 - seen].id));
		}
		json_decref(list);
	}
	assert_int_equal(seen, 7);
	grants_close(g);
	grants_close(NULL);
}

/* A log as a day of very many tokens leaves it: more of them than may be counted at once, most of them over. */
static void write_uses(const char *path, int over, int alive)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	for (int i = 0; i < over + alive; i++)
		fprintf(file,
			"{\"op\":\"use\",\"id\":\"%08x-0000-7000-8000-000000000000\",\"n\":1,\"until_ns\":%lld}\n",
			(unsigned)i * 2654435761u, (long long)(i < over ? NOW - SECOND : NOW + 900 * SECOND));
	assert_int_equal(fclose(file), 0);
}

static struct grants_use use_of(unsigned n, const char *by, size_t share)
{
	struct grants_use u = {.until_ns = NOW + 900 * SECOND, .max = 2, .by = by, .share = share};

	u.id.b[0] = (uint8_t)n;
	u.id.b[15] = 1;
	return u;
}

static void a_log_of_more_uses_than_are_counted_is_read(void **state)
{
	static const struct {
		int over, alive;
	} logs[] = {{TALLY_MAX + 1, 3}, {2, TALLY_MAX + 1}};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
		struct grants_load load;
		struct grants_use again = {.until_ns = NOW + 900 * SECOND, .max = 1, .by = "issuer a", .share = 1};
		struct grants *g;
		char last[ID_STR_LEN];

		write_uses(f->path, logs[i].over, logs[i].alive);
		g = open_at(f->path, NOW, &load);
		assert_int_equal(lines_of(f->path), logs[i].alive);
		snprintf(last, sizeof last, "%08x-0000-7000-8000-000000000000",
			 (unsigned)(logs[i].over + logs[i].alive - 1) * 2654435761u);
		assert_int_equal(id_parse(last, &again.id), 0);
		assert_int_equal(grants_use(g, &again, NULL), ERR_TOKEN_USED);
		grants_close(g);
	}
}

static void an_issuer_counts_its_share_and_leaves_others_theirs(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);

	for (int round = 0; round < 2; round++) {
		struct grants_use a[] = {use_of(1, "issuer a", 2), use_of(2, "issuer a", 2), use_of(3, "issuer a", 2)},
				  b = use_of((unsigned)round + 4, "issuer b", 2);

		assert_int_equal(grants_use(g, &a[0], NULL), 0); /* the second round: once more of what is counted */
		assert_int_equal(grants_use(g, &a[1], NULL), 0);
		assert_int_equal(grants_use(g, &a[2], NULL), ERR_LIMIT);
		assert_int_equal(grants_use(g, &b, NULL), 0);
		assert_int_equal(lines_of(f->path), round ? 6 : 3); /* what was refused is not in it */
		grants_close(g);
		g = open_at(f->path, NOW, &load);
		assert_int_equal(lines_of(f->path), round ? 4 : 3); /* one for each */
	}
	/* Those that are over leave room. */
	assert_int_equal(grants_expire(g, NOW + 901 * SECOND, NULL), 0);
	struct grants_use late = use_of(3, "issuer a", 2);
	assert_int_equal(grants_use(g, &late, NULL), 0);
	grants_close(g);
}

/* ---- grants with a number of uses */

static struct grant numbered(uint32_t uses, const struct grant *parent)
{
	struct grant g = lasting(900);

	g.bounds.uses = uses;
	if (parent)
		assert_int_equal(grant_narrow_kin(parent, &g.kin, NULL), 0);
	return g;
}

static int spend(struct grants *g, const struct grant *of, unsigned key)
{
	struct grants_spend s = {.grant = of, .n = 1, .until_ns = of->expires_ns, .key_until_ns = NOW + 100 * SECOND};

	s.key.b[0] = (uint8_t)key;
	return grants_spend(g, &s, NULL);
}

static void keep(struct grants *g, const struct grant *grant)
{
	assert_int_equal(grants_create(g, grant, "admin", "uid 1000", NULL), 0);
}

static void a_use_counts_for_all_above_and_over_restarts(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grant top = numbered(5, NULL), a = numbered(4, &top), b = numbered(4, &top), below = numbered(4, &a);

	keep(g, &top);
	keep(g, &a);
	keep(g, &b);
	keep(g, &below);
	assert_int_equal(spend(g, &below, 0), 0);
	assert_int_equal(spend(g, &a, 0), 0);
	assert_int_equal(spend(g, &b, 0), 0);
	for (int again = 0; again < 3; again++) { /* the second time of lines that were written anew */
		assert_int_equal(grants_spent(g, &top), 3);
		assert_int_equal(grants_spent(g, &a), 2);
		assert_int_equal(grants_spent(g, &b), 1);
		assert_int_equal(grants_spent(g, &below), 1);
		grants_close(g);
		g = open_at(f->path, NOW, &load);
	}
	assert_int_equal(spend(g, &a, 0), 0);
	assert_int_equal(spend(g, &a, 0), 0);
	assert_int_equal(spend(g, &a, 0), ERR_TOKEN_USED);     /* its own number, and that of what is above it */
	assert_int_equal(spend(g, &below, 0), ERR_TOKEN_USED); /* has left three, and those above none */
	assert_int_equal(spend(g, &b, 0), ERR_TOKEN_USED);
	assert_int_equal(spend(g, &top, 0), ERR_TOKEN_USED);
	assert_int_equal(grants_spent(g, &top), 5);
	assert_int_equal(grants_spent(g, &b), 1); /* what was refused is counted nowhere */
	grants_close(g);
}

static void the_same_key_is_one_use_for_its_time(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grant a = numbered(2, NULL);

	keep(g, &a);
	for (int again = 0; again < 3; again++) {
		assert_int_equal(spend(g, &a, 7), 0);
		grants_close(g);
		g = open_at(f->path, NOW, &load);
	}
	assert_int_equal(grants_spent(g, &a), 1);
	assert_int_equal(spend(g, &a, 8), 0);
	assert_int_equal(spend(g, &a, 9), ERR_TOKEN_USED);
	assert_int_equal(spend(g, &a, 8), 0); /* as its first answer was */
	assert_int_equal(grants_expire(g, NOW + 101 * SECOND, NULL), 0);
	assert_int_equal(spend(g, &a, 8), ERR_TOKEN_USED);
	grants_close(g);
}

static struct grant renewal_of(const struct grant *of)
{
	struct grant g = *of;

	assert_int_equal(id_new(&g.id), 0);
	g.kin.first = of->id;
	g.since_ns = of->issued_ns;
	g.expires_ns = of->expires_ns + 900 * SECOND;
	return g;
}

/* Nor is the count forgotten when the grant that was renewed would have ended. */
static void a_renewal_gives_no_use_back(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grant a = numbered(1, NULL), longer = renewal_of(&a);

	keep(g, &a);
	assert_int_equal(spend(g, &a, 0), 0);
	keep(g, &longer);
	assert_int_equal(grants_renewed(g, &longer.id, NULL), 0);
	assert_int_equal(spend(g, &longer, 0), ERR_TOKEN_USED);
	assert_int_equal(grants_expire(g, a.expires_ns + SECOND, NULL), 0);
	assert_int_equal(spend(g, &longer, 0), ERR_TOKEN_USED);
	grants_close(g);
	g = open_at(f->path, a.expires_ns + SECOND, &load);
	assert_int_equal(spend(g, &longer, 0), ERR_TOKEN_USED);
	grants_close(g);
}

/* The record may take the renewal when the grant is over and the store has been swept: its count waits for that. */
static void a_renewal_that_is_journaled_late_gives_no_use_back(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grant a = numbered(1, NULL), longer = renewal_of(&a);

	keep(g, &a);
	assert_int_equal(spend(g, &a, 0), 0);
	keep(g, &longer);
	assert_int_equal(grants_expire(g, a.expires_ns + SECOND, NULL), 0);
	assert_int_equal(grants_renewed(g, &longer.id, NULL), 0);
	assert_int_equal(grants_spent(g, &longer), 1);
	assert_int_equal(spend(g, &longer, 0), ERR_TOKEN_USED);
	grants_close(g);
}

static void a_use_that_cannot_be_kept_is_none(void **state)
{
	struct fixture *f = *state;
	struct grants_load load;
	struct grants *g = open_at(f->path, NOW, &load);
	struct grant a = numbered(1, NULL);
	struct rlimit old, small;
	struct stat st;

	keep(g, &a);
	assert_int_equal(stat(f->path, &st), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){(rlim_t)st.st_size + 20, old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_not_equal(spend(g, &a, 0), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(grants_spent(g, &a), 0);
	grants_close(g);
	g = open_at(f->path, NOW, &load);
	assert_int_equal(spend(g, &a, 0), 0);
	assert_int_equal(spend(g, &a, 0), ERR_TOKEN_USED);
	grants_close(g);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(grants_and_revocations_survive_a_restart),
	    TEST(a_revocation_is_of_all_that_came_of_the_grant),
	    TEST(a_renewal_that_was_not_journaled_is_none_after_a_restart),
	    TEST(one_grant_does_not_fill_the_store),
	    TEST(an_issuer_leaves_room_for_others),
	    TEST(revoking_again_is_no_error_and_no_second_line),
	    TEST(a_revocation_owes_an_event_until_it_is_told),
	    TEST(what_an_earlier_muxd_revoked_owes_none),
	    TEST(expired_ones_are_dropped_at_the_start),
	    TEST(a_running_store_rewrites_its_log_once_most_of_it_is_dead),
	    TEST(a_rewritten_log_whose_folder_is_not_synced_loses_nothing),
	    TEST(a_torn_last_line_is_cut_off),
	    TEST(damage_in_the_middle_refuses_the_start),
	    TEST(a_full_disk_leaves_no_half_line),
	    TEST(a_log_of_more_uses_than_are_counted_is_read),
	    TEST(an_issuer_counts_its_share_and_leaves_others_theirs),
	    TEST(a_use_counts_for_all_above_and_over_restarts),
	    TEST(the_same_key_is_one_use_for_its_time),
	    TEST(a_renewal_gives_no_use_back),
	    TEST(a_renewal_that_is_journaled_late_gives_no_use_back),
	    TEST(a_use_that_cannot_be_kept_is_none),
	    TEST(what_stands_for_a_token_ends_with_any_grant_of_it),
	    TEST(lists_come_in_pages_newest_first),
	};
	return cmocka_run_group_tests_name("monitor_grants", tests, NULL, NULL);
}

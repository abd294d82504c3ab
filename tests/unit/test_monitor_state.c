// tier: check
/* The state directory: what a first start makes, and a second one finds. */
#include "base/conf.h"
#include "base/err.h"
#include "base/ring.h"
#include "muxd/monitor/cert.h"
#include "muxd/monitor/floor.h"
#include "muxd/monitor/keys.h"
#include "muxd/monitor/layout.h"
#include "muxd/monitor/monitor.h"
#include "muxd/monitor/rotation.h"
#include "recorder/chain/sign.h"
#include "tests/lib/stuck.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define DAY 86400

struct fixture {
	char dir[PATH_MAX];
	struct identity who;
	struct layout layout;
};

static void open_layout(struct fixture *f)
{
	struct err e = {0};

	if (layout_open(f->dir, &f->who, &f->layout, &e))
		fail_msg("%s", e.message);
}

/* As any user: nothing here depends on being root. */
static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	strcpy(f->dir, "/tmp/muxd-keys.XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	f->who =
	    (struct identity){.owner = {geteuid(), getegid()}, .net = FILE_OWNER_SELF, .recorder = FILE_OWNER_SELF};
	open_layout(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[PATH_MAX + 16];

	layout_close(&f->layout);
	snprintf(command, sizeof command, "rm -rf '%s'", f->dir);
	free(f);
	return system(command);
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static struct keys open_keys(struct fixture *f)
{
	struct keys k;
	struct err e = {0};

	if (keys_open(&f->layout, &f->who, true, &k, &e))
		fail_msg("%s", e.message);
	return k;
}

static void the_first_start_makes_keys_and_the_second_finds_them(void **state)
{
	struct fixture *f = *state;
	struct keys first = open_keys(f), second = open_keys(f);
	char path[PATH_MAX * 2];

	assert_int_equal(first.set.n, 1);
	assert_string_equal(first.kid, second.kid);
	assert_memory_equal(first.seed, second.seed, GRANT_KEY_LEN);
	assert_string_equal(first.record_seed, second.record_seed);
	assert_string_equal(first.ssh_fingerprint, second.ssh_fingerprint);
	assert_int_equal(mode_of(first.record_seed), 0600);
	assert_int_equal(mode_of(first.ssh_host_key), 0600);
	snprintf(path, sizeof path, "%s/keys/grant/%s.seed", f->dir, first.kid);
	assert_int_equal(mode_of(path), 0600);
	snprintf(path, sizeof path, "%s/keys/grant/%s.pub", f->dir, first.kid);
	assert_int_equal(mode_of(path), 0644);
	keys_finish(&first);
	keys_finish(&second);
	keys_finish(NULL);
}

static bool verifies(const struct keys *k, const char *kid)
{
	for (size_t i = 0; i < k->set.n; i++) {
		if (strcmp(k->set.keys[i].kid, kid) == 0)
			return true;
	}
	return false;
}

static void a_rotation_signs_anew_and_goes_on_verifying(void **state)
{
	struct fixture *f = *state;
	struct keys k = open_keys(f), again;
	char old[17], path[PATH_MAX * 2];
	size_t dropped = 99;

	strcpy(old, k.kid);
	assert_int_equal(keys_rotate(&k, &f->layout, false, NULL), 0);
	assert_string_not_equal(k.kid, old);
	assert_int_equal(k.set.n, 2);
	assert_true(verifies(&k, old));
	snprintf(path, sizeof path, "%s/keys/grant/%s.seed", f->dir, old);
	assert_int_equal(access(path, F_OK), -1); /* nobody signs with it any more */
	again = open_keys(f);
	assert_string_equal(again.kid, k.kid);
	assert_int_equal(again.set.n, 2);
	keys_finish(&again);
	/* It goes when no grant of it can be alive, and not before. */
	assert_int_equal(keys_expire(&k, &f->layout, time(NULL) + DAY - 60, DAY, &dropped, NULL), 0);
	assert_int_equal(dropped, 0);
	assert_int_equal(keys_expire(&k, &f->layout, time(NULL) + DAY + 60, DAY, &dropped, NULL), 0);
	assert_int_equal(dropped, 1);
	assert_int_equal(k.set.n, 1);
	assert_false(verifies(&k, old));
	keys_finish(&k);
}

static void a_rotation_can_drop_every_earlier_key_at_once(void **state)
{
	struct fixture *f = *state;
	struct keys k = open_keys(f);

	assert_int_equal(keys_rotate(&k, &f->layout, false, NULL), 0);
	assert_int_equal(keys_rotate(&k, &f->layout, true, NULL), 0);
	assert_int_equal(k.set.n, 1);
	assert_true(verifies(&k, k.kid));
	keys_finish(&k);
}

/* The key in force is another one all the same, and so is the set: whoever verifies is to be told of both. */
static void one_that_cannot_be_removed_keeps_no_other(void **state)
{
	struct fixture *f = *state;
	struct keys k = open_keys(f), again;
	char old[4][17];
	size_t dropped = 99;
	struct err e = {0};

	for (int i = 0; i < 4; i++) {
		memcpy(old[i], k.kid, sizeof old[i]);
		if (i < 3)
			assert_int_equal(keys_rotate(&k, &f->layout, false, NULL), 0);
	}
	snprintf(stuck, sizeof stuck, "%.100s/keys/grant/%s.pub", f->dir, old[1]);
	assert_int_equal(keys_rotate(&k, &f->layout, true, &e), ERR_PERMISSION);
	assert_string_not_equal(k.kid, old[3]);
	assert_non_null(strstr(e.message, k.kid));
	assert_non_null(strstr(e.message, stuck));
	assert_int_equal(k.set.n, 2);
	assert_true(verifies(&k, k.kid) && verifies(&k, old[1]));
	again = open_keys(f);
	assert_string_equal(again.kid, k.kid);
	keys_finish(&again);
	/* The same where they go by themselves. */
	assert_int_equal(keys_rotate(&k, &f->layout, false, NULL), 0);
	assert_int_equal(keys_expire(&k, &f->layout, time(NULL) + DAY + 60, DAY, &dropped, NULL), ERR_PERMISSION);
	assert_int_equal(dropped, 1);
	assert_int_equal(k.set.n, 2);
	stuck[0] = '\0';
	assert_int_equal(keys_expire(&k, &f->layout, time(NULL) + DAY + 60, DAY, &dropped, NULL), 0);
	assert_int_equal(dropped, 1);
	assert_int_equal(k.set.n, 1);
	keys_finish(&k);
}

/* Made while the clock was a day ahead: the old key's file looks newer than the new one's. */
static void a_rotation_goes_by_the_key_and_not_by_the_clock(void **state)
{
	struct fixture *f = *state;
	struct keys k = open_keys(f), again;
	struct timespec ahead[2] = {{.tv_sec = time(NULL) + DAY}, {.tv_sec = time(NULL) + DAY}};
	char path[PATH_MAX * 2], old[17];

	strcpy(old, k.kid);
	snprintf(path, sizeof path, "%s/keys/grant/%s.seed", f->dir, old);
	assert_int_equal(utimensat(AT_FDCWD, path, ahead, 0), 0);
	assert_int_equal(keys_rotate(&k, &f->layout, true, NULL), 0);
	assert_string_not_equal(k.kid, old);
	assert_int_equal(access(path, F_OK), -1);
	assert_false(verifies(&k, old));
	again = open_keys(f);
	assert_string_equal(again.kid, k.kid);
	keys_finish(&again);
	keys_finish(&k);
}

static void rotate_record(struct fixture *f, struct keys *k)
{
	struct grant_public_key key;
	uint8_t seed[GRANT_KEY_LEN];
	struct err e = {0};

	assert_int_equal(grant_key_create(seed, &key), 0);
	if (keys_use_record(k, &f->layout, &f->who, seed, &key, &e))
		fail_msg("%s", e.message);
}

/* Public halves in a folder of keys. add: so many more, all of one key. */
static size_t publics(struct fixture *f, const char *folder, size_t add)
{
	static const char key[] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n";
	char path[PATH_MAX * 2];
	glob_t found;
	size_t n;

	for (size_t i = 0; i < add; i++) {
		snprintf(path, sizeof path, "%s/keys/%s/%016zx.pub", f->dir, folder, i);
		assert_int_equal(file_publish(path, key, sizeof key - 1, 0644, FILE_OWNER_SELF, false, NULL), 0);
	}
	snprintf(path, sizeof path, "%s/keys/%s/*.pub", f->dir, folder);
	assert_int_equal(glob(path, 0, NULL, &found), 0);
	n = found.gl_pathc;
	globfree(&found);
	return n;
}

static int begin_rotation(struct fixture *f)
{
	struct monitor *m = calloc(1, sizeof *m);
	int rc;

	m->layout = f->layout;
	rc = rotation_begin(m, NULL, NULL);
	assert_null(m->rotation);
	free(m);
	return rc;
}

/* Public halves stay for ever: a start takes all of them, and one too many is refused before anything is named or
 * written.
 */
static void public_halves_of_the_record_add_up(void **state)
{
	struct fixture *f = *state;
	struct keys k = open_keys(f), again;

	for (int i = 0; i < 70; i++)
		rotate_record(f, &k);
	again = open_keys(f);
	assert_string_equal(again.record_seed, k.record_seed);
	keys_finish(&again);
	assert_int_equal(publics(f, "record", RECORD_KEYS_MAX - 65 - 71), RECORD_KEYS_MAX - 65);
	assert_int_equal(begin_rotation(f), ERR_UNAVAILABLE); /* there is no recorder here */
	rotate_record(f, &k);
	assert_int_equal(begin_rotation(f), ERR_LIMIT);
	again = open_keys(f);
	assert_string_equal(again.record_seed, k.record_seed);
	keys_finish(&again);
	keys_finish(&k);
}

/* Rotations that came no further than a public half count as well: the next start reads what is on the disk. */
static void public_halves_of_grants_are_bounded_on_the_disk(void **state)
{
	struct fixture *f = *state;
	struct keys k = open_keys(f), again;

	assert_int_equal(publics(f, "grant", GRANT_KEYS_MAX - 2), GRANT_KEYS_MAX - 1);
	assert_int_equal(keys_rotate(&k, &f->layout, false, NULL), ERR_LIMIT);
	again = open_keys(f);
	assert_string_equal(again.kid, k.kid);
	keys_finish(&again);
	assert_int_equal(keys_rotate(&k, &f->layout, true, NULL), 0);
	assert_int_equal(publics(f, "grant", 0), 1);
	keys_finish(&k);
}

static void a_damaged_key_refuses_the_start(void **state)
{
	struct fixture *f = *state;
	struct keys k = open_keys(f), none;
	char path[PATH_MAX * 2];

	snprintf(path, sizeof path, "%s/keys/grant/%s.seed", f->dir, k.kid);
	assert_int_equal(truncate(path, 31), 0);
	assert_int_equal(keys_open(&f->layout, &f->who, true, &none, NULL), ERR_CORRUPT);
	assert_int_equal(file_publish(path, k.record_seed, GRANT_KEY_LEN, 0600, FILE_OWNER_SELF, true, NULL), 0);
	assert_int_equal(keys_open(&f->layout, &f->who, true, &none, NULL), ERR_CORRUPT); /* another key's seed */
	keys_finish(&k);
}

/* OpenSSH itself reads the private key and says the same public key and fingerprint. */
static void openssh_reads_the_host_key(void **state)
{
	struct fixture *f = *state;
	struct keys k = open_keys(f);
	char command[PATH_MAX * 2], line[512] = "", *public_line = NULL, public_path[PATH_MAX + 8];
	size_t len;
	FILE *p;

	if (system("command -v ssh-keygen >/dev/null") != 0)
		skip();
	snprintf(command, sizeof command, "ssh-keygen -y -P '' -f '%s'", k.ssh_host_key);
	p = popen(command, "r");
	assert_non_null(p);
	assert_non_null(fgets(line, sizeof line, p));
	assert_int_equal(pclose(p), 0);
	snprintf(public_path, sizeof public_path, "%s.pub", k.ssh_host_key);
	assert_int_equal(file_read(public_path, 1024, &public_line, &len, NULL), 0);
	assert_int_equal(strncmp(line, public_line, strcspn(line, "\n")), 0);
	free(public_line);
	snprintf(command, sizeof command, "ssh-keygen -l -f '%s'", public_path);
	p = popen(command, "r");
	assert_non_null(fgets(line, sizeof line, p));
	assert_int_equal(pclose(p), 0);
	assert_non_null(strstr(line, k.ssh_fingerprint));
	keys_finish(&k);
}

struct tls_paths {
	char key[PATH_MAX], cert[PATH_MAX];
};

static struct tls_paths tls(const struct fixture *f)
{
	struct tls_paths p;

	assert_int_equal(layout_path(&f->layout, "keys/tls.key", p.key, NULL), 0);
	assert_int_equal(layout_path(&f->layout, "keys/tls.crt", p.cert, NULL), 0);
	return p;
}

static X509 *read_cert(const char *path)
{
	FILE *f = fopen(path, "r");
	X509 *x = PEM_read_X509(f, NULL, NULL, NULL);

	fclose(f);
	assert_non_null(x);
	return x;
}

static void the_certificate_names_this_host(void **state)
{
	struct fixture *f = *state;
	struct tls_paths p = tls(f);
	struct cert_status status;
	int64_t now = time(NULL);
	int days, seconds;
	X509 *x;

	assert_int_equal(cert_ensure(p.key, p.cert, "192.0.2.7", now, FILE_OWNER_SELF, &status, NULL), 0);
	assert_true(status.made);
	assert_true(status.covers_host);
	assert_int_equal(strlen(status.fingerprint_sha256), 95);
	assert_int_equal(mode_of(p.key), 0600);
	assert_int_equal(mode_of(p.cert), 0644);
	x = read_cert(p.cert);
	assert_int_equal(X509_check_host(x, "localhost", 0, 0, NULL), 1);
	assert_int_equal(X509_check_ip_asc(x, "127.0.0.1", 0), 1);
	assert_int_equal(X509_check_ip_asc(x, "::1", 0), 1);
	assert_int_equal(X509_check_ip_asc(x, "192.0.2.7", 0), 1);
	assert_int_equal(X509_check_ip_asc(x, "192.0.2.8", 0), 0);
	assert_int_equal(X509_check_host(x, "example.org", 0, 0, NULL), 0);
	assert_int_equal(X509_verify(x, X509_get0_pubkey(x)), 1);
	assert_int_equal(ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(x), X509_get0_notAfter(x)), 1);
	assert_int_equal(days, 825);
	X509_free(x);
}

static void it_is_made_again_when_expired_with_the_same_key(void **state)
{
	struct fixture *f = *state;
	struct tls_paths p = tls(f);
	struct cert_status first, second, third;
	int64_t now = time(NULL);
	X509 *a, *b;

	assert_int_equal(cert_ensure(p.key, p.cert, "127.0.0.1", now, FILE_OWNER_SELF, &first, NULL), 0);
	a = read_cert(p.cert);
	assert_int_equal(cert_ensure(p.key, p.cert, "127.0.0.1", now + 824 * DAY, FILE_OWNER_SELF, &second, NULL), 0);
	assert_false(second.made);
	assert_string_equal(first.fingerprint_sha256, second.fingerprint_sha256);
	assert_int_equal(cert_ensure(p.key, p.cert, "127.0.0.1", now + 826 * DAY, FILE_OWNER_SELF, &third, NULL), 0);
	assert_true(third.made);
	assert_string_not_equal(first.fingerprint_sha256, third.fingerprint_sha256);
	b = read_cert(p.cert);
	assert_int_equal(EVP_PKEY_eq(X509_get0_pubkey(a), X509_get0_pubkey(b)), 1);
	X509_free(a);
	X509_free(b);
	/* The crash between the two files: the key alone is taken up. */
	assert_int_equal(unlink(p.cert), 0);
	assert_int_equal(cert_ensure(p.key, p.cert, "127.0.0.1", now, FILE_OWNER_SELF, &third, NULL), 0);
	assert_true(third.made);
}

static void somebody_elses_certificate_is_kept(void **state)
{
	struct fixture *f = *state;
	struct tls_paths p = tls(f);
	char command[PATH_MAX * 3];
	struct cert_status status;
	struct err e = {0};

	if (system("command -v openssl >/dev/null") != 0)
		skip();
	snprintf(command, sizeof command,
		 "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=theirs "
		 "-addext subjectAltName=DNS:theirs.example -keyout '%s' -out '%s' 2>/dev/null",
		 p.key, p.cert);
	assert_int_equal(system(command), 0);
	assert_int_equal(cert_ensure(p.key, p.cert, "theirs.example", time(NULL), FILE_OWNER_SELF, &status, NULL), 0);
	assert_false(status.made);
	assert_true(status.covers_host);
	assert_int_equal(cert_ensure(p.key, p.cert, "127.0.0.1", time(NULL) + 2 * DAY, FILE_OWNER_SELF, &status, NULL),
			 0);
	assert_false(status.made);
	assert_true(status.expired);
	assert_false(status.covers_host);
	assert_int_equal(unlink(p.key), 0);
	assert_int_equal(cert_ensure(p.key, p.cert, "127.0.0.1", time(NULL), FILE_OWNER_SELF, &status, &e), ERR_CONFIG);
	assert_non_null(strstr(e.message, "tls.crt"));
}

/* As an ACME client leaves them: links that it turns to the newest pair. They are read, and never written. */
static void the_operators_pair_may_be_links(void **state)
{
	struct fixture *f = *state;
	struct tls_paths p = tls(f), theirs = p, other = p;
	struct cert_status made, status;
	struct err e = {0};
	int64_t now = time(NULL);

	strcat(theirs.key, ".live");
	strcat(theirs.cert, ".live");
	strcat(other.key, ".other");
	strcat(other.cert, ".other");
	assert_int_equal(cert_ensure(p.key, p.cert, "127.0.0.1", now, FILE_OWNER_SELF, &made, NULL), 0);
	assert_int_equal(cert_ensure(other.key, other.cert, "127.0.0.1", now, FILE_OWNER_SELF, &status, NULL), 0);
	assert_int_equal(symlink(p.key, theirs.key) || symlink(p.cert, theirs.cert), 0);
	assert_int_equal(cert_check(theirs.key, theirs.cert, "127.0.0.1", now, &status, &e), 0);
	assert_string_equal(status.fingerprint_sha256, made.fingerprint_sha256);
	assert_true(status.covers_host && !status.expired && !status.made);
	/* An expired pair with muxd's own name on it stays, where the configuration names it. */
	assert_int_equal(cert_check(theirs.key, theirs.cert, "127.0.0.1", now + 826 * DAY, &status, &e), 0);
	assert_true(status.expired && !status.made);
	assert_int_equal(cert_check(other.key, theirs.cert, "127.0.0.1", now, &status, &e), ERR_CONFIG);
	assert_non_null(strstr(e.message, "tls.key.other is not the private key of certificate"));
	assert_int_equal(unlink(p.cert), 0);
	assert_int_equal(cert_check(theirs.key, theirs.cert, "127.0.0.1", now, &status, &e), ERR_NOT_FOUND);
	assert_non_null(strstr(e.message, "tls.crt.live does not exist"));
	/* Of ours nobody makes links. */
	assert_int_equal(symlink(other.cert, p.cert), 0);
	assert_true(cert_ensure(p.key, p.cert, "127.0.0.1", now, FILE_OWNER_SELF, &status, &e) < 0);
}

static void a_second_daemon_is_refused_by_name(void **state)
{
	struct fixture *f = *state;
	struct layout second;
	struct err e = {0};
	char pid[32];

	snprintf(pid, sizeof pid, "pid %ld", (long)getpid());
	assert_int_equal(layout_open(f->dir, &f->who, &second, &e), ERR_CONFLICT);
	assert_non_null(strstr(e.message, pid));
}

static void the_instance_stays_and_children_of_before_are_known(void **state)
{
	struct fixture *f = *state;
	char instance[ID_STR_LEN];

	strcpy(instance, f->layout.instance);
	assert_int_equal(f->layout.old_net, 0);
	layout_note_children(&f->layout, 123456, 654321);
	layout_close(&f->layout);
	open_layout(f);
	assert_string_equal(f->layout.instance, instance);
	assert_int_equal(f->layout.old_net, 123456);
	assert_int_equal(f->layout.old_recorder, 654321);
	/* This very process is alive, but it is no muxd: nothing to wait for. */
	f->layout.old_net = f->layout.old_recorder = getpid();
	assert_int_equal(layout_wait_leftovers(&f->layout, 0, NULL), 0);
}

static void a_directory_that_others_may_write_is_refused(void **state)
{
	struct fixture *f = *state;
	char path[PATH_MAX + 16];
	struct err e = {0};

	layout_close(&f->layout);
	snprintf(path, sizeof path, "%s/keys/grant", f->dir);
	assert_int_equal(chmod(path, 0777), 0);
	assert_int_equal(layout_open(f->dir, &f->who, &f->layout, &e), ERR_PERMISSION);
	assert_non_null(strstr(e.message, "keys/grant"));
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(symlink("/tmp", path), 0);
	assert_int_equal(layout_open(f->dir, &f->who, &f->layout, &e), ERR_CONFLICT);
	f->layout.lock_fd = -1;
}

static int make_journal(struct fixture *f, uint64_t size, const char *folder, struct err *e)
{
	char dir[PATH_MAX];
	struct conf c = {.journal_size = size, .journal_dir = dir};

	snprintf(dir, sizeof dir, "%.200s/%s", f->dir, folder);
	return layout_make_journal(&f->layout, &f->who, &c, e);
}

static off_t prepare_journal(struct fixture *f, uint64_t size)
{
	char path[PATH_MAX];
	struct err e = {0};
	struct stat st;

	if (make_journal(f, size, "journal", &e))
		fail_msg("%s", e.message);
	snprintf(path, sizeof path, "%.200s/journal/ring", f->dir);
	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

static void write_to_journal(struct fixture *f)
{
	struct ring_record rec = {.type = RING_AUDIT};
	struct iovec iov = {.iov_base = (void *)"{}", .iov_len = 2};
	struct ring_writer *w;
	char path[PATH_MAX];
	int ring, cursor;

	snprintf(path, sizeof path, "%.200s/journal/ring", f->dir);
	ring = open(path, O_RDWR);
	snprintf(path, sizeof path, "%.200s/journal/cursor", f->dir);
	cursor = open(path, O_RDWR);
	assert_int_equal(ring_writer_create(ring, cursor, &w, NULL), 0);
	assert_int_equal(ring_append(w, &rec, &iov, 1, true), 0);
	ring_writer_destroy(w);
	close(ring);
	close(cursor);
}

static void a_journal_changes_its_size_when_nothing_of_it_is_needed(void **state)
{
	const uint64_t mib = 1 << 20;
	struct fixture *f = *state;
	off_t first = prepare_journal(f, mib);

	assert_int_equal(prepare_journal(f, 2 * mib), first + (off_t)mib);
	assert_int_equal(prepare_journal(f, mib), first);
	write_to_journal(f); /* and nobody drains it */
	assert_int_equal(prepare_journal(f, 2 * mib), first);
	assert_int_equal(prepare_journal(f, mib), first);
}

/* ---- a ring that goes */

#define MIB ((uint64_t)1 << 20)

static uint64_t end_journal(struct fixture *f)
{
	struct err e = {0};
	uint64_t left = 77;

	if (layout_end_journal(&f->layout, false, &left, &e))
		fail_msg("%s", e.message);
	return left;
}

static void shell(const char *format, ...)
{
	char command[4 * PATH_MAX];
	va_list ap;

	va_start(ap, format);
	vsnprintf(command, sizeof command, format, ap);
	va_end(ap);
	assert_int_equal(system(command), 0);
}

/* Of a daemon that ends well, ends with records in the ring alone, or is killed; then the ring is removed. */
static void a_ring_that_is_gone_is_missed(void **state)
{
	static const struct {
		unsigned records;
		bool ends;
		enum journal_note_state missed;
	} rows[] = {
	    {0, true, JOURNAL_NONE},
	    {3, true, JOURNAL_LEFT}, /* known */
	    {0, false, JOURNAL_USED},
	    {3, false, JOURNAL_USED}, /* not known */
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		f->layout.missed.state = JOURNAL_NONE;
		prepare_journal(f, MIB);
		for (unsigned k = 0; k < rows[i].records; k++)
			write_to_journal(f);
		if (rows[i].ends)
			assert_int_equal(end_journal(f), rows[i].records);
		f->layout.missed.state = JOURNAL_NONE;
		prepare_journal(f, MIB); /* found: nothing is missed */
		assert_int_equal(f->layout.missed.state, JOURNAL_NONE);
		if (rows[i].ends)
			assert_int_equal(end_journal(f), rows[i].records);
		shell("rm -r '%s/journal'", f->dir);
		prepare_journal(f, MIB);
		assert_int_equal(f->layout.missed.state, rows[i].missed);
		if (rows[i].missed == JOURNAL_LEFT)
			assert_int_equal(f->layout.missed.records, rows[i].records);
		f->layout.missed.state = JOURNAL_NONE;
		prepare_journal(f, MIB); /* once */
		assert_int_equal(f->layout.missed.state, JOURNAL_NONE);
	}
}

static ino_t inode_of(struct fixture *f)
{
	char path[PATH_MAX + 16];
	struct stat st;

	snprintf(path, sizeof path, "%s/journal.json", f->dir);
	assert_int_equal(stat(path, &st), 0);
	return st.st_ino;
}

/* A full disk has no room for another file. */
static void its_note_is_written_in_place(void **state)
{
	struct fixture *f = *state;
	ino_t first;

	prepare_journal(f, MIB);
	first = inode_of(f);
	write_to_journal(f);
	assert_int_equal(end_journal(f), 1);
	assert_int_equal(inode_of(f), first);
}

/* DIR goes to a larger disk, and its ring stands where the path of before said. */
static void a_ring_follows_a_directory_that_is_moved(void **state)
{
	struct fixture *f = *state;
	struct err e = {0};
	char old[PATH_MAX];

	snprintf(old, sizeof old, "%.200s", f->dir);
	prepare_journal(f, MIB);
	write_to_journal(f);
	write_to_journal(f);
	assert_int_equal(end_journal(f), 2);
	layout_close(&f->layout);
	shell("mv '%s' '%s.large' && mkdir '%s' && mv '%s.large/journal' '%s/'", old, old, old, old, old);
	strcat(f->dir, ".large");
	open_layout(f);
	if (make_journal(f, MIB, "other", &e))
		fail_msg("%s", e.message);
	assert_int_equal(f->layout.missed.state, JOURNAL_NONE);
	assert_int_equal(end_journal(f), 2);
	shell("test ! -e '%s/journal' && rmdir '%s'", old, old);
}

/* Nobody knows whether a copy takes the place of the original, unless that one works on. */
static void a_copy_leaves_the_ring_to_the_original(void **state)
{
	struct fixture *f = *state, copy = {.who = f->who};
	struct err e = {0};

	prepare_journal(f, MIB);
	write_to_journal(f);
	snprintf(copy.dir, sizeof copy.dir, "%.200s.copy", f->dir);
	shell("cp -a '%s' '%s' && rm -r '%s/journal'", f->dir, copy.dir, copy.dir);
	open_layout(&copy);
	if (make_journal(&copy, MIB, "journal", &e)) /* the original's lock is held */
		fail_msg("%s", e.message);
	assert_int_equal(copy.layout.missed.state, JOURNAL_NONE);
	assert_int_equal(end_journal(&copy), 0);
	assert_int_equal(end_journal(f), 1);
	layout_close(&f->layout);
	shell("rm -r '%s/journal' && cp -a '%s/journal.json' '%s/'", copy.dir, f->dir, copy.dir);
	assert_int_equal(make_journal(&copy, MIB, "journal", &e), ERR_CONFLICT);
	assert_non_null(strstr(e.message, "has 1 records that are in no record"));
	shell("mkdir -p '%s/journal' && mv '%s/journal'/* '%s/journal/'", copy.dir, f->dir, copy.dir); /* as told */
	if (make_journal(&copy, MIB, "journal", &e))
		fail_msg("%s", e.message);
	assert_int_equal(end_journal(&copy), 1);
	layout_close(&copy.layout);
	shell("rm -r '%s'", copy.dir);
}

static void time_does_not_fall_behind_the_file(void **state)
{
	struct fixture *f = *state;
	struct time_floor floor;
	char path[PATH_MAX], line[32];
	int64_t back = -1, ahead = (int64_t)time(NULL) * 1000000000 + INT64_C(3600000000000);

	assert_int_equal(floor_open(&floor, &f->layout, &back, NULL), 0);
	assert_int_equal(back, 0);
	assert_int_equal(layout_path(&f->layout, "clock", path, NULL), 0);
	snprintf(line, sizeof line, "%lld\n", (long long)ahead);
	assert_int_equal(file_publish(path, line, strlen(line), 0644, FILE_OWNER_SELF, true, NULL), 0);
	assert_int_equal(floor_open(&floor, &f->layout, &back, NULL), 0);
	assert_true(back > INT64_C(3500000000000));
	assert_true(floor_now(&floor) >= ahead);
	assert_int_equal(file_publish(path, "soon\n", 5, 0644, FILE_OWNER_SELF, true, NULL), 0);
	assert_int_equal(floor_open(&floor, &f->layout, &back, NULL), ERR_CORRUPT);
}

/* A process that lives holds the lock for one that is dead: what is left of a daemon that was killed. */
static void one_daemon_at_a_time_and_a_dying_one_is_waited_for(void **state)
{
	struct fixture *f = *state;
	struct layout second;
	struct err e = {0};
	char path[PATH_MAX], text[32];
	int ready[2];
	pid_t dead, holder;
	siginfo_t gone;

	assert_int_equal(layout_open(f->dir, &f->who, &second, &e), ERR_CONFLICT);
	snprintf(text, sizeof text, "(pid %d)", getpid());
	assert_non_null(strstr(e.message, text));

	assert_int_equal(layout_path(&f->layout, "muxd.lock", path, NULL), 0);
	layout_close(&f->layout);
	assert_int_equal(pipe(ready), 0);
	if ((dead = fork()) == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)dead, &gone, WEXITED | WNOWAIT), 0);
	if ((holder = fork()) == 0) {
		int fd = open(path, O_RDWR | O_TRUNC);

		snprintf(text, sizeof text, "%d 0 0\n", dead);
		if (flock(fd, LOCK_EX) < 0 || write(fd, text, strlen(text)) < 0 || write(ready[1], "!", 1) != 1)
			_exit(1);
		usleep(300000);
		_exit(0);
	}
	assert_int_equal(read(ready[0], text, 1), 1);
	open_layout(f);
	for (int i = 0; i < 2; i++) {
		int status;

		assert_int_equal(waitpid(i ? holder : dead, &status, 0), i ? holder : dead);
		assert_int_equal(status, 0);
	}
	close(ready[0]);
	close(ready[1]);
}

static void who_the_children_become(void **state)
{
	struct conf *c = NULL;
	struct identity id;
	struct err e = {0};

	(void)state;
	assert_int_equal(conf_create(&c), 0);
	assert_int_equal(identity_find(c, 0, "1000", "1001", &id, NULL), 0);
	assert_string_equal(identity_mode(&id), "root");
	assert_string_equal(identity_privsep(&id), "uids");
	assert_int_equal(id.owner.uid, 1000);
	assert_int_equal(id.owner.gid, 1001);
	assert_int_equal(id.net.uid, IDENTITY_NET_UID);
	assert_int_equal(id.recorder.uid, IDENTITY_RECORDER_UID);
	assert_int_equal(identity_find(c, 0, "-1", NULL, &id, NULL), 0);
	assert_int_equal(id.owner.uid, 0);
	assert_int_equal(identity_find(c, 1000, "5", NULL, &id, NULL), 0);
	assert_string_equal(identity_mode(&id), "user");
	assert_string_equal(identity_privsep(&id), "none");
	assert_int_equal(id.owner.uid, 1000);
	conf_destroy(c);
	static const char *const bad[] = {"privsep:\n  net_user: nobody-of-this-name\n",
					  "privsep:\n  net_user: \"0\"\n", "privsep:\n  net_user: \"64802\"\n"};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(conf_parse(bad[i], strlen(bad[i]), "t", &c, &e), 0);
		assert_int_equal(identity_find(c, 0, NULL, NULL, &id, &e), ERR_CONFIG);
		conf_destroy(c);
	}
}

static void a_closed_directory_above_is_named(void **state)
{
	struct fixture *f = *state;
	struct file_owner stranger = {54321, 54321};
	char inside[PATH_MAX];
	struct err e = {0};

	assert_int_equal(layout_path(&f->layout, "record", inside, NULL), 0);
	assert_int_equal(identity_can_reach(&stranger, inside, "the recorder", &e), 0);
	assert_int_equal(chmod(f->dir, 0700), 0);
	assert_int_equal(identity_can_reach(&stranger, inside, "the recorder", &e), ERR_PERMISSION);
	assert_non_null(strstr(e.message, f->dir));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(one_daemon_at_a_time_and_a_dying_one_is_waited_for),
	    TEST(the_first_start_makes_keys_and_the_second_finds_them),
	    TEST(a_rotation_signs_anew_and_goes_on_verifying),
	    TEST(a_rotation_can_drop_every_earlier_key_at_once),
	    TEST(one_that_cannot_be_removed_keeps_no_other),
	    TEST(a_rotation_goes_by_the_key_and_not_by_the_clock),
	    TEST(public_halves_of_the_record_add_up),
	    TEST(public_halves_of_grants_are_bounded_on_the_disk),
	    TEST(a_damaged_key_refuses_the_start),
	    TEST(openssh_reads_the_host_key),
	    TEST(the_certificate_names_this_host),
	    TEST(it_is_made_again_when_expired_with_the_same_key),
	    TEST(somebody_elses_certificate_is_kept),
	    TEST(the_operators_pair_may_be_links),
	    TEST(a_second_daemon_is_refused_by_name),
	    TEST(the_instance_stays_and_children_of_before_are_known),
	    TEST(a_directory_that_others_may_write_is_refused),
	    TEST(a_journal_changes_its_size_when_nothing_of_it_is_needed),
	    TEST(a_ring_that_is_gone_is_missed),
	    TEST(its_note_is_written_in_place),
	    TEST(a_ring_follows_a_directory_that_is_moved),
	    TEST(a_copy_leaves_the_ring_to_the_original),
	    TEST(time_does_not_fall_behind_the_file),
	    cmocka_unit_test(who_the_children_become),
	    TEST(a_closed_directory_above_is_named),
	};
	return cmocka_run_group_tests_name("monitor_state", tests, NULL, NULL);
}

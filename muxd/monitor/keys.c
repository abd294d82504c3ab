#include "muxd/monitor/keys.h"

#include "base/err.h"
#include "base/json.h"
#include "muxd/monitor/layout.h"
#include "recorder/chain/sign.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KID_LEN    16
#define PUBLIC_MAX 256

/* One public key file of a folder, and its seed's age where the seed is still there. */
struct key_file {
	struct grant_public_key key;
	bool has_seed;
	struct timespec seed_time, public_time;
};
struct key_folder {
	char path[PATH_MAX];
	const struct key_place *place;
	struct key_file files[RECORD_KEYS_MAX];
	size_t n;
};
/* Such a folder below the state directory. spare: room that no rotation takes. */
struct key_place {
	const char *name;
	size_t most, spare;
	const char *full; /* why there is no room */
};
/* A start that finds no seed makes one key more; the log also names keys that were given up before they came here. */
static const struct key_place of_grants = {"keys/grant", GRANT_KEYS_MAX, 1, "drop the old ones"},
			      of_record = {"keys/record", RECORD_KEYS_MAX, 64,
					   "the record needs them all, and the key in force goes on signing"};

static int key_path(const char *folder, const char *kid, const char *suffix, char out[PATH_MAX], struct err *e)
{
	char name[64];

	/* bytes: hexadecimal digits */
	snprintf(name, sizeof name, "%.16s.%s", kid, suffix);
	return file_join(out, PATH_MAX, folder, name, e);
}

static int read_public(const char *path, struct grant_public_key *out, struct err *e)
{
	char *text = NULL;
	uint8_t *raw = NULL;
	size_t len = 0, n = 0;
	int rc = file_read(path, PUBLIC_MAX, &text, &len, e);

	if (rc)
		return rc;
	if (base64_decode(text, strcspn(text, "\n"), true, &raw, &n) || n != GRANT_KEY_LEN)
		rc = err_set(e, ERR_CORRUPT, "%s holds no public key", path);
	else
		memcpy(out->key, raw, n);
	free(raw);
	free(text);
	return rc;
}

static int read_seed(const char *path, uint8_t seed[GRANT_KEY_LEN], struct err *e)
{
	char *raw = NULL;
	size_t len = 0;
	int rc = file_read(path, GRANT_KEY_LEN, &raw, &len, e);

	if (rc)
		return rc;
	if (len == GRANT_KEY_LEN)
		memcpy(seed, raw, len);
	else
		rc = err_set(e, ERR_CORRUPT, "%s is not a key of %d bytes", path, GRANT_KEY_LEN);
	OPENSSL_cleanse(raw, len);
	free(raw);
	return rc;
}

/* The public half first: a seed never stands there without it. */
static int write_key(const char *folder, const uint8_t seed[GRANT_KEY_LEN], const struct grant_public_key *key,
		     struct file_owner owner, struct err *e)
{
	char path[PATH_MAX], line[PUBLIC_MAX], *text = base64_encode(key->key, GRANT_KEY_LEN, true);
	int rc;

	if (!text)
		return err_set(e, ERR_NOMEM, "no memory for a key");
	snprintf(line, sizeof line, "%s\n", text);
	free(text);
	rc = key_path(folder, key->kid, "pub", path, e);
	if (rc == 0)
		rc = file_publish(path, line, strlen(line), 0644, FILE_OWNER_SELF, true, e);
	if (rc == 0)
		rc = key_path(folder, key->kid, "seed", path, e);
	return rc ? rc : file_publish(path, seed, GRANT_KEY_LEN, 0600, owner, false, e);
}

static int make_key(const char *folder, struct file_owner owner, char out_kid[KID_LEN + 1], struct err *e)
{
	struct grant_public_key key = {0};
	uint8_t seed[GRANT_KEY_LEN];
	int rc = grant_key_create(seed, &key);

	rc = rc ? err_set(e, rc, "a signing key could not be made") : write_key(folder, seed, &key, owner, e);
	OPENSSL_cleanse(seed, sizeof seed);
	memcpy(out_kid, key.kid, KID_LEN + 1);
	return rc;
}

/* "<kid>.pub" gives kid; anything else in the folder is not ours. */
static bool is_public_name(const char *name, char kid[KID_LEN + 1])
{
	if (strlen(name) != KID_LEN + 4 || strcmp(name + KID_LEN, ".pub") != 0 ||
	    strspn(name, "0123456789abcdef") < KID_LEN)
		return false;
	memcpy(kid, name, KID_LEN);
	kid[KID_LEN] = '\0';
	return true;
}

static int add_file(struct key_folder *f, const char *kid, struct err *e)
{
	char path[PATH_MAX];
	struct key_file *k;
	struct stat st;
	int rc;

	if (f->n == f->place->most)
		return err_limit(e, ERR_LIMIT, &(struct err_share){"fixed.keys", "daemon", f->n, f->n, 1},
				 "more than %zu keys in %s", f->n, f->path);
	k = &f->files[f->n];
	memset(k, 0, sizeof *k);
	memcpy(k->key.kid, kid, KID_LEN + 1);
	rc = key_path(f->path, kid, "pub", path, e);
	if (rc == 0)
		rc = read_public(path, &k->key, e);
	if (rc)
		return rc;
	if (lstat(path, &st) < 0)
		return err_sys(e, errno, "stat %s", path);
	k->public_time = st.st_mtim;
	rc = key_path(f->path, kid, "seed", path, e);
	if (rc)
		return rc;
	k->has_seed = lstat(path, &st) == 0;
	if (k->has_seed)
		k->seed_time = st.st_mtim;
	f->n++;
	return 0;
}

/* Reads the folder at f->path. */
static int keys_scan(struct key_folder *f, struct err *e)
{
	char kid[KID_LEN + 1];
	struct dirent *entry;
	DIR *d = opendir(f->path);
	int rc = 0;

	if (!d)
		return err_sys(e, errno, "open %s", f->path);
	f->n = 0;
	while (rc == 0 && (entry = readdir(d))) {
		if (is_public_name(entry->d_name, kid))
			rc = add_file(f, kid, e);
	}
	closedir(d);
	return rc;
}

static bool newer(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* The one of this name; NULL: its seed is not there. */
static const struct key_file *seed_of(const struct key_folder *f, const char *kid)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->files[i].has_seed && strcmp(f->files[i].key.kid, kid) == 0)
			return &f->files[i];
	}
	return NULL;
}

/* Of several, which only a rotation that was cut short leaves. A file's time is no more than a hint: clocks are set. */
static const struct key_file *newest_seed(const struct key_folder *f)
{
	const struct key_file *best = NULL;

	for (size_t i = 0; i < f->n; i++) {
		if (f->files[i].has_seed && (!best || newer(&f->files[i].seed_time, &best->seed_time)))
			best = &f->files[i];
	}
	return best;
}

/* The folder at that place and its keys; to be freed. */
static int folder_open(const struct layout *l, const struct key_place *at, struct key_folder **out, struct err *e)
{
	struct key_folder *f = calloc(1, sizeof *f);
	int rc = f ? layout_path(l, at->name, f->path, e) : err_set(e, ERR_NOMEM, "no memory for keys");

	if (rc == 0) {
		f->place = at;
		rc = keys_scan(f, e);
	}
	if (rc)
		free(f);
	else
		*out = f;
	return rc;
}

/* Before a key is made: one too many would stay on the disk, and no start would get past it. */
static int check_room(const struct key_folder *f, size_t spare, struct err *e)
{
	size_t most = f->place->most - spare;

	return f->n < most ? 0
			   : err_limit(e, ERR_LIMIT, &(struct err_share){"fixed.keys", "daemon", most, f->n, 1},
				       "there are %zu keys in %s already; %s", f->n, f->path, f->place->full);
}

/* The same for a key that a rotation makes. */
static int check_room_at(const struct layout *l, const struct key_place *at, size_t spare, struct err *e)
{
	struct key_folder *f = NULL;
	int rc = folder_open(l, at, &f, e);

	if (rc == 0)
		rc = check_room(f, spare, e);
	free(f);
	return rc;
}

int keys_record_room(const struct layout *l, struct err *e)
{
	return check_room_at(l, &of_record, of_record.spare, e);
}

/* An open folder with at least one seed, made now when there was none. */
static int folder_open_or_make(const struct layout *l, const struct key_place *at, struct file_owner owner,
			       struct key_folder **out, struct err *e)
{
	char kid[KID_LEN + 1];
	struct key_folder *f = NULL;
	int rc = folder_open(l, at, &f, e);

	if (rc == 0 && !newest_seed(f)) {
		rc = check_room(f, 0, e);
		if (rc == 0)
			rc = make_key(f->path, owner, kid, e);
		if (rc == 0)
			rc = keys_scan(f, e);
		if (rc == 0 && !newest_seed(f))
			rc = err_set(e, ERR_CORRUPT, "%s holds no seed", f->path);
	}
	if (rc)
		free(f);
	else
		*out = f;
	return rc;
}

/* A seed that no longer signs is of use to a thief alone. Its public half gets the time of its retirement. */
static int retire_others(const struct key_folder *f, const struct key_file *current, struct err *e)
{
	char path[PATH_MAX];
	int rc = 0;

	for (size_t i = 0; i < f->n && rc == 0; i++) {
		const struct key_file *k = &f->files[i];

		if (k == current || !k->has_seed)
			continue;
		rc = key_path(f->path, k->key.kid, "pub", path, e);
		if (rc == 0 && utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) < 0)
			rc = err_sys(e, errno, "touch %s", path);
		if (rc == 0)
			rc = key_path(f->path, k->key.kid, "seed", path, e);
		if (rc == 0 && unlink(path) < 0)
			rc = err_sys(e, errno, "remove %s", path);
		if (rc == 0)
			rc = file_sync_dir(path, e);
	}
	return rc;
}

/* The seed that signs, once it is shown to belong to its public half. */
static int read_signing_seed(const struct key_folder *f, const struct key_file *current, uint8_t seed[GRANT_KEY_LEN],
			     char kid[17], struct err *e)
{
	struct grant_public_key derived;
	char path[PATH_MAX];
	int rc;

	rc = key_path(f->path, current->key.kid, "seed", path, e);
	if (rc == 0)
		rc = read_seed(path, seed, e);
	if (rc)
		return rc;
	rc = grant_key_public(seed, &derived);
	if (rc)
		return err_set(e, rc, "libcrypto does not take the key in %s", path);
	if (strcmp(derived.kid, current->key.kid) != 0 || memcmp(derived.key, current->key.key, GRANT_KEY_LEN) != 0)
		return err_set(e, ERR_CORRUPT, "%s does not belong to its public key", path);
	memcpy(kid, derived.kid, sizeof derived.kid);
	return 0;
}

/* What verifies, and current, which signs, from the folder into *k. */
static int take_grant_keys(struct keys *k, const struct key_folder *f, const struct key_file *current, struct err *e)
{
	struct grant_public_key *list = calloc(f->n + 1, sizeof *list);
	uint8_t seed[GRANT_KEY_LEN] = {0};
	char kid[17];
	int rc;

	if (!list)
		return err_set(e, ERR_NOMEM, "no memory for keys");
	rc = current ? read_signing_seed(f, current, seed, kid, e)
		     : err_set(e, ERR_CORRUPT, "%s does not hold the seed that signs", f->path);
	if (rc == 0) {
		for (size_t i = 0; i < f->n; i++)
			list[i] = f->files[i].key;
		free(k->set.keys);
		k->set = (struct grant_keyset){list, f->n};
		memcpy(k->kid, kid, sizeof k->kid);
		memcpy(k->seed, seed, sizeof k->seed);
		list = NULL;
	}
	free(list);
	OPENSSL_cleanse(seed, sizeof seed);
	return rc;
}

/* kid: of the key that signs from now on; NULL: whichever is found. */
static int open_grant_keys(struct keys *k, const struct layout *l, const char *kid, struct err *e)
{
	struct key_folder *f = NULL;
	const struct key_file *current;
	int rc = folder_open_or_make(l, &of_grants, FILE_OWNER_SELF, &f, e);

	if (rc)
		return rc;
	current = kid ? seed_of(f, kid) : newest_seed(f);
	if (current)
		rc = retire_others(f, current, e);
	if (rc == 0)
		rc = take_grant_keys(k, f, current, e);
	free(f);
	return rc;
}

static int open_record_key(struct keys *k, const struct layout *l, const struct identity *who, struct err *e)
{
	struct key_folder *f = NULL;
	int rc = folder_open_or_make(l, &of_record, who->recorder, &f, e);

	if (rc)
		return rc;
	rc = key_path(f->path, newest_seed(f)->key.kid, "seed", k->record_seed, e);
	if (rc == 0)
		rc = file_own(k->record_seed, 0600, who->recorder, e);
	free(f);
	return rc;
}

int keys_use_record(struct keys *k, const struct layout *l, const struct identity *who,
		    const uint8_t seed[GRANT_KEY_LEN], const struct grant_public_key *key, struct err *e)
{
	struct key_folder *f = NULL;
	char folder[PATH_MAX];
	int rc = layout_path(l, of_record.name, folder, e);

	if (rc == 0)
		rc = write_key(folder, seed, key, who->recorder, e);
	if (rc == 0)
		rc = folder_open(l, &of_record, &f, e);
	if (rc == 0 && !seed_of(f, key->kid))
		rc = err_set(e, ERR_CORRUPT, "%s does not hold the key that was put there", folder);
	if (rc == 0)
		rc = key_path(folder, key->kid, "seed", k->record_seed, e);
	if (rc == 0)
		rc = retire_others(f, seed_of(f, key->kid), e);
	free(f);
	return rc;
}

static int make_host_key(const char *path, const char *public_path, struct file_owner owner, struct err *e)
{
	struct grant_public_key key;
	uint8_t seed[GRANT_KEY_LEN];
	char *private_text = NULL, *line = NULL;
	int rc = grant_key_create(seed, &key);

	if (rc)
		return err_set(e, rc, "an SSH host key could not be made");
	rc = hostkey_encode(seed, key.key, "muxd", &private_text, &line, e);
	OPENSSL_cleanse(seed, sizeof seed);
	if (rc || !private_text || !line)
		return rc;
	rc = file_publish(public_path, line, strlen(line), 0644, FILE_OWNER_SELF, true, e);
	if (rc == 0)
		rc = file_publish(path, private_text, strlen(private_text), 0600, owner, false, e);
	OPENSSL_cleanse(private_text, strlen(private_text));
	free(private_text);
	free(line);
	return rc;
}

static int open_host_key(struct keys *k, const struct layout *l, const struct identity *who, struct err *e)
{
	char public_path[PATH_MAX], *line = NULL;
	size_t len = 0;
	int rc = layout_path(l, "keys/ssh_host_ed25519", k->ssh_host_key, e);

	if (rc == 0)
		rc = layout_path(l, "keys/ssh_host_ed25519.pub", public_path, e);
	if (rc == 0 && access(k->ssh_host_key, F_OK) < 0 && errno == ENOENT)
		rc = make_host_key(k->ssh_host_key, public_path, who->net, e);
	if (rc == 0)
		rc = file_own(k->ssh_host_key, 0600, who->net, e);
	if (rc == 0)
		rc = file_read(public_path, 4096, &line, &len, e);
	if (rc == ERR_NOT_FOUND)
		rc = err_set(e, rc, "%s is missing; make it again with: ssh-keygen -y -f %s > %s", public_path,
			     k->ssh_host_key, public_path);
	if (rc == 0)
		rc = hostkey_fingerprint(line, k->ssh_fingerprint, e);
	free(line);
	return rc;
}

/* Made once: with another one the muxlets that run in pods would not know this daemon any more. */
static int open_link_secret(struct keys *k, const struct layout *l, struct err *e)
{
	uint8_t secret[KEYS_LINK_SECRET_LEN];
	struct stat st;
	int rc = layout_path(l, "keys/link.secret", k->link_secret, e);

	if (rc)
		return rc;
	if (lstat(k->link_secret, &st) < 0 && errno == ENOENT) {
		rc = random_bytes(secret, sizeof secret);
		rc = rc ? err_set(e, rc, "no random bytes for the secret of links")
			: file_publish(k->link_secret, secret, sizeof secret, 0600, FILE_OWNER_SELF, false, e);
		OPENSSL_cleanse(secret, sizeof secret);
		return rc;
	}
	if (!S_ISREG(st.st_mode) || st.st_size != KEYS_LINK_SECRET_LEN)
		return err_set(e, ERR_CORRUPT, "%s is not a secret of %d bytes", k->link_secret, KEYS_LINK_SECRET_LEN);
	return file_own(k->link_secret, 0600, FILE_OWNER_SELF, e);
}

/* Of an edge: whoever takes it over finds nothing that signs. */
static int check_no_seed(const struct layout *l, struct err *e)
{
	struct key_folder *f = NULL;
	int rc = folder_open(l, &of_grants, &f, e);

	if (rc == 0 && newest_seed(f))
		rc = err_set(e, ERR_CONFLICT,
			     "%s holds a key that signs grants: an edge has none, give it a state directory of its own",
			     f->path);
	free(f);
	return rc;
}

int keys_open(const struct layout *l, const struct identity *who, bool signs, struct keys *out, struct err *e)
{
	struct keys k = {0};
	int rc = signs ? open_grant_keys(&k, l, NULL, e) : check_no_seed(l, e);

	if (rc == 0)
		rc = open_record_key(&k, l, who, e);
	if (rc == 0)
		rc = open_host_key(&k, l, who, e);
	if (rc == 0)
		rc = open_link_secret(&k, l, e);
	if (rc == 0)
		*out = k;
	else
		keys_finish(&k);
	OPENSSL_cleanse(k.seed, sizeof k.seed);
	return rc;
}

void keys_finish(struct keys *k)
{
	if (!k)
		return;
	free(k->set.keys);
	OPENSSL_cleanse(k, sizeof *k);
}

static int drop_public(const struct key_folder *f, const char *kid, struct err *e)
{
	char path[PATH_MAX];
	int rc = key_path(f->path, kid, "pub", path, e);

	if (rc == 0 && unlink(path) < 0)
		rc = err_sys(e, errno, "remove %s", path);
	return rc ? rc : file_sync_dir(path, e);
}

/* One that cannot be dropped keeps no other: the first failure is returned behind the last of them. */
static int drop_retired(const struct key_folder *f, int64_t now_s, int64_t keep_s, struct err *e)
{
	int first = 0;

	for (size_t i = 0; i < f->n; i++) {
		int rc = 0;

		if (!f->files[i].has_seed && f->files[i].public_time.tv_sec + keep_s <= now_s)
			rc = drop_public(f, f->files[i].key.kid, first ? NULL : e);
		first = first ? first : rc;
	}
	return first;
}

int keys_expire(struct keys *k, const struct layout *l, int64_t now_s, int64_t keep_s, size_t *out_dropped,
		struct err *e)
{
	struct key_folder *f = NULL;
	size_t before;
	int kept, rc = folder_open(l, &of_grants, &f, e);

	*out_dropped = 0;
	if (rc)
		return rc;
	before = f->n;
	kept = drop_retired(f, now_s, keep_s, e);
	rc = keys_scan(f, e);
	if (rc == 0 && f->n < before)
		rc = take_grant_keys(k, f, seed_of(f, k->kid), e);
	if (rc == 0)
		*out_dropped = before - f->n;
	free(f);
	return rc ? rc : kept;
}

static int drop_old_keys(struct keys *k, const struct layout *l, struct err *e)
{
	struct err why = {0};
	size_t dropped;
	int rc = keys_expire(k, l, INT64_MAX / 2, 0, &dropped, &why);

	return rc ? err_set(e, rc, "key %s signs from now on, but an old one still verifies: %s", k->kid, why.message)
		  : 0;
}

int keys_rotate(struct keys *k, const struct layout *l, bool drop_old, struct err *e)
{
	char folder[PATH_MAX], kid[KID_LEN + 1];
	int rc = check_room_at(l, &of_grants, drop_old ? 0 : of_grants.spare, e);

	if (rc == 0)
		rc = layout_path(l, of_grants.name, folder, e);
	if (rc == 0)
		rc = make_key(folder, FILE_OWNER_SELF, kid, e);
	if (rc == 0)
		rc = open_grant_keys(k, l, kid, e);
	if (rc == 0 && drop_old)
		rc = drop_old_keys(k, l, e);
	return rc;
}

#include "recorder/serve/start.h"

#include "base/err.h"
#include "base/sock.h"
#include "recorder/chain/sign.h"
#include "recorder/serve/auth.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONF_MAX (1024 * 1024)

static int pread_whole(int fd, void *p, size_t n)
{
	size_t got = 0;
	while (got < n) {
		ssize_t k = pread(fd, (char *)p + got, n - got, (off_t)got);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return ERR_EOF;
		got += (size_t)k;
	}
	return 0;
}

int start_conf(int fd, struct conf **out, struct err *e)
{
	struct stat st;
	char *text = NULL;
	int rc;

	if (fstat(fd, &st) < 0)
		rc = err_sys(e, errno, "cannot look at the configuration");
	else if (st.st_size > CONF_MAX)
		rc = err_set(e, ERR_TOO_LARGE, "the configuration has more than %d bytes", CONF_MAX);
	else if (!(text = malloc((size_t)st.st_size + 1)))
		rc = err_set(e, ERR_NOMEM, "out of memory");
	else if (pread_whole(fd, text, (size_t)st.st_size))
		rc = err_set(e, ERR_SYS, "cannot read the configuration");
	else
		rc = conf_parse(text, (size_t)st.st_size, "configuration", out, e);
	/* As for net and the monitor: what is told of the configuration is what is in force. */
	if (rc == 0 && (rc = conf_environment(*out, e)) != 0) {
		conf_destroy(*out);
		*out = NULL;
	}
	free(text);
	close(fd);
	return rc;
}

int start_key(int fd, struct signer **out, struct err *e)
{
	uint8_t seed[GRANT_KEY_LEN];
	int rc = pread_whole(fd, seed, sizeof(seed));
	rc = rc ? err_set(e, ERR_CORRUPT, "the record key cannot be read") : signer_create(seed, out, e);
	OPENSSL_cleanse(seed, sizeof(seed));
	close(fd);
	return rc;
}

/* Moves the named descriptor out of the list. */
static int take_fd(const json_t *names, int *fds, size_t n, const char *name, int *out, struct err *e)
{
	for (size_t i = 0; i < n && i < json_array_size(names); i++) {
		const char *s = json_string_value(json_array_get(names, i));
		if (s && strcmp(s, name) == 0 && fds[i] >= 0) {
			*out = fds[i];
			fds[i] = -1;
			return 0;
		}
	}
	return err_set(e, ERR_PROTOCOL, "start: descriptor '%s' is missing", name);
}

static int start_auth(const json_t *msg, struct start *s, struct err *e)
{
	const char *instance = "";
	int64_t floor = 0;
	const json_t *entry;
	size_t i;

	int rc = json_need_str(msg, "instance", &instance, e);
	if (rc == 0)
		rc = json_opt_int(msg, "floor_ns", 0, INT64_MAX, &floor, e);
	if (rc == 0 && auth_create(instance, floor, &s->auth))
		rc = err_set(e, ERR_NOMEM, "out of memory");
	if (rc == 0)
		rc = auth_set_keys(s->auth, json_object_get(msg, "grant_keys"), e);
	json_array_foreach(json_object_get(msg, "revoked"), i, entry)
	{
		if (rc == 0)
			rc = auth_revoke(s->auth, entry, e);
	}
	return rc;
}

static int start_parse(const json_t *msg, int *fds, size_t n, struct start *s, struct err *e)
{
	const json_t *names = json_object_get(msg, "fds");
	const char *op = "", *dir = "";
	int64_t uid = 0;
	int fd = -1;

	int rc = json_need_str(msg, "op", &op, e);
	if (rc == 0 && strcmp(op, "start") != 0)
		rc = err_set(e, ERR_PROTOCOL, "the first packet is '%s', not 'start'", op);
	if (rc == 0)
		rc = json_need_str(msg, "state_dir", &dir, e);
	if (rc == 0)
		rc = json_need_int(msg, "net_uid", 0, UINT32_MAX, &uid, e);
	if (rc == 0 && asprintf(&s->dir, "%s/record", dir) < 0) {
		s->dir = NULL;
		rc = err_set(e, ERR_NOMEM, "out of memory");
	}
	s->net_uid = (uid_t)uid;
	s->loaded = json_incref(json_object_get(msg, "loaded"));
	if (rc == 0 && (rc = take_fd(names, fds, n, "conf", &fd, e)) == 0)
		rc = start_conf(fd, &s->conf, e);
	if (rc == 0 && (rc = take_fd(names, fds, n, "record_key", &fd, e)) == 0)
		rc = start_key(fd, &s->signer, e);
	if (rc == 0)
		rc = take_fd(names, fds, n, "ring", &s->ring_fd, e);
	if (rc == 0)
		rc = take_fd(names, fds, n, "cursor", &s->cursor_fd, e);
	if (rc == 0)
		rc = take_fd(names, fds, n, "listen", &s->listen_fd, e);
	return rc ? rc : start_auth(msg, s, e);
}

int start_receive(int ipc_fd, struct start *out, struct err *e)
{
	struct start s = {.ring_fd = -1, .cursor_fd = -1, .listen_fd = -1};
	int fds[SOCK_FDS_MAX], rc;
	size_t n;
	json_t *msg = NULL;

	do {
		struct pollfd pfd = {.fd = ipc_fd, .events = POLLIN};
		(void)poll(&pfd, 1, -1);
		n = SOCK_FDS_MAX;
		rc = sock_recv_packet(ipc_fd, &msg, fds, &n, e);
	} while (rc == ERR_AGAIN);
	if (rc)
		return rc;
	rc = start_parse(msg, fds, n, &s, e);
	json_decref(msg);
	for (size_t i = 0; i < n; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	if (rc) {
		start_finish(&s);
		return rc;
	}
	*out = s;
	return 0;
}

void start_finish(struct start *s)
{
	conf_destroy(s->conf);
	json_decref(s->loaded);
	signer_destroy(s->signer);
	auth_destroy(s->auth);
	free(s->dir);
	if (s->ring_fd >= 0)
		close(s->ring_fd);
	if (s->cursor_fd >= 0)
		close(s->cursor_fd);
	if (s->listen_fd >= 0)
		close(s->listen_fd);
	*s = (struct start){.ring_fd = -1, .cursor_fd = -1, .listen_fd = -1};
}

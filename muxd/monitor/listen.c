#include "muxd/monitor/listen.h"

#include "base/err.h"
#include "base/sock.h"
#include "base/text.h"
#include "muxd/monitor/layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const local_names[] = {"admin.sock", "api.sock", "recorder.sock"};

static int open_tcp(const char *address, int *out_fd, char out_name[ADDRESS_MAX], struct err *e)
{
	int rc = sock_listen_tcp(address, out_fd, e);

	if (rc == 0 && sock_name(*out_fd, 0, out_name, ADDRESS_MAX))
		rc = err_set(e, ERR_SYS, "the address of listener %s is not known", address);
	return rc;
}

static int open_local(const struct layout *l, const struct identity *who, const char *name, int type, int *out_fd,
		      struct err *e)
{
	char path[PATH_MAX];
	int rc = layout_path(l, name, path, e);

	if (rc == 0)
		rc = sock_listen_unix(path, type, 0600, out_fd, e);
	if (rc == 0 && who->root && chown(path, who->owner.uid, who->owner.gid) < 0)
		rc = err_sys(e, errno, "change the owner of %s", path);
	return rc;
}

int listeners_open(struct listeners *s, const struct layout *l, const struct identity *who, const char *https,
		   const char *ssh, struct err *e)
{
	struct listeners n = {-1, -1, -1, -1, -1, "", ""};
	int rc = https ? open_tcp(https, &n.https, n.https_address, e) : 0;

	if (rc == 0 && ssh)
		rc = open_tcp(ssh, &n.ssh, n.ssh_address, e);
	if (rc == 0)
		rc = open_local(l, who, local_names[0], SOCK_SEQPACKET, &n.admin, e);
	if (rc == 0)
		rc = open_local(l, who, local_names[1], SOCK_STREAM, &n.api, e);
	if (rc == 0)
		rc = open_local(l, who, local_names[2], SOCK_STREAM, &n.recorder, e);
	if (rc == 0)
		*s = n;
	else
		listeners_close(&n, l, 0);
	return rc;
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void listeners_close(struct listeners *s, const struct layout *l, int unlink_paths)
{
	char path[PATH_MAX];

	close_one(&s->https);
	close_one(&s->ssh);
	close_one(&s->admin);
	close_one(&s->recorder);
	close_one(&s->api);
	for (size_t i = 0; unlink_paths && i < sizeof local_names / sizeof local_names[0]; i++) {
		if (layout_path(l, local_names[i], path, NULL) == 0)
			unlink(path);
	}
}

void address_host(const char *address, char *out)
{
	const char *colon = strrchr(address, ':');
	size_t len = colon ? (size_t)(colon - address) : strlen(address);

	if (len >= 2 && address[0] == '[' && address[len - 1] == ']') {
		address++;
		len -= 2;
	}
	text_put_bytes(out, ADDRESS_MAX, address, len);
}

void address_for_client(const char *address, char *out_host, unsigned *out_port)
{
	const char *colon = strrchr(address, ':');
	char host[ADDRESS_MAX];

	address_host(address, host);
	*out_port = colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
	if (strcmp(host, "0.0.0.0") == 0)
		snprintf(out_host, ADDRESS_MAX, "127.0.0.1");
	else if (strcmp(host, "::") == 0)
		snprintf(out_host, ADDRESS_MAX, "::1");
	else
		snprintf(out_host, ADDRESS_MAX, "%s", host);
}

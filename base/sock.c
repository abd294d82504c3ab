#include "base/sock.h"

#include "base/err.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 511

/*
 * A path longer than sun_path goes through its directory's descriptor. *out_dir
 * is to be closed after bind() or connect(); -1 when there is none.
 */
static int unix_address(const char *path, struct sockaddr_un *out, int *out_dir, struct err *e)
{
	char dir[4096];
	const char *slash = strrchr(path, '/');

	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	*out_dir = -1;
	if (strlen(path) < sizeof(out->sun_path)) {
		memcpy(out->sun_path, path, strlen(path) + 1);
		return 0;
	}
	if (!slash || (size_t)(slash - path) >= sizeof(dir))
		return err_set(e, ERR_INVAL, "socket path %s is too long", path);
	memcpy(dir, path, (size_t)(slash - path));
	dir[slash - path] = '\0';
	*out_dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*out_dir < 0)
		return err_sys(e, errno, "open %s", dir);
	int n = snprintf(out->sun_path, sizeof(out->sun_path), "/proc/self/fd/%d/%s", *out_dir, slash + 1);
	if (n < 0 || (size_t)n >= sizeof(out->sun_path)) {
		close(*out_dir);
		*out_dir = -1;
		return err_set(e, ERR_INVAL, "socket name %s is too long", slash + 1);
	}
	return 0;
}

static int remove_old_socket(const char *path, struct err *e)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "stat %s", path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, ERR_CONFLICT, "%s is in the way and is not a socket", path);
	if (unlink(path) < 0 && errno != ENOENT)
		return err_sys(e, errno, "remove %s", path);
	return 0;
}

int sock_listen_unix(const char *path, int type, mode_t mode, int *out_fd, struct err *e)
{
	struct sockaddr_un sun;
	int dir, fd = -1, rc = unix_address(path, &sun, &dir, e);

	if (rc < 0)
		return rc;
	rc = remove_old_socket(path, e);
	if (rc < 0)
		goto out;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		rc = err_sys(e, errno, "make a socket");
		goto out;
	}
	/* The mode set here is the inode's from its first moment: nobody slips in before the chmod below. */
	if (fchmod(fd, mode) < 0 || bind(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0 || chmod(path, mode) < 0 ||
	    listen(fd, BACKLOG) < 0) {
		rc = err_sys(e, errno, "listen on %s", path);
		goto out;
	}
	*out_fd = fd;
	fd = -1;
out:
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
	return rc;
}

static int connect_wait(int fd, const struct sockaddr *sa, socklen_t len)
{
	while (connect(fd, sa, len) < 0) {
		if (errno == EISCONN)
			return 0;
		if (errno != EINTR)
			return -1;
	}
	return 0;
}

int sock_connect_unix(const char *path, int type, int *out_fd, struct err *e)
{
	struct sockaddr_un sun;
	int dir, rc = unix_address(path, &sun, &dir, e);

	if (rc < 0)
		return rc;
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		rc = err_sys(e, errno, "make a socket");
	} else if (connect_wait(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0) {
		rc = err_sys(e, errno, "connect to %s", path);
		close(fd);
	} else {
		*out_fd = fd;
	}
	if (dir >= 0)
		close(dir);
	return rc;
}

/* "host:port" or "[v6]:port" into its parts. */
static int hostport_split(const char *s, char *host, size_t host_size, char *port, size_t port_size, struct err *e)
{
	const char *colon = strrchr(s, ':');
	char *end;

	if (!colon || colon == s)
		return err_set(e, ERR_INVAL, "address %s is not HOST:PORT", s);
	const char *from = s;
	size_t len = (size_t)(colon - s);
	if (*s == '[' && len > 2 && s[len - 1] == ']') {
		from++;
		len -= 2;
	} else if (memchr(s, ':', len)) {
		return err_set(e, ERR_INVAL, "address %s: write an IPv6 address as [::1]:PORT", s);
	}
	errno = 0;
	unsigned long n = strtoul(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end || errno || n > 65535)
		return err_set(e, ERR_INVAL, "address %s: port is not a number from 0 to 65535", s);
	if (len == 0 || len >= host_size)
		return err_set(e, ERR_INVAL, "address %s: host is empty or too long", s);
	memcpy(host, from, len);
	host[len] = '\0';
	snprintf(port, port_size, "%lu", n);
	return 0;
}

static int listen_on(const struct addrinfo *ai, const char *hostport, int *out_fd, struct err *e)
{
	int on = 1, fd = socket(ai->ai_family, ai->ai_socktype | SOCK_CLOEXEC, ai->ai_protocol);

	if (fd < 0)
		return err_sys(e, errno, "make a socket for %s", hostport);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (ai->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
		int rc = err_sys(e, errno, "listen on %s", hostport);
		close(fd);
		return rc;
	}
	*out_fd = fd;
	return 0;
}

int sock_listen_tcp(const char *hostport, int *out_fd, struct err *e)
{
	char host[256], port[8];
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *list;
	int rc = hostport_split(hostport, host, sizeof(host), port, sizeof(port), e);

	if (rc < 0)
		return rc;
	int fault = getaddrinfo(host, port, &hints, &list);
	if (fault && strcmp(host, "localhost") == 0) /* loopback by definition (RFC 6761), even without /etc/hosts */
		fault = getaddrinfo("127.0.0.1", port, &hints, &list);
	if (fault)
		return err_set(e, ERR_INVAL, "address %s: %s", hostport, gai_strerror(fault));
	/* "localhost" may be several addresses: the first that works is it. */
	struct err last = {0};
	rc = ERR_INVAL;
	for (const struct addrinfo *ai = list; ai && rc < 0; ai = ai->ai_next)
		rc = listen_on(ai, hostport, out_fd, &last);
	freeaddrinfo(list);
	return rc < 0 ? err_set(e, rc, "%s", last.message) : 0;
}

int sock_name(int fd, int peer, char *out, size_t size)
{
	struct sockaddr_storage ss = {0};
	socklen_t len = sizeof(ss);
	char host[INET6_ADDRSTRLEN];

	if ((peer ? getpeername : getsockname)(fd, (struct sockaddr *)&ss, &len) < 0)
		return ERR_SYS;
	if (ss.ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)&ss;
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(out, size, "%s:%u", host, ntohs(in->sin_port));
	} else if (ss.ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&ss;
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		snprintf(out, size, "[%s]:%u", host, ntohs(in6->sin6_port));
	} else {
		snprintf(out, size, "unix");
	}
	return 0;
}

int sock_peer_cred(int fd, pid_t *out_pid, uid_t *out_uid, gid_t *out_gid)
{
	struct ucred c;
	socklen_t len = sizeof(c);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len) < 0)
		return ERR_SYS;
	if (out_pid)
		*out_pid = c.pid;
	if (out_uid)
		*out_uid = c.uid;
	if (out_gid)
		*out_gid = c.gid;
	return 0;
}

int sock_set_nonblock(int fd, int on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return ERR_SYS;
	flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return fcntl(fd, F_SETFL, flags) < 0 ? ERR_SYS : 0;
}

int sock_pair(int type, int out_fds[2])
{
	int fds[2];

	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) < 0)
		return ERR_SYS;
	out_fds[0] = fds[0];
	out_fds[1] = fds[1];
	return 0;
}

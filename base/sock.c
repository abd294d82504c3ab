#include "base/sock.h"

#include "base/err.h"
#include "base/json.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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

/* A peer that reads nothing answers each probe of its window. */
uint32_t sock_silent_ms(int fd)
{
	struct tcp_info i = {0};
	socklen_t len = sizeof(i);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len))
		return 0;
	return i.tcpi_unacked > 0 || i.tcpi_probes > 1 ? i.tcpi_last_ack_recv : 0;
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

/* ---- packets: one JSON value each, with descriptors. They may hold tokens: every copy is wiped. */

#define CONTROL_SIZE CMSG_SPACE(SOCK_FDS_MAX * sizeof(int))

union control {
	char bytes[CONTROL_SIZE];
	struct cmsghdr align;
};

static void attach_fds(struct msghdr *m, union control *control, const int *fds, size_t nfds)
{
	if (nfds == 0)
		return;
	memset(control, 0, sizeof(*control));
	m->msg_control = control->bytes;
	m->msg_controllen = CMSG_SPACE(nfds * sizeof(int));
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
	memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
}

static ssize_t send_whole(int fd, const struct msghdr *m)
{
	bool grown = false;

	for (;;) {
		ssize_t n = sendmsg(fd, m, MSG_NOSIGNAL);
		if (n >= 0)
			return n;
		if (errno == EINTR)
			continue;
		if (errno != EMSGSIZE || grown)
			return -1;
		/* A packet must fit the socket's buffer, and the system's default may be less than our largest. */
		int size = SOCK_PACKET_MAX;
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		grown = true;
	}
}

int sock_send_packet(int fd, const json_t *msg, const int *fds, size_t nfds, struct err *e)
{
	union control control;

	if (nfds > SOCK_FDS_MAX)
		return err_set(e, ERR_INVAL, "a packet with %zu descriptors, %d are allowed", nfds, SOCK_FDS_MAX);
	char *text = json_text(msg);
	if (!text)
		return err_set(e, ERR_NOMEM, "no memory for a packet");
	size_t len = strlen(text);
	struct iovec iov = {.iov_base = text, .iov_len = len};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	int rc = 0;

	attach_fds(&m, &control, fds, nfds);
	if (len > SOCK_PACKET_MAX)
		rc = err_set(e, ERR_TOO_LARGE, "a packet of %zu bytes, %d are allowed", len, SOCK_PACKET_MAX);
	else if (send_whole(fd, &m) < 0)
		rc = err_sys(e, errno, "send a packet");
	explicit_bzero(text, len);
	free(text);
	return rc;
}

static void sock_close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

/* Every descriptor that came along, whatever the peer packed. */
static size_t collect_fds(struct msghdr *m, int fds[SOCK_FDS_MAX])
{
	size_t total = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (total < SOCK_FDS_MAX)
				fds[total++] = fd;
			else
				close(fd);
		}
	}
	return total;
}

/* Size of the packet that waits; it stays. */
static int packet_size(int fd, size_t *out, struct err *e)
{
	ssize_t n;

	do
		n = recv(fd, NULL, 0, MSG_PEEK | MSG_TRUNC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, errno, "receive a packet");
	if (n == 0)
		return err_set(e, ERR_EOF, "the other side closed the connection");
	*out = (size_t)n;
	return 0;
}

static int recv_into(int fd, char *text, size_t size, size_t *out_len, int fds[SOCK_FDS_MAX], size_t *out_nfds,
		     struct err *e)
{
	union control control;
	struct iovec iov = {.iov_base = text, .iov_len = size};
	struct msghdr m = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
	ssize_t n;

	do
		n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, errno, "receive a packet");
	*out_nfds = collect_fds(&m, fds);
	*out_len = (size_t)n;
	if (n == 0)
		return err_set(e, ERR_EOF, "the other side closed the connection");
	if (m.msg_flags & MSG_TRUNC)
		return err_set(e, ERR_TOO_LARGE, "a packet of more than %d bytes", SOCK_PACKET_MAX);
	if (m.msg_flags & MSG_CTRUNC)
		return err_set(e, ERR_PROTOCOL, "a packet with more descriptors than %d, or none left here",
			       SOCK_FDS_MAX);
	return 0;
}

int sock_recv_packet(int fd, json_t **out_msg, int *out_fds, size_t *inout_nfds, struct err *e)
{
	size_t room = inout_nfds ? *inout_nfds : 0, size = 0, len = 0, nfds = 0;
	int fds[SOCK_FDS_MAX];
	json_t *msg = NULL;
	int rc = packet_size(fd, &size, e);

	if (rc < 0)
		return rc;
	if (size > SOCK_PACKET_MAX)
		size = SOCK_PACKET_MAX;
	char *text = malloc(size);
	if (!text)
		return err_set(e, ERR_NOMEM, "no memory for a packet");
	rc = recv_into(fd, text, size, &len, fds, &nfds, e);
	if (rc == 0 && nfds > room)
		rc = err_set(e, ERR_PROTOCOL, "a packet with %zu descriptors, %zu are expected", nfds, room);
	if (rc == 0)
		rc = json_parse(text, len, SOCK_PACKET_MAX, &msg, e);
	explicit_bzero(text, size);
	free(text);
	if (rc < 0) {
		sock_close_all(fds, nfds);
		return rc;
	}
	if (out_fds)
		memcpy(out_fds, fds, nfds * sizeof(int));
	if (inout_nfds)
		*inout_nfds = nfds;
	*out_msg = msg;
	return 0;
}

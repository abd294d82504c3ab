/*
 * keeper - the least that a program's whole output can cost where it is kept and provable: an HTTPS server of one
 * process that runs `cat FILE` and, piece by piece, puts it into a log with a digest of the log, keeps it a second time
 * for whoever asks later, has a digest of the answer, and sends it. No log-in, no sandbox, no cut, nothing compressed,
 * nobody waits for the disk before the end. The bench shows what is left of the goal when muxd's own part is nothing.
 *
 *   keeper PORT CERT KEY FILE DIR
 *
 * DIR: log and kept output, of the last request alone. One request at a time, which is not looked at.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECE (256 * 1024)

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int file_open(const char *dir, const char *name)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		die(path);
	return fd;
}

static void write_all(int fd, const uint8_t *p, size_t n)
{
	for (ssize_t m; n; p += m, n -= (size_t)m)
		if ((m = write(fd, p, n)) < 0)
			die("write");
}

static pid_t program_start(const char *file, int *out)
{
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		die("pipe");
	(void)fcntl(fds[0], F_SETPIPE_SZ, 2 * PIECE);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		dup2(fds[1], 1);
		execlp("cat", "cat", file, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	*out = fds[0];
	return pid;
}

static bool request_take(SSL *ssl)
{
	char head[4096];
	int n = SSL_accept(ssl) == 1 ? SSL_read(ssl, head, sizeof(head)) : 0;
	static const char answer[] =
	    "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nConnection: close\r\n\r\n";

	return n > 0 && SSL_write(ssl, answer, sizeof(answer) - 1) > 0;
}

static void output_send(SSL *ssl, const char *file, const char *dir)
{
	static uint8_t piece[PIECE];
	EVP_MD_CTX *answer = EVP_MD_CTX_new(), *log = EVP_MD_CTX_new();
	int log_fd = file_open(dir, "log"), kept_fd = file_open(dir, "kept"), fd;
	pid_t pid = program_start(file, &fd);
	ssize_t n;

	if (!answer || !log || !EVP_DigestInit_ex(answer, EVP_sha256(), NULL) ||
	    !EVP_DigestInit_ex(log, EVP_sha256(), NULL))
		die("digests");
	while ((n = read(fd, piece, sizeof(piece))) > 0) {
		write_all(log_fd, piece, (size_t)n);
		EVP_DigestUpdate(log, piece, (size_t)n);
		write_all(kept_fd, piece, (size_t)n);
		EVP_DigestUpdate(answer, piece, (size_t)n);
		if (SSL_write(ssl, piece, (int)n) != (int)n)
			break;
	}
	if (fdatasync(log_fd) || fdatasync(kept_fd))
		die("fdatasync");
	close(log_fd);
	close(kept_fd);
	close(fd);
	EVP_MD_CTX_free(answer);
	EVP_MD_CTX_free(log);
	(void)waitpid(pid, NULL, 0);
}

static void serve(SSL_CTX *tls, int fd, const char *file, const char *dir)
{
	SSL *ssl = SSL_new(tls);

	if (!ssl || !SSL_set_fd(ssl, fd))
		die("SSL_new");
	if (request_take(ssl)) /* a connection that says nothing is the bench's, which looks whether anybody listens */
		output_send(ssl, file, dir);
	(void)SSL_shutdown(ssl);
	SSL_free(ssl);
	close(fd);
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, fd;

	if (argc != 6) {
		fprintf(stderr, "keeper PORT CERT KEY FILE DIR\n");
		return 2;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	a.sin_port = htons((uint16_t)atoi(argv[1]));
	(void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!tls || SSL_CTX_use_certificate_chain_file(tls, argv[2]) != 1 ||
	    SSL_CTX_use_PrivateKey_file(tls, argv[3], SSL_FILETYPE_PEM) != 1)
		die("certificate");
	if (bind(listener, (struct sockaddr *)&a, sizeof(a)) || listen(listener, 8))
		die("listen");
	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		serve(tls, fd, argv[4], argv[5]);
	die("accept");
}

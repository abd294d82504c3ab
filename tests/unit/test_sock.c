// tier: check
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/sock.h"
#include "tests/lib/patience.h"

#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/muxd-test-sock-XXXXXX";

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	(void)state;
	char path[300];
	snprintf(path, sizeof(path), "%s/s", dir);
	unlink(path);
	return rmdir(dir);
}

static int open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void listens_and_connects_on_a_path(void **state)
{
	(void)state;
	char path[300];
	struct stat st;
	int server, client;
	uid_t uid = 12345;
	pid_t pid = 0;
	snprintf(path, sizeof(path), "%s/s", dir);
	assert_int_equal(sock_listen_unix(path, SOCK_STREAM, 0600, &server, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(sock_connect_unix(path, SOCK_STREAM, &client, NULL), 0);
	int peer = accept(server, NULL, NULL);
	assert_true(peer >= 0);
	assert_int_equal(sock_peer_cred(peer, &pid, &uid, NULL), 0);
	assert_int_equal(uid, getuid());
	assert_int_equal(pid, getpid());
	assert_true(fcntl(client, F_GETFD) & FD_CLOEXEC);
	close(peer);
	close(client);
	close(server);
	/* The file stayed behind: the next one takes its place, and nobody answers at the old one. */
	struct err e = {0};
	assert_int_equal(sock_connect_unix(path, SOCK_STREAM, &client, &e), ERR_UNAVAILABLE);
	assert_int_equal(sock_listen_unix(path, SOCK_SEQPACKET, 0666, &server, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0666);
	close(server);
	unlink(path);
	assert_int_equal(sock_connect_unix(path, SOCK_STREAM, &client, &e), ERR_NOT_FOUND);
}

static void a_file_in_the_way_is_kept(void **state)
{
	(void)state;
	char path[300];
	int fd;
	struct err e = {0};
	snprintf(path, sizeof(path), "%s/s", dir);
	int file = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(file >= 0);
	close(file);
	assert_int_equal(sock_listen_unix(path, SOCK_STREAM, 0600, &fd, &e), ERR_CONFLICT);
	assert_non_null(strstr(e.message, path));
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
}

static void long_paths_work_too(void **state)
{
	(void)state;
	char deep[300], path[400];
	int server, client, before = open_descriptors();
	snprintf(deep, sizeof(deep), "%s/%0200d", dir, 7);
	assert_int_equal(mkdir(deep, 0700), 0);
	snprintf(path, sizeof(path), "%s/s", deep);
	assert_int_equal(sock_listen_unix(path, SOCK_STREAM, 0600, &server, NULL), 0);
	assert_int_equal(sock_connect_unix(path, SOCK_STREAM, &client, NULL), 0);
	close(client);
	close(server);
	assert_int_equal(open_descriptors(), before);
	unlink(path);
	rmdir(deep);
}

static void listens_on_tcp_addresses(void **state)
{
	(void)state;
	char name[64];
	int fd, again;
	struct err e = {0};
	assert_int_equal(sock_listen_tcp("127.0.0.1:0", &fd, NULL), 0);
	assert_int_equal(sock_name(fd, 0, name, sizeof(name)), 0);
	assert_memory_equal(name, "127.0.0.1:", 10);
	assert_true(atoi(name + 10) > 0);
	assert_int_equal(sock_listen_tcp(name, &again, &e), ERR_ADDR_IN_USE);
	assert_non_null(strstr(e.message, name));
	close(fd);
	assert_int_equal(sock_listen_tcp("localhost:0", &fd, NULL), 0);
	close(fd);
	static const char *const wrong[] = {"",          "127.0.0.1",    "127.0.0.1:", "127.0.0.1:x", ":80",
					    "1.2:70000", "127.0.0.1:-1", "::1:80",     "[]:80",       "127.0.0.1: 80"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(sock_listen_tcp(wrong[i], &fd, &e), ERR_INVAL);
}

static void packets_carry_descriptors(void **state)
{
	(void)state;
	int pair[2], pipe_fds[2], got[4] = {-1, -1, -1, -1}, before = open_descriptors();
	size_t n = 4;
	json_t *msg = json_pack("{s:s}", "op", "start"), *in = NULL;
	char c = 0;
	assert_int_equal(sock_pair(SOCK_SEQPACKET, pair), 0);
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(sock_send_packet(pair[0], msg, pipe_fds, 2, NULL), 0);
	assert_int_equal(sock_send_packet(pair[0], msg, NULL, 0, NULL), 0);
	assert_int_equal(sock_recv_packet(pair[1], &in, got, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_true(json_equal(msg, in));
	assert_true(fcntl(got[0], F_GETFD) & FD_CLOEXEC);
	assert_int_equal(write(got[1], "x", 1), 1);
	assert_int_equal(read(pipe_fds[0], &c, 1), 1);
	json_decref(in);
	n = 4;
	assert_int_equal(sock_recv_packet(pair[1], &in, got, &n, NULL), 0);
	assert_int_equal(n, 0);
	json_decref(in);
	json_decref(msg);
	for (int i = 0; i < 2; i++) {
		close(got[i]);
		close(pipe_fds[i]);
		close(pair[i]);
	}
	assert_int_equal(open_descriptors(), before);
}

/* Nobody who sends what was not asked for fills our descriptor table. */
static void unwanted_packets_leave_nothing_open(void **state)
{
	(void)state;
	int pair[2], fds[SOCK_FDS_MAX], got[1] = {-1};
	json_t *msg = json_object(), *in = NULL;
	struct err e = {0};
	assert_int_equal(sock_pair(SOCK_SEQPACKET, pair), 0);
	int before = open_descriptors();
	for (int i = 0; i < SOCK_FDS_MAX; i++)
		fds[i] = pair[0];
	assert_int_equal(sock_send_packet(pair[0], msg, fds, SOCK_FDS_MAX, NULL), 0);
	size_t n = 1;
	assert_int_equal(sock_recv_packet(pair[1], &in, got, &n, &e), ERR_PROTOCOL);
	assert_int_equal(n, 1);
	assert_int_equal(sock_send_packet(pair[0], msg, fds, 1, NULL), 0);
	assert_int_equal(sock_recv_packet(pair[1], &in, NULL, NULL, &e), ERR_PROTOCOL);
	assert_int_equal(send(pair[0], "not json", 8, 0), 8);
	assert_int_equal(sock_recv_packet(pair[1], &in, NULL, NULL, &e), ERR_INVAL);
	assert_null(in);
	assert_int_equal(open_descriptors(), before);
	assert_int_equal(sock_send_packet(pair[0], msg, fds, SOCK_FDS_MAX + 1, &e), ERR_INVAL);
	json_decref(msg);
	close(pair[0]);
	assert_int_equal(sock_recv_packet(pair[1], &in, NULL, NULL, &e), ERR_EOF);
	close(pair[1]);
}

static void packets_have_a_largest_size(void **state)
{
	(void)state;
	int pair[2];
	char *text = malloc(SOCK_PACKET_MAX + 10);
	struct err e = {0};
	json_t *in = NULL;
	assert_int_equal(sock_pair(SOCK_SEQPACKET, pair), 0);
	memset(text, 'a', SOCK_PACKET_MAX + 9);
	text[SOCK_PACKET_MAX - 2] = '\0';
	json_t *largest = json_string(text);
	assert_int_equal(sock_send_packet(pair[0], largest, NULL, 0, &e), 0);
	assert_int_equal(sock_recv_packet(pair[1], &in, NULL, NULL, &e), 0);
	assert_true(json_equal(largest, in));
	text[SOCK_PACKET_MAX - 2] = 'a';
	text[SOCK_PACKET_MAX - 1] = '\0';
	json_t *over = json_string(text);
	assert_int_equal(sock_send_packet(pair[0], over, NULL, 0, &e), ERR_TOO_LARGE);
	assert_int_equal(sock_set_nonblock(pair[1], 1), 0);
	assert_int_equal(sock_recv_packet(pair[1], &in, NULL, NULL, &e), ERR_AGAIN);
	json_decref(largest);
	json_decref(over);
	json_decref(in);
	free(text);
	close(pair[0]);
	close(pair[1]);
}

static void loopback(bool up)
{
	struct ifreq r = {.ifr_name = "lo", .ifr_flags = (short)(up ? IFF_UP | IFF_RUNNING : 0)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &r), 0);
	close(fd);
}

/* In a network of its own: who reads nothing is there, and who is cut off is not. */
static void in_a_network(void)
{
	static const char block[65536];
	int server, client, peer;
	char name[64];

	loopback(true);
	assert_int_equal(sock_listen_tcp("127.0.0.1:0", &server, NULL), 0);
	assert_int_equal(sock_name(server, 0, name, sizeof(name)), 0);
	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(
	    connect(client,
		    (struct sockaddr *)&(struct sockaddr_in){.sin_family = AF_INET,
							     .sin_port = htons((uint16_t)atoi(strchr(name, ':') + 1)),
							     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
		    sizeof(struct sockaddr_in)),
	    0);
	peer = accept(server, NULL, NULL);
	assert_true(peer >= 0);
	assert_int_equal(sock_silent_ms(peer), 0);
	assert_int_equal(sock_set_nonblock(peer, 1), 0);
	for (int full = 0; full < 20; usleep(20000)) /* its window, and our own buffer */
		full = send(peer, block, sizeof(block), MSG_NOSIGNAL) < 0 ? full + 1 : 0;
	assert_int_equal(sock_silent_ms(peer), 0);
	loopback(false);
	for (struct patience left = patience_of(30 * NS_PER_SEC); sock_silent_ms(peer) < 300; usleep(20000))
		assert_false(patience_over(&left));
}

static void who_vanished_is_told_from_who_reads_nothing(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0) {
		if (unshare(CLONE_NEWNET) &&
		    unshare(CLONE_NEWUSER | CLONE_NEWNET)) /* root, or a kernel that lets users */
			_exit(77);
		in_a_network();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(listens_and_connects_on_a_path),
	    cmocka_unit_test(a_file_in_the_way_is_kept),
	    cmocka_unit_test(long_paths_work_too),
	    cmocka_unit_test(listens_on_tcp_addresses),
	    cmocka_unit_test(packets_carry_descriptors),
	    cmocka_unit_test(unwanted_packets_leave_nothing_open),
	    cmocka_unit_test(packets_have_a_largest_size),
	    cmocka_unit_test(who_vanished_is_told_from_who_reads_nothing),
	};
	return cmocka_run_group_tests_name("sock", tests, make_dir, remove_dir);
}

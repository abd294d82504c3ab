#define LOG_SUBSYS "service"
#include "recorder/serve/service.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/err_json.h"
#include "base/log.h"
#include "base/msg.h"
#include "base/sock.h"
#include "recorder/serve/client.h"
#include "recorder/serve/service_conn.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define STACK_SIZE (1024 * 1024)

static int send_error(struct conn *c, int rc, const struct err *e)
{
	json_t *o = json_pack("{s:{s:s, s:s, s:s}, s:b}", "error", "code", err_name(rc), "message",
			      e->message[0] ? e->message : err_name(rc), "hint", err_hint(rc), "end", 1);

	err_share_send(e, json_object_get(o, "error"));
	return conn_send(c, o);
}

/* Negative: the conversation is over. */
static int service_answer(struct conn *c, const struct msg *m)
{
	struct err e = {0};
	json_t *request = NULL;

	if (m->kind != 'J')
		return ERR_PROTOCOL;
	int rc = json_parse(m->payload, m->len, RECORDER_QUESTION_MAX, &request, &e);
	if (rc == 0)
		rc = service_dispatch(c, request, &e);
	json_decref(request);
	if (rc && conn_gone(c))
		return rc;
	if (rc == ERR_EOF) /* of a file; the client is there */
		rc = err_set(&e, ERR_CORRUPT, "the record ends in the middle of something");
	if (rc)
		rc = send_error(c, rc, &e);
	return rc ? rc : conn_flush(c);
}

static void *conn_main(void *arg)
{
	struct conn *c = arg;
	struct msg m;
	size_t size;

	for (;;) {
		if (msg_recv(c->fd, &c->in, &m, &size, NULL) || service_answer(c, &m))
			break;
		buf_consume(&c->in, size);
	}
	shutdown(c->fd, SHUT_RDWR);
	if (c->is_hub) {
		atomic_store(&c->s->hub_seen_ns, clock_boot_ns());
		atomic_fetch_sub(&c->s->hubs, 1);
	}
	service_conn_origin(c, NULL);
	ledger_client_gone(c->s->ledger, &c->reader);
	atomic_store(&c->done, true);
	return NULL;
}

static void conn_destroy(struct conn *c)
{
	conn_forget_page(c);
	conn_forget_kept(c);
	conn_forget_readings(c);
	index_close(c->index);
	buf_finish_secret(&c->in); /* held tokens */
	buf_finish(&c->out);
	free(c->scratch);
	close(c->fd);
	free(c);
}

/* Joins those whose thread has ended (all: every thread, which service_stop() has told to end). */
static void reap(struct service *s, bool all)
{
	struct conn **at = &s->conns;
	while (*at) {
		struct conn *c = *at;
		if (!all && !atomic_load(&c->done)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		pthread_join(c->thread, NULL);
		conn_destroy(c);
		s->n--;
	}
}

static int conn_begin(struct service *s, int fd)
{
	pthread_attr_t attr;
	struct conn *c = calloc(1, sizeof(*c));
	if (!c)
		return ERR_NOMEM;
	c->s = s;
	c->fd = fd;
	c->number = ++s->conn_last;
	buf_init(&c->in, RECORDER_QUESTION_MAX);
	buf_init(&c->out, OUT_HIGH + MSG_MAX + MSG_HEADER);
	if (sock_peer_cred(fd, NULL, &c->uid, NULL)) {
		free(c);
		return ERR_SYS;
	}
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	int en = pthread_create(&c->thread, &attr, conn_main, c);
	pthread_attr_destroy(&attr);
	if (en) {
		free(c);
		return ERR_SYS;
	}
	c->next = s->conns;
	s->conns = c;
	s->n++;
	return 0;
}

static void accept_one(struct service *s)
{
	int fd = accept4(s->p.listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
			log_warn(NULL, "accept: %s", strerror(errno));
			usleep(100000);
		}
		return;
	}
	pthread_mutex_lock(&s->lock);
	reap(s, false);
	int rc = s->n < SERVICE_MAX ? conn_begin(s, fd) : ERR_LIMIT;
	pthread_mutex_unlock(&s->lock);
	if (rc) {
		log_warn(NULL, "a connection was refused: %s", err_name(rc));
		close(fd);
	}
}

static void *accept_main(void *arg)
{
	struct service *s = arg;
	struct pollfd pfd[2] = {{.fd = s->p.listen_fd, .events = POLLIN}, {.fd = s->stop_fd, .events = POLLIN}};
	while (!atomic_load(&s->stopping)) {
		if (poll(pfd, 2, -1) > 0 && (pfd[0].revents & POLLIN))
			accept_one(s);
	}
	return NULL;
}

void service_tick(struct service *s)
{
	pthread_mutex_lock(&s->lock);
	reap(s, false);
	pthread_mutex_unlock(&s->lock);
	ledger_tick(s->ledger);
}

int service_create(const struct service_params *p, struct service **out, struct err *e)
{
	struct service *s = calloc(1, sizeof(*s));
	if (!s) {
		close(p->listen_fd);
		return err_set(e, ERR_NOMEM, "out of memory");
	}
	s->p = *p;
	pthread_mutex_init(&s->lock, NULL);
	s->stop_fd = eventfd(0, EFD_CLOEXEC);
	s->dir = strdup(p->dir);
	if (s->stop_fd < 0 || !s->dir ||
	    ledger_create(p->drain, p->read_window_ns ? p->read_window_ns : LEDGER_WINDOW_NS, &s->ledger) ||
	    asprintf(&s->index_path, "%s/audit.db", p->dir) < 0) {
		s->index_path = NULL;
		service_destroy(s);
		return err_set(e, ERR_NOMEM, "out of memory");
	}
	(void)sock_set_nonblock(p->listen_fd, 1);
	*out = s;
	return 0;
}

int service_start(struct service *s, struct err *e)
{
	int en = pthread_create(&s->accept_thread, NULL, accept_main, s);
	s->runs = en == 0;
	return en ? err_sys(e, en, "cannot start a thread") : 0;
}

void service_stop(struct service *s)
{
	uint64_t one = 1;
	atomic_store(&s->stopping, true);
	if (s->runs) {
		(void)!write(s->stop_fd, &one, sizeof(one));
		pthread_join(s->accept_thread, NULL);
		s->runs = false;
	}
	pthread_mutex_lock(&s->lock);
	for (struct conn *c = s->conns; c; c = c->next)
		shutdown(c->fd, SHUT_RDWR);
	reap(s, true);
	pthread_mutex_unlock(&s->lock);
}

void service_destroy(struct service *s)
{
	if (!s)
		return;
	service_stop(s);
	if (s->stop_fd >= 0)
		close(s->stop_fd);
	close(s->p.listen_fd);
	free(s->dir);
	free(s->index_path);
	ledger_destroy(s->ledger);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

uint64_t service_hub_seen_ns(struct service *s)
{
	return atomic_load(&s->hubs) ? clock_boot_ns() : atomic_load(&s->hub_seen_ns);
}

#include "muxd/screen/worker.h"

#include "base/buf.h"
#include "base/bytes.h"
#include "base/confine.h"
#include "base/err.h"
#include "muxd/screen/commands.h"
#include "muxd/screen/draw.h"
#include "muxd/screen/frame.h"
#include "muxd/screen/picture.h"
#include "muxd/screen/term.h"
#include "muxd/screen/version.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define MEMORY_MAX (256UL * 1024 * 1024)
#define READ_STEP  (128 * 1024)

struct worker {
	int fd;
	struct term *term;
	uint64_t offset;
	struct commands *commands; /* NULL: nobody told of keys */
	uint32_t found, lost;      /* commands in `out`; others, since the last question */
	struct buf in, out, drawn;
};

static int worker_flush(struct worker *w)
{
	while (buf_len(&w->out)) {
		ssize_t n = write(w->fd, buf_ptr(&w->out), buf_len(&w->out));

		if (n < 0 && errno != EINTR)
			return ERR_SYS;
		if (n > 0)
			buf_consume(&w->out, (size_t)n);
	}
	return 0;
}

static int do_open(struct worker *w, const struct screen_frame *f)
{
	if (f->len != 12)
		return ERR_PROTOCOL;
	term_destroy(w->term);
	commands_destroy(w->commands);
	w->term = NULL;
	w->commands = NULL;
	w->offset = get_u64(f->payload);
	return term_create(get_u16(f->payload + 8), get_u16(f->payload + 10), &w->term);
}

static void worker_on_command(void *arg, const struct command *c)
{
	struct worker *w = arg;

	if (w->found < SCREEN_FOUND_MAX && command_put(&w->out, c) == 0)
		w->found++;
	else
		w->lost++;
}

static int do_keys(struct worker *w, const struct screen_frame *f)
{
	const uint8_t *p = f->payload;
	int rc = 0;

	if (f->len < SCREEN_KEYS_HEAD)
		return ERR_PROTOCOL;
	struct command_keys k = {.offset = get_u64(p),
				 .ns = get_u64(p + 8),
				 .hand = get_u16(p + 16),
				 .hidden = p[18],
				 .p = p + SCREEN_KEYS_HEAD,
				 .n = f->len - SCREEN_KEYS_HEAD};
	if (!w->commands)
		rc = commands_create(worker_on_command, w, &w->commands);
	if (rc == 0)
		commands_keys(w->commands, w->term, &k);
	return rc;
}

static int do_ask(struct worker *w, const struct screen_frame *f)
{
	uint8_t lost[4];
	int rc;

	if (f->len != 1)
		return ERR_PROTOCOL;
	if (f->payload[0] && w->commands)
		commands_settle(w->commands);
	put_u32(lost, w->lost);
	w->found = w->lost = 0;
	rc = screen_frame_put(&w->out, SCREEN_ASKED, lost, sizeof(lost), NULL, 0);
	return rc ? rc : worker_flush(w);
}

static int do_feed(struct worker *w, const struct screen_frame *f)
{
	if (f->len < 8 || get_u64(f->payload) != w->offset)
		return ERR_PROTOCOL;
	if (w->commands)
		commands_output(w->commands, w->term, w->offset, f->payload + 8, f->len - 8);
	else
		term_feed(w->term, f->payload + 8, f->len - 8);
	w->offset += f->len - 8;
	return 0;
}

static int do_cut(struct worker *w, const struct screen_frame *f)
{
	if (f->len != 8 || get_u64(f->payload) < w->offset)
		return ERR_PROTOCOL;
	term_cut(w->term);
	if (w->commands)
		commands_cut(w->commands);
	w->offset = get_u64(f->payload);
	return 0;
}

static int do_resize(struct worker *w, const struct screen_frame *f)
{
	return f->len == 4 ? term_resize(w->term, get_u16(f->payload), get_u16(f->payload + 2)) : ERR_PROTOCOL;
}

static int do_shoot(struct worker *w, const struct screen_frame *f)
{
	uint8_t head[SCREEN_SHOT_HEAD];
	struct term_view v;
	int rc;

	if (f->len != 4)
		return ERR_PROTOCOL;
	buf_clear(&w->drawn);
	rc = draw_term(w->term, &w->drawn);
	if (rc == ERR_TOO_LARGE)
		buf_clear(&w->drawn);
	else if (rc)
		return rc;
	term_view(w->term, &v);
	memcpy(head, f->payload, 4);
	put_u64(head + 4, w->offset);
	put_u16(head + 12, (uint16_t)v.cols);
	put_u16(head + 14, (uint16_t)v.rows);
	rc = screen_frame_put(&w->out, SCREEN_SHOT, head, sizeof(head), buf_ptr(&w->drawn), buf_len(&w->drawn));
	return rc ? rc : worker_flush(w);
}

static int do_look(struct worker *w, const struct screen_frame *f)
{
	uint8_t head[SCREEN_GRID_HEAD];
	int rc;

	if (f->len != 4)
		return ERR_PROTOCOL;
	buf_clear(&w->drawn);
	rc = picture_put(w->term, &w->drawn);
	if (rc == ERR_TOO_LARGE)
		buf_clear(&w->drawn);
	else if (rc)
		return rc;
	memcpy(head, f->payload, 4);
	put_u64(head + 4, w->offset);
	rc = screen_frame_put(&w->out, SCREEN_GRID, head, sizeof(head), buf_ptr(&w->drawn), buf_len(&w->drawn));
	return rc ? rc : worker_flush(w);
}

static int do_version(struct worker *w, const struct screen_frame *f)
{
	char version[VERSION_MAX];
	int rc = f->len ? ERR_PROTOCOL : version_of_drawing(version);

	if (rc == 0)
		rc = screen_frame_put(&w->out, SCREEN_DRAWS, version, strlen(version), NULL, 0);
	return rc ? rc : worker_flush(w);
}

static int handle(struct worker *w, const struct screen_frame *f)
{
	if (f->type != SCREEN_OPEN && !w->term)
		return ERR_PROTOCOL;
	switch (f->type) {
	case SCREEN_OPEN:
		return do_open(w, f);
	case SCREEN_FEED:
		return do_feed(w, f);
	case SCREEN_CUT:
		return do_cut(w, f);
	case SCREEN_DRAW:
		term_feed(w->term, f->payload, f->len);
		return 0;
	case SCREEN_RESIZE:
		return do_resize(w, f);
	case SCREEN_SHOOT:
		return do_shoot(w, f);
	case SCREEN_LOOK:
		return do_look(w, f);
	case SCREEN_WHICH:
		return do_version(w, f);
	case SCREEN_KEYS:
		return do_keys(w, f);
	case SCREEN_ASK:
		return do_ask(w, f);
	default:
		return ERR_PROTOCOL;
	}
}

/* 1: more may come. */
static int worker_receive(struct worker *w)
{
	size_t room = buf_room(&w->in) < READ_STEP ? buf_room(&w->in) : READ_STEP;
	uint8_t *to;
	ssize_t n;
	int rc = buf_reserve(&w->in, room, &to);

	if (rc)
		return rc;
	n = read(w->fd, to, room);
	if (n < 0)
		return errno == EINTR ? 1 : ERR_SYS;
	buf_commit(&w->in, (size_t)n);
	return n > 0;
}

static int consume(struct worker *w)
{
	struct screen_frame f;
	size_t size;
	int rc;

	while ((rc = screen_frame_next(&w->in, &f, &size)) == 1) {
		if ((rc = handle(w, &f)) != 0)
			return rc;
		buf_consume(&w->in, size);
	}
	return rc;
}

int worker_run(int fd)
{
	struct worker w = {.fd = fd};
	int rc;

	buf_init(&w.in, SCREEN_HEADER + SCREEN_FRAME_MAX);
	buf_init(&w.out, SCREEN_HEADER + SCREEN_FRAME_MAX);
	buf_init(&w.drawn, SCREEN_SHOT_MAX);
	while ((rc = worker_receive(&w)) == 1)
		if ((rc = consume(&w)) != 0)
			break;
	commands_destroy(w.commands);
	term_destroy(w.term);
	buf_finish(&w.in);
	buf_finish(&w.out);
	buf_finish(&w.drawn);
	return rc;
}

#ifdef __SANITIZE_ADDRESS__ /* its shadow is larger than any limit, and it calls the kernel as it likes */
static int screen_worker_confine(struct err *e)
{
	return confine_local(e);
}
#else
static int limit(int what, rlim_t most)
{
	const struct rlimit r = {most, most};

	return setrlimit(what, &r);
}

static int screen_worker_confine(struct err *e)
{
	if (limit(RLIMIT_AS, MEMORY_MAX) || limit(RLIMIT_CORE, 0) || limit(RLIMIT_FSIZE, 0) ||
	    limit(RLIMIT_NOFILE, 0) || limit(RLIMIT_NPROC, 0))
		return err_sys(e, errno, "limit itself");
	return confine_pure(e);
}
#endif

int worker_confine(struct err *e)
{
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return err_sys(e, errno, "give up its privileges");
	return screen_worker_confine(e);
}

/*
 * fake_files.c - the FAKE hub's files and terminals. Files: nothing is stored. Included by fake_broker.c.
 *
 * get of "N": N bytes of 'x', 32 KiB each few milliseconds. "cut/N": N are announced, half of them come.
 * "none": there is no such file. put: takes 10,000 bytes each few milliseconds and says how many there were;
 * to "full": after 50,000 there is no space left.
 *
 * And its terminals: an echo of what is typed. "!" ends it with code 3.
 */
#define FAKE_GIVE 32768
#define FAKE_TAKE 10000
#define FAKE_FULL 50000

struct attachment {
	struct session session; /* what the door asks about */
	struct hub *hub;
	uv_timer_t timer;
	const struct attachment_ops *ops;
	void *arg;
	enum file_op op;
	char path[64];
	uint64_t size, ready, moved, taken;
	bool cut, eof, closing, over;
	bool terminal;
	broker_open_done *opened; /* who asked hears of it with the first tick, as from the hub; then NULL */
	void *opened_arg;
	struct buf echo;
	unsigned cols, rows;
	struct session_result result;
};

static unsigned fake_transfers; /* attached now */

static void fake_end(struct attachment *a, int failed, const char *message)
{
	a->over = true;
	a->result.failed = failed;
	snprintf(a->result.message, sizeof(a->result.message), "%s", message);
	a->ops->ended(a->arg, &a->result);
}

static void fake_get_tick(struct attachment *a)
{
	uint64_t most = a->cut ? a->size / 2 : a->size;

	if (strcmp(a->path, "none") == 0) {
		fake_end(a, ERR_NO_FILE, "get of none in demo: No such file or directory");
	} else if (a->ready < most) {
		a->ready += most - a->ready < FAKE_GIVE ? most - a->ready : FAKE_GIVE;
		a->ops->readable(a->arg);
	} else if (a->moved == a->ready) {
		fake_end(a, a->cut ? ERR_TRANSFER : 0, "half of it came");
	}
}

static void fake_put_tick(struct attachment *a)
{
	if (strcmp(a->path, "full") == 0 && a->moved >= FAKE_FULL) {
		fake_end(a, ERR_NO_SPACE, "put of full in demo: No space left on device");
	} else if (a->eof) {
		a->size = a->moved;
		fake_end(a, 0, "");
	} else {
		a->taken = 0;
		a->ops->writable(a->arg);
	}
}

static void fake_terminal_tick(struct attachment *a)
{
	if (a->eof && buf_len(&a->echo) == 0) {
		a->result.code = 3;
		fake_end(a, 0, "");
	} else if (buf_len(&a->echo)) {
		a->ops->readable(a->arg);
	} else {
		a->ops->writable(a->arg);
	}
}

static void fake_file_tick(uv_timer_t *t)
{
	struct attachment *a = t->data;

	if (a->over || a->closing)
		return;
	if (a->opened) {
		broker_open_done *opened = a->opened;

		a->opened = NULL;
		opened(a->opened_arg, 0, NULL, &a->session, a, NULL);
		return;
	}
	if (a->terminal) {
		fake_terminal_tick(a);
		return;
	}
	if (a->op == FILE_GET)
		fake_get_tick(a);
	else
		fake_put_tick(a);
}

static void fake_file_closed(uv_handle_t *t)
{
	buf_finish(&((struct attachment *)t->data)->echo);
	free(t->data);
}

void attachment_detach(struct attachment *a)
{
	if (!a || a->closing)
		return;
	a->closing = true;
	fake_transfers--;
	uv_close((uv_handle_t *)&a->timer, fake_file_closed);
}

size_t attachment_peek(struct attachment *a, int stream, const uint8_t **out_p)
{
	static uint8_t x[FAKE_GIVE];

	if (a->terminal && stream == 1) {
		*out_p = buf_ptr(&a->echo);
		return buf_len(&a->echo);
	}
	if (stream != 1 || a->op != FILE_GET)
		return 0;
	memset(x, 'x', sizeof(x));
	*out_p = x;
	return a->ready - a->moved < sizeof(x) ? (size_t)(a->ready - a->moved) : sizeof(x);
}

void attachment_consume(struct attachment *a, int stream, size_t n)
{
	(void)stream;
	a->moved += n;
	if (a->terminal)
		buf_consume(&a->echo, n);
}

ssize_t attachment_input(struct attachment *a, const void *p, size_t n)
{
	size_t room = FAKE_TAKE - a->taken;

	if (a->terminal) {
		n = n < buf_room(&a->echo) ? n : buf_room(&a->echo);
		a->eof = a->eof || memchr(p, '!', n);
		return buf_append(&a->echo, p, n) ? 0 : (ssize_t)n;
	}
	n = n < room ? n : room;
	a->moved += n;
	a->taken += n;
	return (ssize_t)n;
}

int attachment_input_eof(struct attachment *a)
{
	a->eof = true;
	return 0;
}

struct session *attachment_session(const struct attachment *a)
{
	return (struct session *)(uintptr_t)&a->session;
}

const char *session_agent(const struct session *s)
{
	(void)s;
	return "demo";
}

json_t *session_file_json(const struct session *s)
{
	const struct attachment *a = (const struct attachment *)s;

	return json_pack("{s:s,s:s,s:s,s:I,s:s}", "op", a->op == FILE_PUT ? "put" : "get", "path", a->path, "mode",
			 "0644", "size", (json_int_t)a->size, "sha256", "00");
}

uint64_t attachment_offset(const struct attachment *a, int stream)
{
	return stream == 1 ? a->moved : 0;
}

int attachment_seek(struct attachment *a, int stream, uint64_t offset, uint64_t *out_missing)
{
	(void)stream;
	*out_missing = 0;
	return offset > a->moved ? ERR_INVAL : 0;
}

int attachment_resize(struct attachment *a, unsigned cols, unsigned rows, unsigned xpixel, unsigned ypixel)
{
	(void)xpixel, (void)ypixel;
	a->cols = cols;
	a->rows = rows;
	return 0;
}

int attachment_signal(struct attachment *a, int signum)
{
	(void)a, (void)signum;
	return 0;
}

enum session_kind session_kind(const struct session *s)
{
	(void)s;
	return SESSION_TERMINAL;
}

const char *session_principal(const struct session *s)
{
	(void)s;
	return "p";
}

void session_size(const struct session *s, unsigned *out_cols, unsigned *out_rows)
{
	(void)s;
	*out_cols = 80;
	*out_rows = 24;
}

void attachment_want_screen(struct attachment *a)
{
	(void)a;
}

const struct session_result *session_result(const struct session *s)
{
	(void)s;
	return NULL;
}

int broker_attach(struct hub *h, const struct request *rq, const char *agent, const char *name,
		  enum attachment_role role, const struct attachment_ops *ops, void *ops_arg, struct attachment **out,
		  struct err *e)
{
	(void)h, (void)rq, (void)agent, (void)name, (void)role, (void)ops, (void)ops_arg, (void)out;
	return err_set(e, ERR_NOT_FOUND, "the fake has no session to join");
}

void broker_past(struct hub *h, const struct request *rq, const struct id *session, int role, broker_json_done *done,
		 void *arg)
{
	struct err e = {0};

	(void)h, (void)rq, (void)session, (void)role;
	done(arg, err_set(&e, ERR_NOT_FOUND, "the fake has no session of the past"), &e, NULL);
}

void broker_recordings(struct hub *h, const struct request *rq, const struct recording_filter *f,
		       broker_json_done *done, void *arg)
{
	json_t *o = json_pack("{s:[]}", "recordings");

	(void)h, (void)rq, (void)f;
	done(arg, 0, NULL, o);
	json_decref(o);
}

void broker_recording(struct hub *h, const struct request *rq, const struct id *session, broker_json_done *done,
		      void *arg)
{
	json_t *o = json_pack("{s:s}", "state", "open");

	(void)h, (void)rq, (void)session;
	done(arg, 0, NULL, o);
	json_decref(o);
}

static void nothing(broker_json_done *done, void *arg)
{
	json_t *o = json_object();

	done(arg, 0, NULL, o);
	json_decref(o);
}

void broker_audit(struct hub *h, const struct request *rq, const struct audit_filter *f, broker_json_done *done,
		  void *arg)
{
	(void)h, (void)rq, (void)f;
	nothing(done, arg);
}

void broker_head(struct hub *h, const struct request *rq, broker_json_done *done, void *arg)
{
	(void)h, (void)rq;
	nothing(done, arg);
}

void broker_witness_keep(struct hub *h, json_t *question, broker_json_done *done, void *arg)
{
	(void)h, (void)question;
	nothing(done, arg);
}

void broker_witness_heads(struct hub *h, const char *log_id, size_t limit, broker_json_done *done, void *arg)
{
	(void)h, (void)log_id, (void)limit;
	nothing(done, arg);
}

void broker_recording_screen(struct hub *h, const struct request *rq, const struct id *session, uint64_t at_ns,
			     broker_json_done *done, void *arg)
{
	(void)at_ns;
	broker_recording(h, rq, session, done, arg);
}

void broker_recording_page(struct hub *h, const struct request *rq, const struct id *session, uint64_t from_ns,
			   uint64_t after_seq, uint64_t limit, broker_page_done *done, void *arg)
{
	json_t *end = json_pack("{s:b}", "ended", 1);

	(void)h, (void)rq, (void)session, (void)from_ns, (void)after_seq, (void)limit;
	done(arg, 0, NULL, (const uint8_t *)"", 0, end);
	json_decref(end);
}

void broker_output_bytes(struct hub *h, const struct request *rq, const struct id *session, int stream, uint64_t offset,
			 uint64_t limit, broker_bytes_done *done, void *arg)
{
	(void)h, (void)rq, (void)session, (void)stream, (void)limit;
	done(arg, ERR_NOT_FOUND, NULL, offset, NULL, 0);
}

static void fake_file(struct hub *h, const struct exec_spec *spec, const struct attachment_ops *ops, void *ops_arg,
		      broker_open_done *done, void *arg)
{
	struct attachment *a = calloc(1, sizeof(*a));

	a->hub = h;
	a->ops = ops;
	a->arg = ops_arg;
	a->terminal = !spec->file;
	buf_init(&a->echo, 64 * 1024);
	if (spec->file) {
		a->op = spec->file->op;
		a->cut = strncmp(spec->file->path, "cut/", 4) == 0;
		snprintf(a->path, sizeof(a->path), "%s", spec->file->path);
		a->size = strtoull(a->cut ? a->path + 4 : a->path, NULL, 10);
	}
	id_new(&a->session.id);
	uv_timer_init(h->loop, &a->timer);
	a->timer.data = a;
	a->opened = done;
	a->opened_arg = arg;
	uv_timer_start(&a->timer, fake_file_tick, 2, 2);
	fake_transfers++;
}

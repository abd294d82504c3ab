/* What the hub asks of a sandbox: one function a frame. */
#include "base/err.h"
#include "muxd/link/link_state.h"

#include <string.h>

static struct link_channel *find_live(struct link *l, uint32_t channel)
{
	struct link_channel *c = l->state == LINK_UP ? link_channel_find(l, channel) : NULL;

	return c && c->live ? c : NULL;
}

static uint32_t link_ask_count(const char *const *v)
{
	uint32_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

int link_open(struct link *l, const struct link_open *o, struct err *e)
{
	struct frame f = {.type = FRAME_OPEN, .flags = FRAME_CRITICAL, .channel = o->channel};
	struct frame_open *to = &f.u.open;
	struct link_channel *c;
	int rc;

	if (l->state != LINK_UP)
		return err_set(e, ERR_BAD_STATE, "the link to the sandbox is not up");
	if (!o->channel || link_channel_find(l, o->channel))
		return err_set(e, ERR_CONFLICT, "channel %u is in use", o->channel);
	memcpy(to->session, o->session.b, sizeof(to->session));
	to->flags = (uint16_t)((o->pty ? OPEN_PTY : 0) | (o->stdin_open ? OPEN_STDIN : 0) |
			       (o->login_shell ? OPEN_LOGIN : 0) | (o->self ? OPEN_SELF : 0) |
			       (o->reserve && l->features & (FEATURE_CLEAR | FEATURE_QUEUE) ? OPEN_RESERVE : 0));
	to->cols = o->cols;
	to->rows = o->rows;
	to->timeout_ms = o->timeout_ms;
	to->grace_ms = o->grace_ms;
	to->window = o->window;
	to->argc = link_ask_count(o->argv);
	to->envc = link_ask_count(o->env);
	to->cwd = o->cwd ? o->cwd : "";
	to->argv = o->argv;
	to->env = o->env;
	rc = link_put(l, &f);
	if (rc)
		return err_set(e, rc, "the call does not fit a frame");
	c = link_channel_add(l, o->channel);
	if (!c)
		return err_set(e, ERR_NOMEM, "no memory for a channel");
	c->live = true;
	c->pty = o->pty;
	c->window[1] = c->window[2] = o->window;
	return 0;
}

int link_resume(struct link *l, uint32_t channel, const uint64_t have[3], uint64_t window)
{
	struct link_channel *c = l->state == LINK_UP ? link_channel_find(l, channel) : NULL;
	struct frame f = {.type = FRAME_RESUME, .flags = FRAME_CRITICAL, .channel = channel};
	int rc;

	if (!c || c->live)
		return ERR_BAD_STATE;
	for (int s = 1; s < 3; s++)
		if (have[s] < c->kept_from[s] || have[s] > c->produced[s])
			return ERR_INVAL;
	memcpy(f.u.resume.have, have, sizeof(f.u.resume.have));
	f.u.resume.window = window;
	rc = link_put(l, &f);
	if (rc)
		return rc;
	c->live = true;
	c->echo_unsaid = true;
	c->exited = false; /* its EXIT comes again, after its output */
	for (int s = 1; s < 3; s++) {
		c->next[s] = have[s];
		c->window[s] = window > UINT64_MAX - have[s] ? UINT64_MAX : have[s] + window;
	}
	if (have[0] > c->consumed)
		c->consumed = have[0]; /* what lies between was not delivered, and will not be */
	c->sent = c->consumed;
	return 0;
}

size_t link_input_room(const struct link *l, uint32_t channel, uint64_t offset)
{
	const struct link_channel *c = l->state == LINK_UP ? link_channel_find(l, channel) : NULL;
	size_t room;

	if (!c || !c->live || c->exited || offset < c->consumed || offset > c->consumed + LINK_INPUT_WINDOW)
		return 0;
	room = (size_t)(c->consumed + LINK_INPUT_WINDOW - offset);
	return l->out.len + room + FRAME_MAX > l->out.max ? 0 : room;
}

ssize_t link_input(struct link *l, uint32_t channel, uint64_t offset, const void *p, size_t n)
{
	struct frame f = {.type = FRAME_DATA, .channel = channel};
	struct link_channel *c = find_live(l, channel);
	size_t room = link_input_room(l, channel, offset), done = 0;

	if (!c)
		return ERR_BAD_STATE;
	if (offset > c->sent)
		return ERR_INVAL; /* a gap */
	n = n < room ? n : room;
	while (done < n) {
		f.offset = offset + done;
		f.p = (const uint8_t *)p + done;
		f.n = n - done < FRAME_DATA_MAX ? n - done : FRAME_DATA_MAX;
		if (link_put(l, &f))
			break;
		done += f.n;
	}
	if (offset + done > c->sent)
		c->sent = offset + done;
	return (ssize_t)done;
}

static int put_offset(struct link *l, uint8_t type, uint32_t channel, int stream, uint64_t offset)
{
	struct frame f = {.type = type, .channel = channel, .stream = (uint8_t)stream, .offset = offset};

	return find_live(l, channel) ? link_put(l, &f) : ERR_BAD_STATE;
}

int link_input_eof(struct link *l, uint32_t channel, uint64_t offset)
{
	const struct link_channel *c = find_live(l, channel);

	if (c && offset > c->sent)
		return ERR_INVAL;
	return put_offset(l, FRAME_EOF, channel, 0, offset);
}

int link_window(struct link *l, uint32_t channel, int stream, uint64_t until)
{
	struct link_channel *c = find_live(l, channel);
	int rc;

	if (stream < 1 || stream > 2)
		return ERR_INVAL;
	if (c && until <= c->window[stream])
		return 0;
	rc = put_offset(l, FRAME_WINDOW, channel, stream, until);
	if (!rc && until > c->window[stream])
		c->window[stream] = until;
	return rc;
}

int link_ack(struct link *l, uint32_t channel, int stream, uint64_t offset)
{
	const struct link_channel *c = find_live(l, channel);

	if (stream < 1 || stream > 2 || (c && offset > c->next[stream]))
		return ERR_INVAL;
	return put_offset(l, FRAME_ACK, channel, stream, offset);
}

int link_resize(struct link *l, uint32_t channel, uint16_t cols, uint16_t rows, uint16_t xpixel, uint16_t ypixel)
{
	struct frame f = {.type = FRAME_RESIZE, .channel = channel};

	if (!cols || !rows)
		return ERR_INVAL;
	f.u.resize.cols = cols;
	f.u.resize.rows = rows;
	f.u.resize.xpixel = xpixel;
	f.u.resize.ypixel = ypixel;
	return find_live(l, channel) ? link_put(l, &f) : ERR_BAD_STATE;
}

static int link_ask_put_number(struct link *l, uint8_t type, uint32_t channel, int number)
{
	struct frame f = {.type = type, .channel = channel, .u.number = (uint8_t)number};

	return l->state == LINK_UP && link_channel_find(l, channel) ? link_put(l, &f) : ERR_BAD_STATE;
}

int link_signal(struct link *l, uint32_t channel, int signum)
{
	if (signum < 1 || signum > 64)
		return ERR_INVAL;
	return link_ask_put_number(l, FRAME_SIGNAL, channel, signum);
}

int link_kill(struct link *l, uint32_t channel, enum exit_cause cause)
{
	const struct link_channel *c = link_channel_find(l, channel);

	return c && c->exited ? ERR_ENDED : link_ask_put_number(l, FRAME_KILL, channel, (int)cause);
}

int link_clear(struct link *l)
{
	struct frame f = {.type = FRAME_CLEAR, .flags = FRAME_CRITICAL, .offset = l->clear_token + 1};
	int rc;

	if (!link_has_clear(l))
		return l->state == LINK_UP ? ERR_UNSUPPORTED : ERR_BAD_STATE;
	if (l->clearing)
		return ERR_CONFLICT;
	rc = link_put(l, &f);
	if (rc)
		return rc;
	l->clearing = true;
	l->clear_token++;
	return 0;
}

int link_forget(struct link *l, uint32_t channel)
{
	struct link_channel *c = l->state == LINK_UP ? link_channel_find(l, channel) : NULL;
	struct frame f = {.type = FRAME_FORGET, .channel = channel};
	int rc;

	if (!c)
		return ERR_BAD_STATE;
	rc = link_put(l, &f);
	if (rc)
		return rc;
	if (c->live && !c->exited) {
		c->live = false;
		c->forgotten = true;
	} else {
		link_channel_remove(l, c);
	}
	return 0;
}

int link_secret(struct link *l, uint32_t channel, int fd_number, const void *p, size_t n)
{
	struct frame f = {.type = FRAME_SECRET, .channel = channel, .p = p, .n = n};

	if (l->state != LINK_UP)
		return ERR_BAD_STATE;
	if (n > FRAME_SECRET_MAX)
		return ERR_TOO_LARGE;
	if (!channel || fd_number < 3 || fd_number > 255 || link_channel_find(l, channel))
		return ERR_INVAL;
	f.u.fd = (uint16_t)fd_number;
	l->wipe_out = true;
	return link_put(l, &f);
}

static const char *const cause_names[] = {"exit", "timeout", "killed", "oom", "lost", "unknown", "not_started"};

const char *exit_cause_name(enum exit_cause c)
{
	return c <= EXIT_NOT_STARTED ? cause_names[c] : "unknown";
}

int exit_cause_parse(const char *s, enum exit_cause *out)
{
	for (int i = EXIT_EXITED; i <= EXIT_NOT_STARTED; i++)
		if (strcmp(s, cause_names[i]) == 0) {
			*out = (enum exit_cause)i;
			return 0;
		}
	return ERR_INVAL;
}

#include "muxd/ctl/player.h"

#include "muxd/ctl/keys.h"

#define SECOND UINT64_C(1000000000)

static const double speeds[] = {0.125, 0.25, 0.5, 1, 1.5, 2, 3, 4, 8, 16, 32, 64};
#define SPEEDS (sizeof(speeds) / sizeof(speeds[0]))

static void player_set_state(struct player *p, enum player_state s)
{
	p->state = s;
}

/* Bring credit up to now, so that the rate may change. */
static void player_settle(struct player *p, uint64_t now)
{
	if (p->state == PLAYER_PLAYING && now > p->since)
		p->credit += (uint64_t)((double)(now - p->since) * p->speed);
	p->since = now;
}

void player_init(struct player *p, uint64_t first, uint64_t last, double speed, uint64_t idle_limit, uint64_t now)
{
	*p = (struct player){.state = PLAYER_PLAYING,
			     .first = first,
			     .last = last < first ? first : last,
			     .pos = first,
			     .since = now,
			     .speed = speed < PLAYER_SPEED_MIN   ? PLAYER_SPEED_MIN
				      : speed > PLAYER_SPEED_MAX ? PLAYER_SPEED_MAX
								 : speed,
			     .idle_limit = idle_limit ? idle_limit : PLAYER_IDLE_DEFAULT,
			     .skip_idle = idle_limit != 0,
			     .status = true};
}

static uint64_t gap_to(const struct player *p, uint64_t event)
{
	uint64_t gap = event > p->pos ? event - p->pos : 0;

	return p->skip_idle && gap > p->idle_limit ? p->idle_limit : gap;
}

static uint64_t credit_now(const struct player *p, uint64_t now)
{
	uint64_t more = p->state == PLAYER_PLAYING && now > p->since ? now - p->since : 0;

	return p->credit + (uint64_t)((double)more * p->speed);
}

uint64_t player_wait(const struct player *p, uint64_t event, uint64_t now)
{
	uint64_t gap = gap_to(p, event), credit = credit_now(p, now);

	if (p->state != PLAYER_PLAYING)
		return UINT64_MAX;
	return credit >= gap ? 0 : (uint64_t)((double)(gap - credit) / p->speed) + 1;
}

void player_shown(struct player *p, uint64_t event, uint64_t now)
{
	uint64_t gap = gap_to(p, event);

	player_settle(p, now);
	/* What was waited too long for one event is taken off the next, so that nothing drifts; not if it is much. */
	p->credit = p->credit > gap && p->credit - gap < SECOND ? p->credit - gap : 0;
	if (event > p->pos)
		p->pos = event;
}

void player_sought(struct player *p, uint64_t to, uint64_t now)
{
	p->pos = to;
	p->credit = 0;
	p->since = now;
	if (p->state == PLAYER_DONE)
		player_set_state(p, PLAYER_PLAYING);
}

void player_done(struct player *p)
{
	if (p->state != PLAYER_QUIT)
		player_set_state(p, PLAYER_DONE);
}

uint64_t player_position(const struct player *p, uint64_t next, uint64_t now)
{
	uint64_t credit = credit_now(p, now), gap = next > p->pos ? next - p->pos : 0;

	if (p->state == PLAYER_DONE)
		return p->last;
	return p->pos + (credit < gap ? credit : gap);
}

static enum player_order change_speed(struct player *p, bool faster, uint64_t now)
{
	double wanted = p->speed;

	for (size_t i = 0; i < SPEEDS; i++) {
		double s = speeds[faster ? i : SPEEDS - 1 - i];
		if (faster ? s > p->speed : s < p->speed) {
			wanted = s;
			break;
		}
	}
	player_settle(p, now);
	p->speed = wanted;
	return ORDER_REDRAW;
}

static enum player_order toggle_pause(struct player *p, uint64_t now)
{
	if (p->state == PLAYER_DONE)
		return ORDER_NONE;
	player_settle(p, now);
	player_set_state(p, p->state == PLAYER_PAUSED ? PLAYER_PLAYING : PLAYER_PAUSED);
	return ORDER_REDRAW;
}

static enum player_order seek(struct player *p, uint64_t to)
{
	p->target = to < p->first ? p->first : to > p->last ? p->last : to;
	return ORDER_SEEK;
}

static enum player_order seek_by(struct player *p, int64_t delta, uint64_t now)
{
	uint64_t from = p->state == PLAYER_DONE ? p->last : p->pos + credit_now(p, now);

	if (from > p->last)
		from = p->last;
	if (delta < 0)
		return seek(p, from - p->first > (uint64_t)-delta ? from - (uint64_t)-delta : p->first);
	return seek(p, p->last - from > (uint64_t)delta ? from + (uint64_t)delta : p->last);
}

static enum player_order player_step(struct player *p, uint64_t now)
{
	if (p->state == PLAYER_DONE)
		return ORDER_NONE;
	player_settle(p, now);
	player_set_state(p, PLAYER_PAUSED);
	return ORDER_STEP;
}

enum player_order player_key(struct player *p, int key, uint64_t now)
{
	if (key >= KEY_PERCENT && key <= KEY_PERCENT + 9)
		return seek(p, p->first + (p->last - p->first) / 10 * (uint64_t)(key - KEY_PERCENT));
	switch (key) {
	case KEY_QUIT:
		player_set_state(p, PLAYER_QUIT);
		return ORDER_QUIT;
	case KEY_PAUSE:
		return toggle_pause(p, now);
	case KEY_FASTER:
	case KEY_SLOWER:
		return change_speed(p, key == KEY_FASTER, now);
	case KEY_STEP:
		return player_step(p, now);
	case KEY_IDLE:
		p->skip_idle = !p->skip_idle;
		return ORDER_REDRAW;
	case KEY_STATUS:
		p->status = !p->status;
		return ORDER_REDRAW;
	case KEY_LEFT:
		return seek_by(p, -5 * (int64_t)SECOND, now);
	case KEY_RIGHT:
		return seek_by(p, 5 * (int64_t)SECOND, now);
	case KEY_DOWN:
		return seek_by(p, -60 * (int64_t)SECOND, now);
	case KEY_UP:
		return seek_by(p, 60 * (int64_t)SECOND, now);
	case KEY_START:
		return seek(p, p->first);
	case KEY_END:
		return seek(p, p->last);
	case KEY_HELP:
		return ORDER_HELP;
	case KEY_STOP:
		return ORDER_STOP;
	default:
		return ORDER_NONE;
	}
}

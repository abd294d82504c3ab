#include "muxd/ctl/replay_view.h"

#include "base/clock.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define BAR_MAX 30

/* "1:02:03" */
static void replay_view_time(uint64_t ns, char *out, size_t size)
{
	uint64_t s = ns / NS_PER_SEC;

	if (s >= 3600)
		snprintf(out, size, "%llu:%02u:%02u", (unsigned long long)(s / 3600), (unsigned)(s / 60 % 60),
			 (unsigned)(s % 60));
	else
		snprintf(out, size, "%02u:%02u", (unsigned)(s / 60), (unsigned)(s % 60));
}

void replay_view_ascii(const char *s, char *out, size_t size)
{
	size_t to = 0;

	for (; *s && to + 1 < size; s++) {
		unsigned char c = (unsigned char)*s;
		if (c >= 0x20 && c < 0x7f)
			out[to++] = (char)c;
		else if (c < 0x80 || c >= 0xc0)
			out[to++] = '?'; /* one for each character, not for each byte of it */
	}
	if (size)
		out[to] = '\0';
}

static const char *state_text(const struct player *p)
{
	switch (p->state) {
	case PLAYER_PAUSED:
		return "PAUSE";
	case PLAYER_DONE:
		return "END";
	default:
		return "PLAY";
	}
}

static void bar(const struct replay_view *v, unsigned width, char *out)
{
	const struct player *p = v->player;
	uint64_t span = p->last - p->first, at = v->position > p->first ? v->position - p->first : 0;
	unsigned full = span ? (unsigned)((double)at / (double)span * width + 0.5) : width;

	for (unsigned i = 0; i < width; i++)
		out[i] = i < full ? '=' : '-';
	out[width] = '\0';
}

size_t replay_view_line(const struct replay_view *v, char *out, size_t size)
{
	const struct player *p = v->player;
	char at[32], total[32], wall[40] = "", idle[32] = "", gauge[BAR_MAX + 1] = "", line[512];
	bool notice = *v->notice;
	unsigned width = notice ? 0 : v->cols > 100 ? BAR_MAX : v->cols > 70 ? 16 : 0;

	replay_view_time(v->position > p->first ? v->position - p->first : 0, at, sizeof(at));
	replay_view_time(p->last - p->first, total, sizeof(total));
	/* A notice gets the room of what can wait. */
	if (v->wall_ns && !notice) {
		clock_format_utc(v->wall_ns, wall, sizeof(wall));
		wall[19] = 'Z';
		wall[20] = '\0';
	}
	if (p->skip_idle) {
		char limit[24];
		clock_format_duration(p->idle_limit, limit, sizeof(limit));
		snprintf(idle, sizeof(idle), " idle<%s", limit);
	}
	bar(v, width, gauge);
	const char *text = *v->notice ? v->notice : v->who;
	size_t len = text_format(line, sizeof(line), " %s %gx%s %s/%s %s%s%s%s%s %.300s", state_text(p), p->speed, idle,
				 at, total, width ? "[" : "", gauge, width ? "] " : "", wall, *wall ? " " : "", text);
	len = text_cut(line, len, v->cols ? v->cols - 1 : len);
	len = text_cut(line, len, size - 1);
	memcpy(out, line, len);
	out[len] = '\0';
	return len;
}

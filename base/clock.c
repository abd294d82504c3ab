#include "base/clock.h"

#include "base/err.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DURATION_MAX (UINT64_C(3650) * 86400 * NS_PER_SEC)

/* What tests set; the product never writes it. */
static struct {
	_Atomic bool on;
	_Atomic uint64_t boot_ns;
	_Atomic int64_t wall_ns;
} clock_fixed;

void clock_test_set(uint64_t boot_ns, int64_t wall_ns)
{
	clock_fixed.boot_ns = boot_ns;
	clock_fixed.wall_ns = wall_ns;
	clock_fixed.on = true;
}

void clock_test_reset(void)
{
	clock_fixed.on = false;
}

uint64_t clock_boot_ns(void)
{
	struct timespec ts;

	if (atomic_load_explicit(&clock_fixed.on, memory_order_relaxed))
		return clock_fixed.boot_ns;
	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t clock_to_tick_ns(uint64_t period_ns)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return period_ns - ((uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec) % period_ns;
}

int64_t clock_wall_ns(void)
{
	struct timespec ts;

	if (atomic_load_explicit(&clock_fixed.on, memory_order_relaxed))
		return clock_fixed.wall_ns;
	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * (int64_t)NS_PER_SEC + ts.tv_nsec;
}

static char boot_id[CLOCK_BOOT_ID_LEN] = "00000000-0000-0000-0000-000000000000";
static pthread_once_t boot_id_once = PTHREAD_ONCE_INIT;

static void boot_id_read(void)
{
	char text[CLOCK_BOOT_ID_LEN];
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text)) >= (ssize_t)sizeof(text) - 1) {
		text[sizeof(text) - 1] = '\0';
		memcpy(boot_id, text, sizeof(text));
	}
	close(fd);
}

const char *clock_boot_id(void)
{
	pthread_once(&boot_id_once, boot_id_read);
	return boot_id;
}

/* Without printf: lists format thousands. An int64_t of nanoseconds reaches from 1677 to 2262. */
static void put_digits(char *to, int n, int v)
{
	while (n--) {
		to[n] = (char)('0' + v % 10);
		v /= 10;
	}
}

void clock_format_utc(int64_t wall_ns, char *out, size_t size)
{
	int64_t ms = wall_ns / (int64_t)NS_PER_MS - (wall_ns % (int64_t)NS_PER_MS < 0);
	int64_t part = ms % 1000;

	if (part < 0)
		part += 1000;
	time_t seconds = (time_t)((ms - part) / 1000);
	char text[] = "yyyy-mm-ddThh:mm:ss.mmmZ";
	struct tm tm;

	gmtime_r(&seconds, &tm);
	put_digits(text, 4, tm.tm_year + 1900);
	put_digits(text + 5, 2, tm.tm_mon + 1);
	put_digits(text + 8, 2, tm.tm_mday);
	put_digits(text + 11, 2, tm.tm_hour);
	put_digits(text + 14, 2, tm.tm_min);
	put_digits(text + 17, 2, tm.tm_sec);
	put_digits(text + 20, 3, (int)part);
	if (size) {
		size_t n = size < sizeof(text) ? size - 1 : sizeof(text) - 1;

		memcpy(out, text, n);
		out[n] = '\0';
	}
}

/* Exactly n digits; the place after them, or NULL. */
static const char *take_digits(const char *s, int n, int low, int high, int *out)
{
	int v = 0;

	for (int i = 0; i < n; i++, s++) {
		if (*s < '0' || *s > '9')
			return NULL;
		v = v * 10 + (*s - '0');
	}
	if (v < low || v > high)
		return NULL;
	*out = v;
	return s;
}

static const char *take_char(const char *s, char c)
{
	return s && *s == c ? s + 1 : NULL;
}

/* ".123" or nothing. */
static const char *take_fraction(const char *s, int64_t *out_ns)
{
	int64_t scale = (int64_t)NS_PER_SEC, ns = 0;

	*out_ns = 0;
	if (*s != '.')
		return s;
	s++;
	if (*s < '0' || *s > '9')
		return NULL;
	for (int n = 0; *s >= '0' && *s <= '9'; s++, n++) {
		if (n >= 9)
			return NULL;
		scale /= 10;
		ns += scale * (*s - '0');
	}
	*out_ns = ns;
	return s;
}

/* "Z" or "+02:00" and the end of the string. */
static const char *take_zone(const char *s, int *out_minutes)
{
	int hours = 0, minutes = 0, sign;

	if (*s == 'Z' || *s == 'z') {
		*out_minutes = 0;
		return s[1] ? NULL : s + 1;
	}
	if (*s != '+' && *s != '-')
		return NULL;
	sign = *s == '-' ? -1 : 1;
	s = take_char(take_digits(s + 1, 2, 0, 23, &hours), ':');
	if (!s || !(s = take_digits(s, 2, 0, 59, &minutes)) || *s)
		return NULL;
	*out_minutes = sign * (hours * 60 + minutes);
	return s;
}

static bool day_exists(int year, int month, int day)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return day <= days[month - 1] + (month == 2 && leap);
}

int clock_parse_utc(const char *s, int64_t *out_wall_ns)
{
	int year, month, day, hour, minute, second, zone;
	int64_t fraction;

	/* 2262 is where 64-bit nanoseconds end. */
	if (!s || !(s = take_char(take_digits(s, 4, 1970, 2261, &year), '-')) ||
	    !(s = take_char(take_digits(s, 2, 1, 12, &month), '-')) || !(s = take_digits(s, 2, 1, 31, &day)))
		return ERR_INVAL;
	if (*s != 'T' && *s != 't' && *s != ' ')
		return ERR_INVAL;
	if (!(s = take_char(take_digits(s + 1, 2, 0, 23, &hour), ':')) ||
	    !(s = take_char(take_digits(s, 2, 0, 59, &minute), ':')) || !(s = take_digits(s, 2, 0, 60, &second)) ||
	    !(s = take_fraction(s, &fraction)) || !take_zone(s, &zone) || !day_exists(year, month, day))
		return ERR_INVAL;
	struct tm tm = {.tm_year = year - 1900,
			.tm_mon = month - 1,
			.tm_mday = day,
			.tm_hour = hour,
			.tm_min = minute,
			.tm_sec = second};
	int64_t seconds = (int64_t)timegm(&tm) - (int64_t)zone * 60;
	*out_wall_ns = seconds * (int64_t)NS_PER_SEC + fraction;
	return 0;
}

struct duration_unit {
	const char *name;
	uint64_t ns;
};

/* Largest first: units come in this order, each at most once. */
static const struct duration_unit duration_units[] = {
    {"d", UINT64_C(86400) * NS_PER_SEC},
    {"h", UINT64_C(3600) * NS_PER_SEC},
    {"m", UINT64_C(60) * NS_PER_SEC},
    {"s", NS_PER_SEC},
    {"ms", NS_PER_MS},
};
#define DURATION_UNITS (sizeof(duration_units) / sizeof(duration_units[0]))

/* The unit at s, not before `from` in the table; its index, or DURATION_UNITS. */
static size_t duration_unit_at(const char *s, size_t len, size_t from)
{
	for (size_t i = from; i < DURATION_UNITS; i++)
		if (strlen(duration_units[i].name) == len && strncmp(duration_units[i].name, s, len) == 0)
			return i;
	return DURATION_UNITS;
}

int clock_parse_duration(const char *s, uint64_t *out_ns)
{
	uint64_t total = 0;
	size_t next_unit = 0;

	if (!s || !*s)
		return ERR_INVAL;
	while (*s) {
		uint64_t v = 0;
		size_t digits = strspn(s, "0123456789");
		if (digits == 0 || digits > 15)
			return ERR_INVAL;
		for (size_t i = 0; i < digits; i++)
			v = v * 10 + (uint64_t)(s[i] - '0');
		s += digits;
		size_t len = strspn(s, "dhms");
		size_t unit = duration_unit_at(s, len, next_unit);
		if (unit == DURATION_UNITS || v > DURATION_MAX / duration_units[unit].ns)
			return ERR_INVAL;
		total += v * duration_units[unit].ns;
		if (total > DURATION_MAX)
			return ERR_INVAL;
		next_unit = unit + 1;
		s += len;
	}
	*out_ns = total;
	return 0;
}

void clock_format_duration(uint64_t ns, char *out, size_t size)
{
	size_t at = 0;

	if (size == 0)
		return;
	out[0] = '\0';
	for (size_t i = 0; i < DURATION_UNITS; i++) {
		uint64_t v = ns / duration_units[i].ns;
		ns %= duration_units[i].ns;
		if (v == 0)
			continue;
		int n = snprintf(out + at, size - at, "%llu%s", (unsigned long long)v, duration_units[i].name);
		if (n < 0 || (size_t)n >= size - at)
			return;
		at += (size_t)n;
	}
	if (at == 0)
		snprintf(out, size, "0s");
}

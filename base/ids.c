#include "base/ids.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/text.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/random.h>

#define TOKEN_NAME_MAX 128

int random_bytes(void *out, size_t n)
{
	uint8_t *p = out;

	while (n) {
		ssize_t got = getrandom(p, n, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return ERR_SYS;
		p += got;
		n -= (size_t)got;
	}
	return 0;
}

/* The last id given out: 48 bits of milliseconds, then 12 + 62 random bits that only grow within one of them. */
static struct {
	pthread_mutex_t lock;
	uint64_t ms, high, low;
} id_last = {.lock = PTHREAD_MUTEX_INITIALIZER};

#define ID_HIGH_MAX UINT64_C(0xfff)
#define ID_LOW_MAX  UINT64_C(0x3fffffffffffffff)

/* RFC 9562, 6.2, method 2: random in a new millisecond, else the last one plus a random step. */
static void id_advance(uint64_t now_ms, uint64_t random_high, uint64_t random_low)
{
	if (now_ms > id_last.ms) {
		id_last.ms = now_ms;
		id_last.high = random_high & (ID_HIGH_MAX >> 1);
		id_last.low = random_low & ID_LOW_MAX;
		return;
	}
	id_last.low += 1 + (random_low & UINT64_C(0xffffffff));
	if (id_last.low <= ID_LOW_MAX)
		return;
	id_last.low &= ID_LOW_MAX;
	if (++id_last.high <= ID_HIGH_MAX)
		return;
	id_last.high = 0;
	id_last.ms++;
}

int id_new(struct id *out)
{
	uint8_t r[10];
	int rc = random_bytes(r, sizeof(r));
	int64_t wall = clock_wall_ns();

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&id_last.lock);
	id_advance(wall > 0 ? (uint64_t)wall / NS_PER_MS : 0, get_u16(r + 8), get_u64(r));
	uint64_t ms = id_last.ms, high = id_last.high, low = id_last.low;
	pthread_mutex_unlock(&id_last.lock);
	for (int i = 0; i < 6; i++)
		out->b[i] = (uint8_t)(ms >> (40 - 8 * i));
	out->b[6] = (uint8_t)(0x70 | high >> 8);
	out->b[7] = (uint8_t)high;
	for (int i = 0; i < 8; i++)
		out->b[8 + i] = (uint8_t)(low >> (56 - 8 * i));
	out->b[8] |= 0x80;
	return 0;
}

void id_format(const struct id *id, char out[ID_STR_LEN])
{
	static const char hex[] = "0123456789abcdef";
	char *p = out;

	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*p++ = '-';
		*p++ = hex[id->b[i] >> 4];
		*p++ = hex[id->b[i] & 15];
	}
	*p = '\0';
}

int id_parse(const char *s, struct id *out)
{
	struct id id;

	if (!s || strlen(s) != ID_STR_LEN - 1)
		return ERR_INVAL;
	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10) {
			if (*s++ != '-')
				return ERR_INVAL;
		}
		int high = hex_value(s[0]), low = hex_value(s[1]);
		if (high < 0 || low < 0)
			return ERR_INVAL;
		id.b[i] = (uint8_t)(high << 4 | low);
		s += 2;
	}
	*out = id;
	return 0;
}

/* How a character stands in a message: itself, or its number. */
static const char *char_shown(unsigned char c, char out[8])
{
	if (c > 0x20 && c < 0x7f)
		snprintf(out, 8, "\"%c\"", c);
	else
		snprintf(out, 8, "0x%02x", c);
	return out;
}

/* One DNS label of len bytes. `what` names it in the message. */
static int label_check(const char *what, const char *s, size_t len, struct err *e)
{
	char shown[8];

	if (len == 0)
		return err_set(e, ERR_INVAL, "%s is empty", what);
	if (len > DNS_LABEL_MAX)
		return err_set(e, ERR_INVAL, "%s has %zu characters, %d are allowed", what, len, DNS_LABEL_MAX);
	for (size_t i = 0; i < len; i++) {
		char c = s[i];
		bool dash = c == '-' && i > 0 && i < len - 1;
		if (!dash && !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9'))
			return err_set(e, ERR_INVAL,
				       "%s has %s at character %zu%s: a to z, 0 to 9 and inner dashes are allowed",
				       what, char_shown((unsigned char)c, shown), i + 1, c == '-' ? " (an end)" : "");
	}
	return 0;
}

int dns_label_check(const char *what, const char *text, struct err *e)
{
	return label_check(what, text, strlen(text), e);
}

int agent_name_check(const char *name, struct err *e)
{
	struct id id;

	if (!name)
		return err_set(e, ERR_INVAL, "agent name is missing");
	/* A UUID in lower case is a label too; capitals are for UUIDs only. */
	if (id_parse(name, &id) == 0)
		return 0;
	return label_check("agent name", name, strlen(name), e);
}

/* ns/pod[/container]: a pod's name is labels joined by dots. */
static int pod_check(const char *s, size_t len, struct err *e)
{
	while (len) {
		const char *dot = memchr(s, '.', len);
		size_t n = dot ? (size_t)(dot - s) : len;
		int rc = label_check("pod name", s, n, e);
		if (rc < 0)
			return rc;
		if (!dot)
			return 0;
		s += n + 1;
		len -= n + 1;
	}
	return err_set(e, ERR_INVAL, "pod name is empty or ends with a dot");
}

int target_name_check(const char *name, struct err *e)
{
	const char *slash = name ? strchr(name, '/') : NULL;

	if (!slash)
		return agent_name_check(name, e);
	if (strlen(name) > AGENT_NAME_MAX)
		return err_set(e, ERR_INVAL, "target name has %zu characters, %d are allowed", strlen(name),
			       AGENT_NAME_MAX);
	int rc = label_check("namespace", name, (size_t)(slash - name), e);
	if (rc < 0)
		return rc;
	const char *pod = slash + 1, *end = strchr(pod, '/');
	rc = pod_check(pod, end ? (size_t)(end - pod) : strlen(pod), e);
	if (rc < 0 || !end)
		return rc;
	return label_check("container name", end + 1, strlen(end + 1), e);
}

int target_parse(const char *name, struct target *out, struct err *e)
{
	struct target t = {0};
	int rc = target_name_check(name, e);

	if (rc < 0)
		return rc;
	if (!target_is_pod(name)) {
		snprintf(t.agent, sizeof(t.agent), "%s", name);
	} else {
		const char *pod = strchr(name, '/') + 1;
		size_t n = strcspn(pod, "/");

		memcpy(t.ns, name, (size_t)(pod - name) - 1);
		memcpy(t.pod, pod, n);
		snprintf(t.container, sizeof(t.container), "%s", pod[n] ? pod + n + 1 : "");
	}
	*out = t;
	return 0;
}

/* ---- names that muxd makes */

#define MADE_HEX 12

static const char *const makings[] = {
    [AGENT_FORK] = "-fork-", [AGENT_BASE] = "-base-", [AGENT_MCP] = "-mcp-", [AGENT_BEGIN] = "-begin-"};

/* *out_stem: how long the name is that it was made of. */
static enum agent_making making_of(const char *name, size_t len, size_t *out_stem)
{
	if (len <= MADE_HEX || memchr(name, '/', len))
		return AGENT_CHOSEN;
	for (size_t i = len - MADE_HEX; i < len; i++)
		if (!(name[i] >= '0' && name[i] <= '9') && !(name[i] >= 'a' && name[i] <= 'f'))
			return AGENT_CHOSEN;
	for (enum agent_making m = AGENT_FORK; m <= AGENT_BEGIN; m++) {
		size_t n = strlen(makings[m]), behind = len - MADE_HEX;

		if (behind > n && memcmp(name + behind - n, makings[m], n) == 0) {
			*out_stem = behind - n;
			return m;
		}
	}
	return AGENT_CHOSEN;
}

enum agent_making agent_making(const char *name)
{
	size_t stem;

	return making_of(name, strlen(name), &stem);
}

const char *target_origin(const char *name, char out[AGENT_NAME_MAX + 1])
{
	size_t n = strnlen(name, AGENT_NAME_MAX), stem;

	/* A fork of a fork had a name of both once. */
	while (making_of(name, n, &stem) != AGENT_CHOSEN)
		n = stem;
	memcpy(out, name, n);
	out[n] = '\0';
	return out;
}

bool agent_make_name(const char *of, enum agent_making m, const struct id *id, char out[AGENT_NAME_MAX + 1])
{
	char root[AGENT_NAME_MAX + 1], text[ID_STR_LEN];
	size_t n = strlen(target_origin(of, root)), room = DNS_LABEL_MAX - MADE_HEX - strlen(makings[m]);
	bool whole = n <= room && root[n - 1] != '-';

	if (n > room) {
		root[room - 1] = '-';
		root[room] = '\0';
	}
	id_format(id, text); /* the last ones of a UUIDv7 are random */
	text_format(out, AGENT_NAME_MAX + 1, "%s%s%s", root, makings[m], text + ID_STR_LEN - 1 - MADE_HEX);
	return whole;
}

bool target_covers(const char *wide, const char *name)
{
	size_t n = strlen(wide);
	const char *slash = strchr(wide, '/');

	if (strcmp(wide, name) == 0)
		return true;
	return slash && !strchr(slash + 1, '/') && strncmp(wide, name, n) == 0 && name[n] == '/';
}

int token_name_check(const char *what, const char *name, struct err *e)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@:/+-";
	char shown[8];

	if (!name || !*name)
		return err_set(e, ERR_INVAL, "%s is empty", what);
	size_t len = strlen(name), good = strspn(name, allowed);
	if (len > TOKEN_NAME_MAX)
		return err_set(e, ERR_INVAL, "%s has %zu characters, %d are allowed", what, len, TOKEN_NAME_MAX);
	if (good < len)
		return err_set(e, ERR_INVAL, "%s has %s at character %zu: letters, digits and ._@:/+- are allowed",
			       what, char_shown((unsigned char)name[good], shown), good + 1);
	return 0;
}

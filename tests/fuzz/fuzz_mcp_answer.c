// tier: check
/*
 * What an MCP server inside a sandbox answers by HTTP, read by muxlet in that sandbox: the same messages come of it in
 * whatever pieces it came, none has a line end in it or is longer than it may be, and what is broken says why. And the
 * address that a list names: what is taken is on the loopback.
 */
#include "base/err.h"
#include "base/loopback.h"
#include "muxd/muxlet/mcp_answer.c"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	uint64_t sum;
	size_t messages;
	int rc, status;
	enum mcp_answer_state state;
};

static void require(bool truth)
{
	if (!truth)
		abort();
}

static int on_message(void *arg, const char *p, size_t n)
{
	struct seen *s = arg;
	char version[MCP_VERSION_MAX];

	require(n && n <= MCP_MESSAGE_MAX && !memchr(p, '\n', n) && !memchr(p, '\r', n));
	for (size_t i = 0; i < n; i++)
		s->sum = (s->sum ^ (uint8_t)p[i]) * 1099511628211u;
	s->sum = (s->sum ^ '\n') * 1099511628211u;
	s->messages++;
	if (mcp_message_version(p, n, version))
		require(version[0] && strlen(version) < MCP_VERSION_MAX && !strpbrk(version, "\r\n \""));
	require(!mcp_message_answers(p, n, "1") || !mcp_message_answers(p, n, "2"));
	return 0;
}

static struct seen feed(const uint8_t *data, size_t size, size_t piece)
{
	struct seen s = {.sum = 1469598103934665603u};
	struct mcp_answer a;

	mcp_answer_init(&a);
	for (size_t at = 0; s.rc == 0 && at < size; at += piece)
		s.rc = mcp_answer_feed(&a, data + at, size - at < piece ? size - at : piece, on_message, &s);
	if (s.rc == 0)
		s.rc = mcp_answer_end(&a, on_message, &s);
	require(s.rc == 1 || (s.rc == ERR_PROTOCOL && a.why[0] && a.state == ANSWER_BROKEN));
	require(a.status == 0 || (a.status >= 200 && a.status <= 999 && (a.status < 300 || a.status >= 400)));
	require(strlen(a.session) < MCP_SESSION_MAX && !strpbrk(a.session, "\r\n "));
	require(!strpbrk(a.events.id, "\r\n"));
	s.status = a.status;
	s.state = a.state;
	mcp_answer_finish(&a);
	return s;
}

static void check_address(const uint8_t *data, size_t size)
{
	char *url = malloc(size + 1);
	struct loopback to;

	require(url != NULL);
	memcpy(url, data, size);
	url[size] = '\0';
	if (loopback_read(url, &to) == 0) {
		require(to.port && (!*to.target || *to.target == '/') && !strpbrk(url, "\r\n \\#"));
		require(strncasecmp(to.authority, "127.0.0.1", 9) == 0 || strncasecmp(to.authority, "[::1]", 5) == 0 ||
			strncasecmp(to.authority, "localhost", 9) == 0);
		require(!memchr(to.authority, '@', to.authority_len));
	}
	free(url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen whole = feed(data, size, size ? size : 1), pieces;

	pieces = feed(data, size, size ? data[size - 1] % 32 + 1u : 1);
	require(whole.sum == pieces.sum && whole.messages == pieces.messages && whole.rc == pieces.rc &&
		whole.state == pieces.state);
	check_address(data, size);
	return 0;
}

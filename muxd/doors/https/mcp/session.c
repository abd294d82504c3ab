#include "muxd/doors/https/mcp/session.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/inside/inside_question.h"

#include <openssl/sha.h>
#include <string.h>

static void digest_put(struct mcp_session *s, const struct grant *whose)
{
	uint8_t digest[SHA256_DIGEST_LENGTH];
	char id[ID_STR_LEN], text[640];

	id_format(&s->id, id);
	text_format(text, sizeof(text), "muxd mcp session\n%s\n%d\n%d\n%u\n%s\n%s\n%s", id,
		    (int)s->version + (int)(10 * s->asked), (int)whose->kind, (unsigned)whose->scopes, whose->agent,
		    whose->task, whose->principal);
	SHA256((const uint8_t *)text, strlen(text), digest);
	memcpy(s->digest, digest, sizeof(s->digest));
}

int mcp_session_new(enum mcp_version v, unsigned asked, const struct grant *whose, struct mcp_session *out)
{
	struct mcp_session s = {.version = v, .asked = asked};

	if (id_new(&s.id))
		return ERR_SYS;
	digest_put(&s, whose);
	*out = s;
	return 0;
}

struct mcp_holder mcp_holder_of(const struct mcp_session *session, const struct grant *whose)
{
	struct mcp_holder h = {.session = *session, .grant = grant_line(whose)};

	text_put(h.principal, sizeof(h.principal), whose->principal);
	text_put(h.agent, sizeof(h.agent), whose->agent);
	return h;
}

bool mcp_session_equal(const struct mcp_session *a, const struct mcp_session *b)
{
	return id_equal(&a->id, &b->id) && a->version == b->version && a->asked == b->asked &&
	       memcmp(a->digest, b->digest, sizeof(a->digest)) == 0;
}

void mcp_session_format(const struct mcp_session *s, char out[MCP_SESSION_SZ])
{
	char id[ID_STR_LEN], hex[2 * MCP_SESSION_DIGEST + 1], asked[4] = "";

	id_format(&s->id, id);
	for (size_t i = 0; i < MCP_SESSION_DIGEST; i++)
		text_format(hex + 2 * i, 3, "%02x", s->digest[i]);
	if (s->asked)
		text_format(asked, sizeof(asked), "%u", s->asked & QUESTION_KINDS);
	text_format(out, MCP_SESSION_SZ, "%s.%d%s.%s", id, (int)s->version, asked, hex);
}

int mcp_session_parse(const char *text, const struct grant *whose, struct mcp_session *out)
{
	struct mcp_session s = {0};
	char id[ID_STR_LEN], again[MCP_SESSION_SZ];
	size_t n = strlen(text);

	if (n < ID_STR_LEN + 2 || n >= MCP_SESSION_SZ || text[ID_STR_LEN - 1] != '.')
		return ERR_NOT_FOUND;
	text_put_bytes(id, sizeof(id), text, ID_STR_LEN - 1);
	s.version = (enum mcp_version)(text[ID_STR_LEN] - '0');
	if (text[ID_STR_LEN + 1] >= '1' && text[ID_STR_LEN + 1] <= '0' + QUESTION_KINDS)
		s.asked = (unsigned)(text[ID_STR_LEN + 1] - '0');
	if (id_parse(id, &s.id) || s.version <= MCP_NONE || s.version > MCP_OLD_NEWEST)
		return ERR_NOT_FOUND;
	digest_put(&s, whose);
	mcp_session_format(&s, again);
	if (strcmp(text, again) != 0)
		return ERR_NOT_FOUND;
	*out = s;
	return 0;
}

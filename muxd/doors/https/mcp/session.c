#include "muxd/doors/https/mcp/session.h"
#include "base/err.h"
#include "base/text.h"

#include <openssl/sha.h>
#include <string.h>

#define DIGEST_BYTES 8

int mcp_session_new(enum mcp_version v, struct mcp_session *out)
{
	out->version = v;
	return id_new(&out->id);
}

void mcp_session_format(const struct mcp_session *s, const char *principal, char out[MCP_SESSION_SZ])
{
	uint8_t digest[SHA256_DIGEST_LENGTH];
	char id[ID_STR_LEN], text[512], hex[2 * DIGEST_BYTES + 1];

	id_format(&s->id, id);
	text_format(text, sizeof(text), "muxd mcp session\n%s\n%d\n%s", id, (int)s->version, principal);
	SHA256((const uint8_t *)text, strlen(text), digest);
	for (size_t i = 0; i < DIGEST_BYTES; i++)
		text_format(hex + 2 * i, 3, "%02x", digest[i]);
	text_format(out, MCP_SESSION_SZ, "%s.%d.%s", id, (int)s->version, hex);
}

int mcp_session_parse(const char *text, const char *principal, struct mcp_session *out)
{
	struct mcp_session s;
	char id[ID_STR_LEN], again[MCP_SESSION_SZ];
	size_t n = strlen(text);

	if (n < ID_STR_LEN + 2 || n >= MCP_SESSION_SZ || text[ID_STR_LEN - 1] != '.')
		return ERR_NOT_FOUND;
	text_put_bytes(id, sizeof(id), text, ID_STR_LEN - 1);
	s.version = (enum mcp_version)(text[ID_STR_LEN] - '0');
	if (id_parse(id, &s.id) || s.version <= MCP_NONE || s.version > MCP_OLD_NEWEST)
		return ERR_NOT_FOUND;
	mcp_session_format(&s, principal, again);
	if (strcmp(text, again) != 0)
		return ERR_NOT_FOUND;
	*out = s;
	return 0;
}

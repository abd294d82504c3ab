#include "muxd/screen/command.h"

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/screen/frame.h"

#include <string.h>

#define HEAD 32

enum flag { FLAG_SHARED = 1, FLAG_PROMPT = 2, FLAG_TRUNCATED = 4, FLAG_MARK_TRUNCATED = 8 };

int command_put(struct buf *out, const struct command *c)
{
	size_t ntext = strlen(c->text), nmark = strlen(c->mark), nnonce = strlen(c->nonce);
	uint8_t p[HEAD + 2 * COMMAND_TEXT_MAX + COMMAND_NONCE_MAX];

	put_u64(p, c->at);
	put_u64(p + 8, c->input);
	put_u64(p + 16, c->ns);
	put_u16(p + 24, c->hand);
	p[26] = (uint8_t)((c->shared ? FLAG_SHARED : 0) | (c->prompt ? FLAG_PROMPT : 0) |
			  (c->truncated ? FLAG_TRUNCATED : 0) | (c->mark_truncated ? FLAG_MARK_TRUNCATED : 0));
	p[27] = (uint8_t)nnonce;
	put_u16(p + 28, (uint16_t)ntext);
	put_u16(p + 30, (uint16_t)nmark);
	memcpy(p + HEAD, c->text, ntext);
	memcpy(p + HEAD + ntext, c->mark, nmark);
	memcpy(p + HEAD + ntext + nmark, c->nonce, nnonce);
	return screen_frame_put(out, SCREEN_COMMAND, p, HEAD + ntext + nmark + nnonce, NULL, 0);
}

int command_get(const struct screen_frame *f, struct command *out)
{
	const uint8_t *p = f->payload;
	size_t ntext, nmark, nnonce;

	if (f->type != SCREEN_COMMAND || f->len < HEAD)
		return ERR_PROTOCOL;
	nnonce = p[27];
	ntext = get_u16(p + 28);
	nmark = get_u16(p + 30);
	if (nnonce > COMMAND_NONCE_MAX || ntext > COMMAND_TEXT_MAX || nmark > COMMAND_TEXT_MAX ||
	    f->len != HEAD + ntext + nmark + nnonce)
		return ERR_PROTOCOL;
	*out = (struct command){.at = get_u64(p),
				.input = get_u64(p + 8),
				.ns = get_u64(p + 16),
				.hand = get_u16(p + 24),
				.shared = p[26] & FLAG_SHARED,
				.prompt = p[26] & FLAG_PROMPT,
				.truncated = p[26] & FLAG_TRUNCATED,
				.mark_truncated = p[26] & FLAG_MARK_TRUNCATED};
	text_put_bytes(out->text, sizeof(out->text), p + HEAD, ntext);
	text_put_bytes(out->mark, sizeof(out->mark), p + HEAD + ntext, nmark);
	text_put_bytes(out->nonce, sizeof(out->nonce), p + HEAD + ntext + nmark, nnonce);
	return 0;
}

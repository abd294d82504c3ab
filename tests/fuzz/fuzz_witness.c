// tier: check
/*
 * What a witness answers, as the recorder reads it: a receipt, or the newest head that it has. Nobody's signature is
 * made here, so no receipt counts; a head that is taken comes out as it went in.
 */
#include "base/err.h"
#include "recorder/chain/chain.h"
#include "recorder/chain/receipt.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void heads(const uint8_t *data, size_t size)
{
	struct chain_head h, again;
	struct err e = {0};
	int rc = chain_head_import((const char *)data, size, &h, &e);

	if (rc) {
		if (e.code != rc || !e.message[0])
			abort();
		return;
	}
	char *text = chain_head_export(&h);
	if (!text || chain_head_import(text, strlen(text), &again, NULL) || again.seq != h.seq ||
	    memcmp(again.hash, h.hash, sizeof h.hash) != 0 ||
	    memcmp(again.signature, h.signature, sizeof h.signature) != 0)
		abort();
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t key[GRANT_KEY_LEN] = {1};
	struct chain_head h = {.seq = 1};
	struct err e = {0};
	json_t *o = NULL;

	heads(data, size);
	if (json_parse(data, size, RECEIPT_MAX, &o, &e) == 0 && json_is_object(o)) {
		int rc = receipt_check(o, &h, key, &e);
		if (rc == 0 || e.code != rc)
			abort();
	}
	json_decref(o);
	return 0;
}

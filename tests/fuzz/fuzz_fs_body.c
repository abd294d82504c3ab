// tier: check
/*
 * The body of POST /v1/agents/{agent}/fs/...: the first byte chooses the operation. What is taken becomes a transfer
 * whose request muxlet takes as well, unless it is too long; what is refused is named.
 */
#include "base/err.h"
#include "muxd/doors/https/fs_body.h"
#include "muxd/hub/session/transfer.h"
#include "muxd/muxlet/fs_ask.c"
#include "muxd/muxlet/fs_text.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const struct fs_body *b)
{
	struct transfer *t = NULL;
	struct fs_ask a;
	const char *why = NULL;
	struct err e = {0};

	if (transfer_create(&b->file, NULL, &t, &e)) {
		if (!e.message[0])
			abort();
		return;
	}
	if (fs_ask_parse(t->request, strlen(t->request), &a, &why) || strcmp(a.path, b->path) != 0 ||
	    strcmp(a.op, t->row->name) != 0)
		abort();
	fs_ask_finish(&a);
	transfer_destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fs_body b = {0};
	struct err e = {0};
	enum file_op op;
	int rc;

	if (!size)
		return 0;
	op = FILE_STAT + data[0] % (FILE_OPS - FILE_STAT);
	rc = fs_body_parse(op, data + 1, size - 1, 1024 * 1024, &b, &e);
	if (rc) {
		if (!e.message[0])
			abort();
		return 0;
	}
	ask(&b);
	fs_body_finish(&b);
	return 0;
}

// tier: check
/*
 * What comes of a file that is got: the line ahead of it, then content. The first byte is the size of the pieces; it
 * must change neither what is content nor whether it is taken.
 */
#include "base/err.h"
#include "muxd/hub/session/transfer.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int feed(const uint8_t *p, size_t n, size_t step, size_t *out_content, uint64_t *out_size)
{
	struct file_spec spec = {.op = FILE_GET, .path = "f", .mode = -1};
	struct transfer *t = NULL;
	int rc = 0;

	*out_content = 0;
	if (transfer_create(&spec, NULL, &t, NULL))
		abort();
	while (n && rc == 0) {
		size_t take = n < step ? n : step, content = 0;

		rc = transfer_output(t, p, take, &content);
		if (content > take || (content && !t->head_known) || t->head_len > TRANSFER_HEAD_MAX)
			abort();
		*out_content += content;
		p += take;
		n -= take;
	}
	*out_size = t->head_known ? t->size : 0;
	if (rc == 0 && *out_content > *out_size)
		abort();
	transfer_destroy(t);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t a = 0, b = 0;
	uint64_t size_a = 0, size_b = 0;
	int rc_a, rc_b;

	if (size < 2)
		return 0;
	rc_a = feed(data + 1, size - 1, size, &a, &size_a);
	rc_b = feed(data + 1, size - 1, data[0] % 16 + 1u, &b, &size_b);
	if (rc_a != rc_b || size_a != size_b || (rc_a == 0 && a != b))
		abort();
	return 0;
}

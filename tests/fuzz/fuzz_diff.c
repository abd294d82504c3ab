// tier: check
/* Two texts, a NUL between them: the hunks from the first make the second of it, exactly. */
#include "files/diff.h"
#include "tests/lib/diff_apply.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *a = (const char *)data, *nul = size ? memchr(a, 0, size) : NULL;
	size_t an = nul ? (size_t)(nul - a) : size, bn = nul ? size - an - 1 : 0;
	const char *b = nul ? nul + 1 : "";
	struct diff_text hunks = {0}, made = {0};

	must(diff_unified(a, an, b, bn, diff_text_add, &hunks) == 0);
	must((hunks.n == 0) == (an == bn && memcmp(a, b, an) == 0));
	must(diff_apply(&hunks, a, an, &made));
	must(made.n == bn && (!bn || memcmp(made.p, b, bn) == 0));
	free(hunks.p);
	free(made.p);
	return 0;
}

// tier: check
/* What the scripts of the plain backend say, as a container may forge it: lines of a start, of a look and of a sweep.
 */
#include "muxd/plain/answer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void start_line(const uint8_t *p, size_t n)
{
	struct answer_start a;
	size_t used = 0;
	enum answer_kind kind = answer_start(p, n, &a, &used);

	must(memchr(a.start, 0, sizeof(a.start)) && memchr(a.at, 0, sizeof(a.at)));
	if (kind == ANSWER_STARTED)
		must(a.pid >= 0 && a.session >= 0 && a.start[0] && strspn(a.start, "0123456789") == strlen(a.start));
	if (kind == ANSWER_STARTED || kind == ANSWER_REFUSED)
		must(used >= 1 && used <= n && used <= ANSWER_MAX && p[used - 1] == '\n');
	if (kind == ANSWER_MORE)
		must(n < ANSWER_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct answer_probe probe;
	char *text = malloc(size + 1);

	must(text != NULL);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	if (size)
		start_line(data, size);
	(void)answer_probe(text, &probe);
	for (size_t i = 0; i < 4; i++)
		must(answer_left(text, i) >= -1);
	free(text);
	return 0;
}

// tier: check
/*
 * The frame decoder, as the hub and as muxlet use it: a stream of bytes, taken
 * apart frame by frame. What was understood must survive being said again.
 */
#include "muxd/link/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* The encoder takes arrays where the decoder gives one block. */
static void split_strings(struct frame_open *o, const char ***out_words)
{
	const char **words = calloc((size_t)o->argc + o->envc + 1, sizeof(*words));
	const char *at = o->strings;

	must(words != NULL);
	for (uint32_t i = 0; i < o->argc + o->envc; i++, at += strlen(at) + 1)
		words[i] = at;
	o->argv = words;
	o->env = words + o->argc;
	*out_words = words;
}

static void compare_open(const struct frame_open *a, const struct frame_open *b)
{
	const char *x = a->strings, *y = b->strings;

	must(a->argc == b->argc && a->envc == b->envc && a->flags == b->flags && a->window == b->window &&
	     a->timeout_ms == b->timeout_ms && strcmp(a->cwd, b->cwd) == 0);
	for (uint32_t i = 0; i < a->argc + a->envc; i++, x += strlen(x) + 1, y += strlen(y) + 1)
		must(strcmp(x, y) == 0);
}

static void compare(const struct frame *a, const struct frame *b)
{
	must(a->type == b->type && a->flags == b->flags && a->channel == b->channel && a->stream == b->stream &&
	     a->offset == b->offset && a->n == b->n && (a->n == 0 || memcmp(a->p, b->p, a->n) == 0));
	switch (a->type) {
	case FRAME_OPEN:
		compare_open(&a->u.open, &b->u.open);
		break;
	case FRAME_EXIT:
		must(memcmp(&a->u.exit.total, &b->u.exit.total, sizeof(a->u.exit.total)) == 0);
		must(a->u.exit.code == b->u.exit.code && a->u.exit.cause == b->u.exit.cause &&
		     memcmp(a->u.exit.at, b->u.exit.at, FRAME_AT_LEN) == 0);
		break;
	case FRAME_LIST:
		must(memcmp(a->u.list.produced, b->u.list.produced, sizeof(a->u.list.produced)) == 0);
		must(a->u.list.consumed == b->u.list.consumed && a->u.list.flags == b->u.list.flags);
		break;
	case FRAME_RESUME:
		must(memcmp(&a->u.resume, &b->u.resume, sizeof(a->u.resume)) == 0);
		break;
	default:
		break;
	}
}

static void say_again(struct frame *f, char from)
{
	static uint8_t text[FRAME_OPEN_MAX];
	const char **words = NULL, *why;
	struct frame again;
	size_t n, size;

	memset(&again, 0, sizeof(again));
	if (f->type == FRAME_OPEN)
		split_strings(&f->u.open, &words);
	n = frame_encode(f, text, sizeof(text));
	must(n > 0);
	must(frame_decode(text, n, from, &again, &size, &why) == 1 && size == n);
	compare(f, &again);
	must(frame_decode(text, n - 1, from, &again, &size, &why) == 0);
	free(words);
}

static void take_apart(const uint8_t *p, size_t n, char from)
{
	const char *why = NULL;
	struct frame f;
	size_t size;
	int rc;

	for (;;) {
		memset(&f, 0, sizeof(f));
		rc = frame_decode(p, n, from, &f, &size, &why);
		if (rc <= 0)
			break;
		must(size >= FRAME_HEADER && size <= n);
		must(strcmp(frame_type_name(f.type), "?") != 0 || f.type == 0);
		if (f.type)
			say_again(&f, from);
		p += size;
		n -= size;
	}
	must(rc == 0 ? size == 0 || size > n : why != NULL);
	must(size <= FRAME_OPEN_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	take_apart(data, size, 'H');
	take_apart(data, size, 'M');
	return 0;
}

// tier: check
/*
 * What a file store answers, and what a sandbox says of its files: both are strangers'. A path that is taken is one
 * that stays below, a content that is taken is what its digest says, and records come out as they went in.
 */
#include "base/err.h"
#include "base/relpath.h"
#include "control/filespace/wire.h"
#include "files/syncrec.h"

#include <stdlib.h>
#include <string.h>

#define SAID_MAX (1024 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct filespace_bounds bounds = {.files_max = 1000, .size_max = 65536};

static int check_put(void *arg, const char *path, const struct filespace_put *p)
{
	(void)arg;
	if (relpath_check(path, strlen(path)) || (p->side.key[0] && p->side.deleted))
		abort();
	return 0;
}

static void check_page(const json_t *body)
{
	struct filespace_list list = {0};
	struct filespace_page page = {.list = &list};
	struct err e = {0};

	if (filespace_wire_page(body, &bounds, &page, &e)) {
		if (!e.code || !e.message[0])
			abort();
	} else {
		(void)filespace_list_sort(&list);
		for (size_t i = 0; i < list.n; i++)
			if (relpath_check(list.p[i].path, strlen(list.p[i].path)) ||
			    !filespace_list_find(&list, list.p[i].path))
				abort();
	}
	free(page.next);
	filespace_list_finish(&list);
}

static void check_contents(const json_t *body)
{
	const json_t *v;
	size_t i;

	json_array_foreach(json_object_get(body, "files"), i, v)
	{
		struct filespace_content c = {0};

		if (filespace_wire_content(v, &bounds, &c, NULL) == 0 && (c.n > bounds.size_max || c.n != c.file.size))
			abort();
		filespace_content_finish(&c);
	}
}

static void check_records(const uint8_t *data, size_t size)
{
	struct syncrec_reader *r = calloc(1, sizeof(*r));
	enum syncrec_event event = SYNCREC_MORE;
	uint8_t head[SYNCREC_HEAD];
	size_t used, step = size ? 1 + data[0] % 64u : 1;

	if (!r)
		return;
	r->content_max = 4096;
	while (size || event != SYNCREC_MORE) {
		if (syncrec_read(r, data, size < step ? size : step, &used, &event))
			break;
		data += used;
		size -= used;
		if (event == SYNCREC_RECORD) {
			if (relpath_check(r->r.path, r->r.path_len) || strlen(r->r.path) != r->r.path_len)
				abort();
			syncrec_head(&r->r, head);
			if (head[0] != r->r.kind)
				abort();
		}
		if (event == SYNCREC_DATA && r->data_n > 4096)
			abort();
	}
	free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *body = NULL;
	int64_t now = 0;

	check_records(data, size);
	if (json_parse(data, size, SAID_MAX, &body, NULL))
		return 0;
	check_page(body);
	check_contents(body);
	(void)filespace_wire_puts(body, &bounds, check_put, NULL, &now, NULL);
	json_decref(body);
	return 0;
}

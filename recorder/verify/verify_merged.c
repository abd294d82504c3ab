#include "recorder/verify/verify_merged.h"

#include "base/err.h"
#include "base/list.h"

#include <inttypes.h>
#include <stdlib.h>

static struct merged_place *verify_merged_find(struct verify_merged *v, const struct id *log_id)
{
	struct merged_place begin;

	for (size_t i = 0; i < v->n; i++)
		if (id_equal(&v->logs[i].log_id, log_id))
			return &v->logs[i];
	merged_begin(log_id, &begin);
	return list_append(&v->logs, &v->n, &begin, sizeof begin) ? NULL : &v->logs[v->n - 1];
}

int verify_merged_take(struct verify_merged *v, const char *dir, const struct chain_entry *en, struct err *e)
{
	struct merged_place *at;
	struct merged_batch b;
	struct err why = {0};
	int rc = merged_of(en, &b);

	if (rc)
		return err_set(e, rc, "entry %" PRIu64 " of the log tells of no entries of another", en->seq);
	at = verify_merged_find(v, &b.from.log_id);
	if (!at)
		return err_set(e, ERR_NOMEM, "no memory for other logs");
	rc = merged_check(dir, at, &b, &why);
	if (rc == 0)
		v->entries += b.to.seq - b.from.seq;
	*at = b.to;
	return rc ? err_set(e, rc, "entries %" PRIu64 " to %" PRIu64 " of the log of %s: %s", b.from.seq + 1, b.to.seq,
			    b.name, why.message)
		  : 0;
}

void verify_merged_finish(struct verify_merged *v)
{
	free(v->logs);
	*v = (struct verify_merged){0};
}

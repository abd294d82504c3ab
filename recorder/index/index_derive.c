#include "recorder/index/index_derive.h"

#include "base/err.h"
#include "recorder/format/recording.h"

#include <stdio.h>
#include <string.h>

static int index_derive_fill(struct index_derived *d, const char *path, struct err *e)
{
	const struct recording_info *info = recording_info(d->recording);
	char day[11], id[ID_STR_LEN];

	if (!info->sealed || !recording_day(path, day))
		return err_set(e, ERR_BAD_STATE, "%s is no sealed recording", path);
	id_format(&info->session, id);
	snprintf(d->path, sizeof(d->path), "sealed/%s/%s.mrec", day, id);
	d->row = (struct index_recording){.id = info->session,
					  .open = info->open_json,
					  .exit = info->exit_json,
					  .open_lsn = info->open_seq,
					  .opened_ns = info->wall_ns,
					  .path = d->path};
	for (int i = 0; i < STREAM_COUNT; i++)
		d->row.offsets[i] = info->streams[i].total;
	if (!info->exit_json)
		return 0;
	/* A last block that cannot be read is verify's business: then its end is that of the file. */
	int rc = recording_end(d->recording, &d->row.end_lsn, &d->row.ended_ns, e);
	return rc == ERR_NOMEM ? rc : 0;
}

int index_derive(const char *path, struct index_derived *out, struct err *e)
{
	struct index_derived d = {.recording = NULL};
	int rc = recording_open(path, &d.recording, e);

	if (rc)
		return rc;
	if ((rc = index_derive_fill(&d, path, e)) != 0) {
		recording_close(d.recording);
		return rc;
	}
	*out = d;
	out->row.path = out->path;
	return 0;
}

void index_derived_finish(struct index_derived *d)
{
	recording_close(d->recording);
	d->recording = NULL;
}

void index_digest_root(const struct chain_entry *en, char out[65])
{
	json_t *o = NULL;

	out[0] = '\0';
	if (en->type != CHAIN_DIGEST || chain_entry_json(en, &o))
		return;
	const char *of = json_string_value(json_object_get(o, "of"));
	const char *root = json_string_value(json_object_get(o, "root"));
	if (of && root && strcmp(of, "keyframes") == 0 && strlen(root) == 64)
		memcpy(out, root, 65);
	json_decref(o);
}

int index_put_digest(struct index *ix, const struct chain_entry *en, struct err *e)
{
	char root[65], have[65];

	index_digest_root(en, root);
	/* A session whose recording was erased has no row of it any more, or an empty one. */
	if (!root[0] || index_keyframes(ix, &en->session, have, NULL) || strcmp(have, root) == 0)
		return 0;
	return index_put_keyframes(ix, &en->session, root, e);
}

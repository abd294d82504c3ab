/*
 * workspace_from.h - what a workspace begins with, as a call says it. Pure.
 *
 * "snapshot:ID"; "artifact:TASK/NAME", a tar archive; "bundle:TASK/NAME" or "bundle:TASK/NAME#REF", a bundle of git,
 * whose HEAD is checked out, or REF. A task may have slashes, the name of an artifact has none. Neither task nor name
 * is checked beyond its length: who looks the artifact up does that.
 */
#ifndef MUXD_HUB_BROKER_WORKSPACE_FROM_H
#define MUXD_HUB_BROKER_WORKSPACE_FROM_H

#include "base/ids.h"
#include "control/artifacts/artifacts.h"
#include "muxd/hub/broker/git_export.h"
#include "policy/grant.h"

enum workspace_form { WORKSPACE_NONE, WORKSPACE_SNAPSHOT, WORKSPACE_ARTIFACT, WORKSPACE_BUNDLE };

struct workspace_from {
	enum workspace_form form;
	struct id snapshot; /* of that form alone, as what follows is of the others */
	char task[GRANT_NAME_MAX + 1], name[ARTIFACT_NAME_MAX + 1];
	char ref[GIT_REVISION_MAX + 1]; /* of a bundle; "": its HEAD */
};

/* ERR_INVAL; ERR_UNSUPPORTED: no workspace begins with such a thing. */
int workspace_from_parse(const char *text, struct workspace_from *out, struct err *e);

/* Of an artifact or a bundle, as it was parsed. Returns out. */
#define WORKSPACE_TEXT_SZ (16 + GRANT_NAME_MAX + ARTIFACT_NAME_MAX + GIT_REVISION_MAX)
const char *workspace_from_text(const struct workspace_from *w, char out[WORKSPACE_TEXT_SZ]);

#endif

// tier: check
/*
 * An AdmissionReview from anybody. Only muxd is let through, and others past the sandboxes to a node; every answer is
 * one that can be sent.
 */
#include "base/err.h"
#include "muxd/doors/https/admission.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct admission_rules rules = {
	    .user = "m", .namespace_ = "n", .more = "o,p", .image = "i", .muxlet = "/m"};
	struct admission_verdict v = {0};
	struct err e = {0};
	json_t *answer = NULL;
	int rc = admission_review(data, size, 4096, &rules, &answer, &v, &e);

	if (rc == 0) {
		char *text = json_text(answer);

		if (!text ||
		    (v.allowed && strcmp(v.user, "m") != 0 && strncmp(v.what, "CONNECT nodes/proxy ", 20) != 0))
			abort();
		free(text);
		json_decref(answer);
	} else if (e.code != rc || !e.message[0] || answer) {
		abort();
	}
	return 0;
}

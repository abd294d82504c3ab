/*
 * patch_forms.h - the readers of the three forms, for patch.c. Each begins at r->at, where its form begins, and leaves
 * r->at behind what it read. 0 or -1 with the error.
 */
#ifndef FILES_PATCH_FORMS_H
#define FILES_PATCH_FORMS_H

#include "files/patch_read.h"

bool unified_begins(const struct patch_reader *r, uint32_t line);
int unified_read(struct patch_reader *r);
/* The numbers of "@@ -1,2 +3,4 @@": false when t has none. */
bool unified_numbers(struct patch_text t, uint32_t *out_start, uint32_t *out_old, uint32_t *out_new);

bool envelope_begins(const struct patch_reader *r, uint32_t line);
int envelope_read(struct patch_reader *r);

bool blocks_begin(const struct patch_reader *r, uint32_t line);
/* floor: the first line that may name the file. */
int blocks_read(struct patch_reader *r, uint32_t floor);

#endif

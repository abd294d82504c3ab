/*
 * match_fold.h - the other case of a letter, without a locale: inside a sandbox there may be none.
 *
 * ASCII, Latin-1, Latin Extended-A, Greek, Cyrillic and Armenian, one to one. Values, no state.
 */
#ifndef FILES_MATCH_FOLD_H
#define FILES_MATCH_FOLD_H

#include <stdint.h>

#define FOLD_END 0x590 /* no letter from here on has another case */

/* The other case of a code point; itself where there is none. */
uint32_t fold_other(uint32_t cp);

#endif

/*
 * ignore.h - which paths a walk leaves out: rules as git reads them from .gitignore files (gitignore(5)).
 *
 * A list of rules in order, the last one that matches decides. Owned by whoever walks: add the rules of a directory
 * when entering it, ignore_release() them when leaving. Rules: blank lines and #comments are none; `!` takes back; `/`
 * at the end is for directories; `/` in front or within ties the rule to the directory of its file, else a name at any
 * depth is meant; patterns as in glob.h, without braces. A rule that is no pattern (a [ without ]) matches nothing, as
 * with git.
 */
#ifndef FILES_IGNORE_H
#define FILES_IGNORE_H

#include "files/match.h"

#define IGNORE_RULES_MAX 10000
#define IGNORE_TEXT_MAX  (1u << 20) /* bytes of one file */

struct ignore;

struct ignore *ignore_new(void); /* NULL: no memory */
void ignore_free(struct ignore *list);
/*
 * The rules of one file's text; dir is its directory, relative to the root of the walk ("": the root itself). 0; -1
 * with *err when a bound was passed or there is no memory: the list is as it was.
 */
int ignore_add(struct ignore *list, const char *dir, const char *text, size_t n, struct match_error *err);
size_t ignore_mark(const struct ignore *list);
/* Forgets the rules that were added since the mark. */
void ignore_release(struct ignore *list, size_t mark);
/*
 * Is this path left out, where the directories above it are not? For walks, which do not enter what is left out.
 * MATCH_TOO_COMPLEX, of both: it is not known, for want of memory.
 */
enum match_result ignore_here(struct ignore *list, const char *path, size_t n, bool is_dir);
/* Is this path left out, or one of the directories above it? Nothing takes back what a directory above leaves out. */
enum match_result ignore_path(struct ignore *list, const char *path, size_t n, bool is_dir);

#endif

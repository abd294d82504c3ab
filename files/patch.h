/*
 * patch.h - patches as people's tools and coding models write them: read into operations, applied to contents.
 *
 * Three forms, also one behind the other in one text, in a ``` fence, with prose around them (docs/files.md has
 *examples):
 *
 *	unified   `diff -u` and `git diff`: names with or without a/ and b/, /dev/null, renames, copies, modes, quoted
 *names. Counts in @@ lines may be wrong or missing, numbers may be off. envelope  `*** Begin Patch`, then `*** Update
 *File:`, `*** Add File:`, `*** Delete File:`, `*** Move to:`, `@@ text` (a line to be found first), `*** End of File`,
 *`*** End Patch`. blocks	  `<<<<<<< SEARCH`, `=======`, `>>>>>>> REPLACE`, the file named in the line before.
 *
 * Where a hunk goes: to the line that it names if its old lines stand there; else to the one place where they stand.
 * First lines are compared whole, then, if nothing was found, without white space at their ends. What is neither found
 * nor found once is refused: nothing is guessed. Line ends ("\r\n") are no difference, and new lines take those of the
 * lines around them. Hunks of one operation are all placed in the content as it was, and may not overlap.
 *
 * Pure: no file is opened, no path is followed. All or nothing over several files is the caller's: apply each operation
 * in memory, in order (one may change what another made), then write. A patch is one allocation tree, owned by who
 * parsed it; it keeps a copy of its text. Work is bounded: behind the bound the error is PATCH_TOO_COMPLEX.
 */
#ifndef FILES_PATCH_H
#define FILES_PATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATCH_TEXT_MAX  (4u << 20)   /* bytes */
#define PATCH_LINES_MAX 500000       /* of a patch */
#define PATCH_FILE_MAX  (16u << 20)  /* bytes, before and after */
#define PATCH_OPS_MAX   1000         /* files */
#define PATCH_HUNKS_MAX 20000        /* of all files */
#define PATCH_PATH_MAX  4095         /* bytes */
#define PATCH_WORK      400000000ull /* comparisons of two lines, for one operation */
#define PATCH_QUOTE     160          /* bytes of a line in an error */

enum patch_kind { PATCH_UPDATE, PATCH_ADD, PATCH_DELETE };
enum patch_form { PATCH_UNIFIED, PATCH_ENVELOPE, PATCH_BLOCKS };

enum patch_code {
	PATCH_OK,
	PATCH_NONE,        /* no patch in the text */
	PATCH_MALFORMED,   /* `line` of the patch is not what has to stand there */
	PATCH_UNSUPPORTED, /* a binary patch, a combined diff */
	PATCH_TOO_LARGE,   /* one of the bounds above */
	PATCH_TOO_COMPLEX,
	PATCH_NOT_FOUND, /* the old lines stand nowhere; `near` is the place most like them */
	PATCH_AMBIGUOUS, /* they stand at `near` and at `other` */
	PATCH_OVERLAP,   /* two hunks change the same lines */
	PATCH_REMAINS,   /* what is to be deleted has lines that the patch does not delete */
	PATCH_NO_MEMORY
};

struct patch_error {
	enum patch_code code;
	uint32_t hunk;        /* of the operation, from 1; 0: none */
	uint32_t line;        /* of the patch, from 1; 0: none */
	uint32_t near, other; /* lines of the file, from 1; 0: none */
	uint32_t differs;     /* NOT_FOUND: the first line of the file, from `near` on, that is not as expected; 0 */
	bool done;            /* NOT_FOUND: the new lines stand at `near`: the change may have been made already */
	char expected[PATCH_QUOTE]; /* that line in the patch, as text for people (content_quote); "" */
	char found[PATCH_QUOTE];    /* and in the file; "" also at the file's end */
	char why[4 * PATCH_QUOTE];  /* all of it as a sentence without the path */
};

/* One operation on one file. */
struct patch_op {
	enum patch_kind kind;
	enum patch_form form;
	char *path;                 /* as the patch has it, without a/ and b/; bytes; never empty */
	char *to;                   /* its new path; NULL: stays */
	bool copy;                  /* `path` stays as well */
	unsigned mode;              /* file mode to set, 0: none was told */
	uint32_t line;              /* of the patch, where the operation begins, from 1 */
	uint32_t first_hunk, hunks; /* of patch->hunks; none: the content stays */
};

struct patch_line {
	const char *p; /* without its end */
	uint32_t n, number;
	char sign; /* ' ', '-' or '+' */
	bool cr, no_newline;
};

struct patch_hunk {
	uint32_t first_line, lines;     /* of patch->lines */
	uint32_t number;                /* line of the patch */
	uint32_t start;                 /* the line of the old file it says it begins at (adding alone: goes behind) */
	bool has_start, at_end;         /* at_end: the old lines are the last of the file */
	uint32_t first_anchor, anchors; /* lines to be found first, one behind the other: of patch->anchors */
};

struct patch {
	struct patch_op *ops;
	struct patch_hunk *hunks;
	struct patch_line *lines, *anchors;
	uint32_t n_ops, n_hunks, n_lines, n_anchors;
	char *text;
};

/* 0 with *out_patch, which has one operation at least; -1 with *err. */
int patch_parse(const char *text, size_t n, struct patch **out_patch, struct patch_error *err);
void patch_free(struct patch *p); /* NULL allowed */
/*
 * What the operation makes of a content (ADD: of nothing; that nothing is there is for the caller to look): *out is
 * malloc'd, with a NUL behind its *out_n bytes. DELETE: the content has to be what the patch deletes, and *out is
 * empty. 0, or -1 with *err.
 */
int patch_apply(const struct patch *p, uint32_t op, const char *content, size_t n, char **out, size_t *out_n,
		struct patch_error *err);
/* "not_found", "ambiguous", ...: a stable name. */
const char *patch_code_name(enum patch_code code);

#endif

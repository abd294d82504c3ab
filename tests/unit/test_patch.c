// tier: check
/* Patches of three forms: what they are read as, what they make of a content, how they are refused; and as diff and git
 * have it. */
#include "files/patch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct patch *parsed(const char *text)
{
	struct patch_error err;
	struct patch *p = NULL;

	if (patch_parse(text, strlen(text), &p, &err) < 0)
		fail_msg("%s\nrefused: %s", text, err.why);
	return p;
}

/* --- what a patch is read as */

/* One line for each operation: "update a/b -> c (2 hunks, mode 755)". */
static void told(const struct patch *p, char *out)
{
	static const char *const kinds[] = {"update", "add", "delete"};

	*out = 0;
	for (uint32_t i = 0; i < p->n_ops; i++) {
		const struct patch_op *op = &p->ops[i];

		out += sprintf(out, "%s %s", kinds[op->kind], op->path);
		if (op->to)
			out += sprintf(out, " %s %s", op->copy ? "copied" : "to", op->to);
		if (op->mode)
			out += sprintf(out, " mode %o", op->mode);
		out += sprintf(out, " %u\n", op->hunks);
	}
}

static void test_operations(void **state)
{
	static const struct {
		const char *text, *want;
	} table[] = {
	    {"--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-a\n+b\n", "update x.c 1\n"},
	    {"--- x.c\n+++ x.c\n@@ -1 +1 @@\n-a\n+b\n", "update x.c 1\n"},
	    {"--- a/x\n+++ a/x\n@@ -1 +1 @@\n-a\n+b\n", "update a/x 1\n"},
	    {"--- x.c.orig\t2020-01-01 10:00:00\n+++ x.c\t2020-01-01\n@@ -1 +1 @@\n-a\n+b\n", "update x.c 1\n"},
	    {"--- i/x y.c\n+++ w/x y.c\n@@ -1 +1 @@\n-a\n+b\n", "update x y.c 1\n"},
	    {"--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+b\n", "add n 1\n"},
	    {"--- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n", "delete o 1\n"},
	    {"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "update x mode 755 0\n"},
	    {"diff --git a/x b/y z\nsimilarity index 100%\nrename from x\nrename to y z\n", "update x to y z 0\n"},
	    {"diff --git a/x b/y\nsimilarity index 90%\ncopy from x\ncopy to y\nindex 1..2 100644\n--- a/x\n+++ "
	     "b/y\n@@ -1 +1 @@\n-a\n+b\n",
	     "update x copied y 1\n"},
	    {"diff --git a/e m b/e m\nnew file mode 100755\nindex 0000000..e69de29\n", "add e m mode 755 0\n"},
	    {"diff --git a/e b/e\ndeleted file mode 100644\nindex e69de29..0000000\n", "delete e 0\n"},
	    {"diff --git \"a/\\303\\251\\t.txt\" \"b/\\303\\251\\t.txt\"\nindex 1..2 100644\n--- "
	     "\"a/\\303\\251\\t.txt\"\n+++ \"b/\\303\\251\\t.txt\"\n@@ -1 "
	     "+1 @@\n-a\n+b\n",
	     "update é\t.txt 1\n"},
	    {"diff --git \"a/\\\"q\" \"b/\\\"q\"\nnew file mode 100644\n", "add \"q mode 644 0\n"},
	    {"From 123\nSubject: x\n---\n x | 2 +-\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@ int "
	     "main\n-a\n+b\n-- \n2.39.2\n",
	     "update x 1\n"},
	    {"Here you are:\n```diff\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n```\nand:\n```diff\n--- a/y\n+++ b/y\n@@ "
	     "... @@\n a\n+b\n```\nDone.\n",
	     "update x 1\nupdate y 1\n"},
	    {"*** Begin Patch\n*** Add File: n.py\n+a\n+\n+b\n*** Update File: u.py\n*** Move to: v.py\n@@ def "
	     "f():\n-a\n+b\n*** Delete File: "
	     "d.py\n*** End Patch\n",
	     "add n.py 1\nupdate u.py to v.py 1\ndelete d.py 0\n"},
	    {"apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: u\n a\n-b\n+c\n@@\n-x\n+y\n*** End of File\n*** "
	     "End Patch\nEOF\n",
	     "update u 2\n"},
	    {"src/a.py\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", "update src/a.py 1\n"},
	    {"**src/a.py**:\n\n```python\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```\n",
	     "update src/a.py 1\n"},
	    {"```\nFile: `a.py`\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n\n<<<<<<< SEARCH\nc\n=======\n>>>>>>> "
	     "REPLACE\n```",
	     "update a.py 2\n"},
	    {"a\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\nb\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n",
	     "update a 1\nupdate b 1\n"},
	    {"n.py\n<<<<<<< SEARCH\n=======\nb\n>>>>>>> REPLACE\n", "add n.py 1\n"},
	    {"<<<<<<< SEARCH n.py\na\n=======\nb\n>>>>>>> REPLACE\n", "update n.py 1\n"},
	};
	char got[4096];

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct patch *p = parsed(table[i].text);

		told(p, got);
		if (strcmp(got, table[i].want) != 0)
			fail_msg("%s\nis\n%snot\n%s", table[i].text, got, table[i].want);
		patch_free(p);
	}
}

static void test_malformed(void **state)
{
	static const struct {
		const char *text, *part;
		enum patch_code code;
		uint32_t line;
	} table[] = {
	    {"", "no patch found", PATCH_NONE, 0},
	    {"just words\n", "no patch found", PATCH_NONE, 0},
	    {"@@ -1 +1 @@\n-a\n+b\n", "without the names of its file", PATCH_MALFORMED, 1},
	    {"--- a/x\n+++ b/x\n", "an @@ line has to follow", PATCH_MALFORMED, 3},
	    {"--- a/x\n+++ b/x\n@@ -1 +1 @@\n", "a hunk without lines", PATCH_MALFORMED, 3},
	    {"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\nno space\n-b\n", "begins with a space, + or -", PATCH_MALFORMED,
	     5},
	    {"--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "the two names differ", PATCH_MALFORMED, 1},
	    {"--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "both names", PATCH_MALFORMED, 1},
	    {"--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n a\n+b\n", "+ alone", PATCH_MALFORMED, 3},
	    {"--- a/x\n+++ b/x\n@@ -3,6 +3,7 @@\n+b\n", "write lines of context", PATCH_MALFORMED, 3},
	    {"--- \"a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "not well formed", PATCH_MALFORMED, 1},
	    {"--- \"a/\\30\xcf\"\n+++ \"b/x\"\n@@ -1 +1 @@\n-a\n+b\n", "not well formed", PATCH_MALFORMED, 1},
	    {"--- \"a/\\9\"\n+++ \"b/x\"\n@@ -1 +1 @@\n-a\n+b\n", "not well formed", PATCH_MALFORMED, 1},
	    {"diff --git a/x b/yy\nindex 1..2\n", "two names that differ", PATCH_MALFORMED, 1},
	    {"diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 3\n", "binary", PATCH_UNSUPPORTED, 3},
	    {"Binary files a/x and b/x differ\n", "binary", PATCH_UNSUPPORTED, 1},
	    {"diff --cc x\n--- a/x\n+++ b/x\n@@@ -1,1 -1,1 +1,1 @@@\n  a\n", "combined diffs", PATCH_UNSUPPORTED, 4},
	    {"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n",
	     "symbolic links", PATCH_UNSUPPORTED, 2},
	    {"*** Begin Patch\n*** Add File: x\n+a\n", "without *** End Patch: was it cut off?", PATCH_MALFORMED, 1},
	    {"*** Begin Patch\n*** Add File: x\na\n*** End Patch\n", "begins with +", PATCH_MALFORMED, 3},
	    {"*** Begin Patch\n*** Add File:\n+a\n*** End Patch\n", "no path", PATCH_MALFORMED, 2},
	    {"*** Begin Patch\n*** Update File: x\nfoo\n*** End Patch\n", "begins with a space", PATCH_MALFORMED, 3},
	    {"*** Begin Patch\n*** Update File: x\n*** End Patch\n", "without hunks", PATCH_MALFORMED, 2},
	    {"*** Begin Patch\nfoo\n*** End Patch\n", "expected *** Update File:", PATCH_MALFORMED, 2},
	    {"*** Begin Patch\n*** End Patch\n", "no patch found", PATCH_NONE, 0},
	    {"*** Update File: x\n-a\n", "no *** Begin Patch", PATCH_MALFORMED, 1},
	    {"<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", "no file is named", PATCH_MALFORMED, 1},
	    {"x\n<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n", "without =======", PATCH_MALFORMED, 2},
	    {"x\n<<<<<<< SEARCH\na\n=======\nb\n", "without >>>>>>> REPLACE", PATCH_MALFORMED, 2},
	    {"x\n<<<<<<< SEARCH\nTitle\n=======\nt\n=======\nb\n>>>>>>> REPLACE\n", "a second =======", PATCH_MALFORMED,
	     6},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct patch_error err = {.code = PATCH_OK};
		struct patch *p = NULL;
		int rc = patch_parse(table[i].text, strlen(table[i].text), &p, &err);

		if (err.code != table[i].code || (rc == 0) != (table[i].code == PATCH_OK) ||
		    err.line != table[i].line || !strstr(err.why, table[i].part))
			fail_msg("%s\n%s, line %u: %s", table[i].text, patch_code_name(err.code), err.line, err.why);
		if (rc == 0)
			patch_free(p);
	}
}

/* --- what it makes of a content */

struct fits {
	const char *patch, *content, *want;
};

#define U "--- a/x\n+++ b/x\n"
#define E "*** Begin Patch\n*** Update File: x\n"
#define Z "*** End Patch\n"
#define S "x\n<<<<<<< SEARCH\n"
#define R ">>>>>>> REPLACE\n"

static void test_fits(void **state)
{
	static const struct fits table[] = {
	    /* unified */
	    {U "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "a\nb\nc\n", "a\nB\nc\n"},
	    {U "@@ -1,3 +1,4 @@\n a\n b\n+x\n c\n@@ -8,2 +9,1 @@\n h\n-i\n", "a\nb\nc\nd\ne\nf\ng\nh\ni\n",
	     "a\nb\nx\nc\nd\ne\nf\ng\nh\n"},
	    {U "@@ -40,3 +40,3 @@\n a\n-b\n+B\n c\n", "0\n0\na\nb\nc\n", "0\n0\na\nB\nc\n"}, /* number off */
	    {U "@@ -1,9 +1,2 @@\n a\n-b\n+B\n c\n", "a\nb\nc\n", "a\nB\nc\n"},               /* counts wrong */
	    {U "@@ -1,1 +1,1 @@\n a\n-b\n+B\n c\n", "a\nb\nc\n", "a\nB\nc\n"},               /* too small */
	    {U "@@ @@\n a\n-b\n+B\n", "a\nb\nc\n", "a\nB\nc\n"},                             /* missing */
	    {U "@@\n-b\n+B\n", "a\nb\nc\n", "a\nB\nc\n"},
	    {U "@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n", "a\n\nb\n", "a\n\nB\n"}, /* empty context without its space */
	    {U "@@ -1,3 +1,3 @@\n a\n-b\n+B\n\n", "a\nb\n\n", "a\nB\n\n"},
	    {U "@@ -1,2 +1,2 @@\n a\n-b\n+B\n\n\n", "a\nb\nc\n", "a\nB\nc\n"}, /* empty lines behind it */
	    {U "@@ -1,2 +1,2 @@\n a  \n-b\n+B\n", "a\nb \n", "a\nB\n"},        /* white space at ends */
	    {U "@@ -2,1 +2,1 @@\n-b\n+B\n", "b\nb\nb\n", "b\nB\nb\n"},         /* its number says which */
	    {U "@@ -1,1 +1,2 @@\n a\n+A\n@@ -3,1 +4,2 @@\n b\n+B\n", "0\na\n0\nb\n0\nb\n",
	     "0\na\nA\n0\nb\nB\n0\nb\n"}, /* as far off as the first */
	    {U "@@ -0,0 +1,2 @@\n+a\n+b\n", "c\n", "a\nb\nc\n"},
	    {U "@@ -1,0 +2,1 @@\n+b\n", "a\nc\n", "a\nb\nc\n"},
	    {U "@@ -1 +1 @@\n--- a\n+++ b\n", "-- a\n", "++ b\n"}, /* lines that look like names */
	    {U "@@ -1,2 +1,1 @@\n-a\n-b\n+c\n", "a\nb\n", "c\n"},
	    {U "@@ -1,2 +0,0 @@\n-a\n-b\n", "a\nb\n", ""},
	    {U "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n", "a", "b\n"},
	    {U "@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n", "a\n", "b"},
	    {U "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n", "a", "b"},
	    {U "@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n", "a", "a\nb\n"},
	    {U "@@ -1 +1,2 @@\n a\n+b\n", "a", "a\nb\n"},
	    {U "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", "a\r\nb\r\n", "a\r\nB\r\n"}, /* the file has CRLF */
	    {U "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+B\r\n", "a\r\nb\r\n", "a\r\nB\r\n"},
	    {U "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+b\n", "a\r\nb\r\n", "a\r\nb\n"}, /* it changes the end */
	    {"--- a/x\r\n+++ b/x\r\n@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+B\r\n", "a\nb\n",
	     "a\nB\n"}, /* the patch came with CRLF */
	    {U "@@ -1,0 +2 @@\n+b\n", "a\r\n", "a\r\nb\r\n"},
	    {"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "a\n", "a\n"},
	    {"--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n", NULL, "a\nb"},
	    {"--- a/x\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n", "a\nb\n", ""},
	    /* envelope */
	    {E "@@\n a\n-b\n+B\n" Z, "a\nb\nc\n", "a\nB\nc\n"},
	    {E "@@ def g():\n-  x\n+  y\n" Z, "def f():\n  x\ndef g():\n  x\ndef h():\n  x\n",
	     "def f():\n  x\ndef g():\n  y\ndef h():\n  x\n"},
	    {E "@@ class B\n@@   def f():\n-    x\n+    y\n" Z,
	     "class A\n  def f():\n    x\nclass B\n  def f():\n    x\n",
	     "class A\n  def f():\n    x\nclass B\n  def f():\n    y\n"},
	    {E "@@ def g():\n def g():\n-  x\n+  y\n" Z, "def f():\n  x\ndef g():\n  x\n",
	     "def f():\n  x\ndef g():\n  y\n"},
	    {E "@@ def g\n+  y\n" Z, "def f():\ndef g():\n  x\n", "def f():\ndef g():\n  y\n  x\n"},
	    {E "@@\n-x\n+y\n*** End of File\n" Z, "x\na\nx\n", "x\na\ny\n"},
	    {E "+z\n" Z, "a\n", "a\nz\n"},
	    {E "+z\n" Z, "a", "a\nz"},
	    {E "@@\n-b\n+B\n" Z, "a\nb", "a\nB"},
	    {E "@@ -2,1 +2,1 @@\n-b\n+B\n" Z, "b\nb\n", "b\nB\n"},
	    {"*** Begin Patch\n*** Add File: x\n+a\n\n+b\n\n" Z, NULL, "a\n\nb\n"},
	    {"*** Begin Patch\r\n*** Add File: x\r\n+a\r\n*** End Patch\r\n", NULL, "a\n"},
	    {"*** Begin Patch\n*** Delete File: x\n" Z, "a\nb\n", ""},
	    {E "*** Move to: y\n" Z, "a\n", "a\n"},
	    /* blocks */
	    {S "b\n=======\nB\n" R, "a\nb\nc\n", "a\nB\nc\n"},
	    {S "b\n=======\n" R, "a\nb\nc\n", "a\nc\n"},
	    {S "c\n=======\nC\n" R S "a\n=======\nA\n" R, "a\nb\nc\n", "A\nb\nC\n"}, /* any order */
	    {S "a\n\nb\n=======\nx\n\ny\n" R, "a\n\nb\n", "x\n\ny\n"},
	    {S "b\n=======\nB\n" R, "a\r\nb\r\n", "a\r\nB\r\n"},
	    {S "b\n=======\nB\nC\n" R, "a\nb", "a\nB\nC"},
	    {S "=======\na\nb\n" R, NULL, "a\nb\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct patch *p = parsed(table[i].patch);
		const char *content = table[i].content;
		struct patch_error err;
		char *out = NULL;
		size_t n = 0;

		assert_int_equal(p->n_ops, 1);
		if (patch_apply(p, 0, content, content ? strlen(content) : 0, &out, &n, &err) < 0)
			fail_msg("%s\non\n%s: %s", table[i].patch, content, err.why);
		if (n != strlen(table[i].want) || strcmp(out, table[i].want) != 0)
			fail_msg("%s\non\n%s\ngives\n%s\nnot\n%s", table[i].patch, content, out, table[i].want);
		free(out);
		patch_free(p);
	}
}

static void test_refused(void **state)
{
	static const struct {
		const char *patch, *content;
		enum patch_code code;
		uint32_t hunk, line, near, other, differs;
		const char *why;
	} table[] = {
	    {U "@@ -9 +9 @@\n-b\n+B\n", "a\nb\nc\nb\n", PATCH_AMBIGUOUS, 1, 3, 2, 4, 0, "fits at line 2 and at line 4"},
	    {S "b\n=======\nB\n" R, "b\nb\n", PATCH_AMBIGUOUS, 1, 2, 1, 2, 0, "fits at line 1 and at line 2"},
	    {E "@@ def f\n-  x\n+  y\n" Z, "def f\n  x\ndef f\n  x\n", PATCH_AMBIGUOUS, 1, 3, 2, 4, 0,
	     "line 2 and at line 4"},
	    {E "@@ def f\n+  y\n" Z, "def f\n  x\ndef f\n  x\n", PATCH_AMBIGUOUS, 1, 3, 0, 0, 0, "more than once"},
	    {E "@@ def q\n-  x\n+  y\n" Z, "def f\n  x\n", PATCH_NOT_FOUND, 1, 3, 0, 0, 0,
	     "names a line behind @@ that is not in the file: \"def q\""},
	    {U "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n", "zero\none\ntwo\nthree and\n", PATCH_NOT_FOUND, 1, 7, 2, 0,
	     4, "Nearest is line 2: line 4 there is \"three and\", expected \"three\""},
	    {U "@@ -1,2 +1,2 @@\n def f():\n-  return 1\n+  return 2\n", "x\ndef f():\n    return 1\n", PATCH_NOT_FOUND,
	     1, 5, 2, 0, 3, "line 3 there is \"    return 1\", expected \"  return 1\""},
	    {U "@@ -1,2 +1,2 @@\n b\n-c\n+d\n", "a\nb\n", PATCH_NOT_FOUND, 1, 5, 2, 0, 0, "the file ends before \"c\""},
	    {U "@@ -1 +1 @@\n-int value = 1;\n+int value = 2;\n", "a\nint value = 3;\n", PATCH_NOT_FOUND, 1, 4, 2, 0, 2,
	     "there is \"int value = 3;\""},
	    {U "@@ -1 +1 @@\n-something\n+else\n", "a\n", PATCH_NOT_FOUND, 1, 3, 0, 0, 0,
	     "nothing in the file is like its first line \"something\""},
	    {U "@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "x\na\nc\n", PATCH_NOT_FOUND, 1, 3, 2, 0, 0, "may have been applied"},
	    {U "@@ -1,2 +1,2 @@\n a\n-b\n+c\n@@ -1,2 +1,2 @@\n a\n-b\n+d\n", "a\nb\n", PATCH_OVERLAP, 2, 7, 1, 0, 0,
	     "which hunk 1 changes too"},
	    {U "@@ -9,0 +9 @@\n+c\n", "a\nb\n", PATCH_NOT_FOUND, 1, 3, 0, 0, 0,
	     "adds behind line 9, and the file has 2 lines"},
	    {"--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "a\nb\n", PATCH_REMAINS, 0, 0, 0, 0, 0, "2 bytes remain"},
	    {U "@@ -1 +1 @@\n-a\xff\x1b[31m\n+b\n", "a\xff\x1b[31m2\n", PATCH_NOT_FOUND, 1, 4, 1, 0, 1,
	     "is \"a??[31m2\", expected \"a??[31m\""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct patch *p = parsed(table[i].patch);
		struct patch_error e;
		char *out = NULL;
		size_t n;

		if (patch_apply(p, 0, table[i].content, strlen(table[i].content), &out, &n, &e) == 0)
			fail_msg("%s\nfits: %s", table[i].patch, out);
		if (e.code != table[i].code || e.hunk != table[i].hunk || e.line != table[i].line ||
		    e.near != table[i].near || e.other != table[i].other || e.differs != table[i].differs ||
		    !strstr(e.why, table[i].why))
			fail_msg("%s\n%s, hunk %u, line %u, near %u, other %u, differs %u: %s", table[i].patch,
				 patch_code_name(e.code), e.hunk, e.line, e.near, e.other, e.differs, e.why);
		patch_free(p);
	}
}

/* --- bounds */

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static char *repeated(const char *head, const char *part, size_t times)
{
	size_t n = strlen(part);
	char *out = malloc(strlen(head) + n * times + 1), *at = out + strlen(head);

	assert_non_null(out);
	strcpy(out, head);
	for (size_t i = 0; i < times; i++, at += n)
		memcpy(at, part, n + 1);
	return out;
}

/* Lines that are all equal, hunks that nearly fit everywhere: an answer in seconds, whichever. */
static void test_hostile_patches_end(void **state)
{
	static const struct {
		const char *head, *part;
		size_t times;
		const char *line;
		size_t lines;
	} table[] = {
	    {U "@@ -1,9 +1,9 @@\n", " a\n", 200000, "a\n", 1000000},
	    {U "@@ -1,9 +1,9 @@\n-b\n", " a\n", 200000, "a\n", 4000000},
	    {U "@@\n", " \n", 400000, "\n", 16000000},
	    {U, "@@ -1 +1 @@\n-a\n+b\n", 19000, "a\n", 1000000},
	    {U, "@@\n-a\n-b\n+c\n", 19000, "a\n", 1000000},
	    {"", S "a\nb\n=======\nb\n" R, 15000, "a\n", 1000000},
	    {U "@@ -1 +1 @@\n-a\n+b\n", "\n", 400000, "a\n", 10},
	    {E, "@@ a\n", 19000, "a\n", 100000},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char *text = repeated(table[i].head, table[i].part, table[i].times);
		char *content = repeated("", table[i].line, table[i].lines), *out = NULL;
		double from = seconds();
		struct patch_error err;
		struct patch *p = NULL;
		size_t n;

		if (patch_parse(text, strlen(text), &p, &err) == 0) {
			if (patch_apply(p, 0, content, strlen(content), &out, &n, &err) == 0)
				free(out);
			patch_free(p);
		}
		if (seconds() - from > 20)
			fail_msg("%zu: %.1f s", i, seconds() - from);
		free(text);
		free(content);
	}
}

static void test_bounds(void **state)
{
	struct patch_error err;
	struct patch *p = NULL;
	char *out = NULL;
	size_t n;
	char *large = repeated("", "x\n", PATCH_TEXT_MAX / 2 + 1);

	(void)state;
	assert_int_equal(patch_parse(large, strlen(large), &p, &err), -1);
	assert_int_equal(err.code, PATCH_TOO_LARGE);
	free(large);
	large = repeated("", "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+b\n", PATCH_OPS_MAX + 1);
	assert_int_equal(patch_parse(large, strlen(large), &p, &err), -1);
	assert_int_equal(err.code, PATCH_TOO_LARGE);
	free(large);
	large = repeated("", "0123456789abcdef", PATCH_FILE_MAX / 16 + 1);
	p = parsed(U "@@ -1 +1 @@\n-a\n+b\n");
	assert_int_equal(patch_apply(p, 0, large, strlen(large), &out, &n, &err), -1);
	assert_int_equal(err.code, PATCH_TOO_LARGE);
	patch_free(p);
	free(large);
}

/* --- as diff and git have it: what they say is the difference makes one of the other */

static unsigned seed = 11;

static unsigned any(unsigned n)
{
	return (unsigned)rand_r(&seed) / 7 % n;
}

static void random_content(char *out, size_t lines, bool cr, unsigned alphabet)
{
	for (size_t i = 0; i < lines; i++)
		out += sprintf(out, "%.*s%c%s", (int)any(3), "  ", 'a' + any(alphabet), cr ? "\r\n" : "\n");
	if (lines && any(4) == 0)
		out[cr ? -2 : -1] = 0;
}

/* Some lines of `from` are left out, some changed, some added. */
static void random_change(const char *from, char *out)
{
	while (*from) {
		size_t n = strcspn(from, "\n") + 1;

		n -= n && !from[n - 1];
		switch (any(12)) {
		case 0:
			break;
		case 1:
			out += sprintf(out, "%c\n", 'A' + any(26));
			break;
		case 2:
			out += sprintf(out, "-- %c\n%.*s", 'A' + any(26), (int)n, from);
			break;
		default:
			out += sprintf(out, "%.*s", (int)n, from);
		}
		from += n;
	}
	*out = 0;
}

static void write_file(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
	assert_int_equal(fclose(f), 0);
}

static size_t read_file(const char *name, char *out, size_t size)
{
	FILE *f = fopen(name, "r");

	if (!f)
		return 0;
	size_t n = fread(out, 1, size - 1, f);
	out[n] = 0;
	assert_int_equal(fclose(f), 0);
	return n;
}

static int run(const char *command)
{
	int rc = system(command);

	if (rc < 0 || rc > 1 << 8)
		fail_msg("%s: %d", command, rc);
	return rc;
}

static void enter(char *dir)
{
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chdir(dir), 0);
}

static void leave(const char *dir)
{
	char command[128];

	assert_int_equal(chdir("/"), 0);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	assert_int_equal(run(command), 0);
}

static void test_as_diff(void **state)
{
	static const char *const commands[] = {"diff -u x y > p", "diff -u0 x y > p",
					       "git diff --no-index --no-color -U1 x y > p",
					       "git diff --no-index --no-color --ignore-cr-at-eol x y > p"};
	static char x[65536], y[65536], text[262144];
	char dir[] = "/tmp/test_patch.XXXXXX";

	(void)state;
	enter(dir);
	for (int i = 0; i < 160; i++) {
		struct patch_error err;
		char *out = NULL;
		size_t n;

		x[0] = 0;
		random_content(x, any(60), i % 5 == 0 && i % 3 != 1, 3 + any(20));
		random_change(x, y);
		write_file("x", x);
		write_file("y", y);
		run(commands[i % 3]);
		n = read_file("p", text, sizeof(text));
		if (n == 0)
			continue;
		/* Both names are one file's, for the operation. */
		char *names = strstr(text, "+++ ");
		struct patch *p = NULL;
		if (!names)
			continue;
		memcpy(names + (names[5] == '/' ? 6 : 4), "x", 1);
		if (names[4] == 'b')
			memcpy(names + 6, "x", 1);
		if (strncmp(text, "diff --git", 10) == 0) { /* "diff --git a/x b/y" */
			char *second = strstr(text, " b/y");

			assert_non_null(second);
			second[3] = 'x';
		}
		if (patch_parse(text, n, &p, &err) < 0)
			fail_msg("%s\n%s", text, err.why);
		if (patch_apply(p, 0, x, strlen(x), &out, &n, &err) < 0)
			fail_msg("%s\non\n%s\n%s", text, x, err.why);
		if (strcmp(out, y) != 0) {
			size_t at = 0;

			while (out[at] == y[at])
				at++;
			fail_msg("%s\ngives, from byte %zu on,\n%s\nnot\n%s", text, at, out + at, y + at);
		}
		free(out);
		patch_free(p);
	}
	leave(dir);
}

/*
 * On a content that is not the one the patch was made for: whenever both take it, both make the same of it. git takes
 * fewer: hunks at a beginning or an end have to be at those of the file.
 */
static void test_as_git_apply(void **state)
{
	static char x[65536], y[65536], z[65536], text[262144], theirs[65536];
	char dir[] = "/tmp/test_patch.XXXXXX";
	int both = 0, ours = 0, git = 0;

	(void)state;
	enter(dir);
	assert_int_equal(run("mkdir a b"), 0);
	for (int i = 0; i < 120; i++) {
		struct patch_error err;
		struct patch *p = NULL;
		char *out = NULL;
		size_t n;

		x[0] = 0;
		random_content(x, 20 + any(40), false, 26);
		strcat(x, "");
		random_change(x, y);
		/* Lines above that shift it, seldom a change inside. */
		size_t shift = any(5), at = 0;
		for (size_t k = 0; k < shift; k++)
			at += (size_t)sprintf(z + at, "new %zu\n", k);
		if (any(3))
			strcpy(z + at, x);
		else
			random_change(x, z + at);
		write_file("a/x", x);
		write_file("b/x", y);
		run("diff -u a/x b/x > p");
		write_file("x", z);
		n = read_file("p", text, sizeof(text));
		if (n == 0)
			continue;
		bool git_fits = run("git apply -p1 --whitespace=nowarn p 2>/dev/null") == 0;
		read_file("x", theirs, sizeof(theirs));
		if (patch_parse(text, n, &p, &err) < 0)
			fail_msg("%s\n%s", text, err.why);
		bool fits = patch_apply(p, 0, z, strlen(z), &out, &n, &err) == 0;
		ours += fits;
		git += git_fits;
		both += fits && git_fits;
		if (fits && git_fits && strcmp(out, theirs) != 0)
			fail_msg("%s\non\n%s\ngives\n%s\nand git's\n%s", text, z, out, theirs);
		if (fits)
			free(out);
		patch_free(p);
	}
	leave(dir);
	if (both < 25 || ours < git)
		fail_msg("both %d, ours %d, git's %d", both, ours, git);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_operations), cmocka_unit_test(test_malformed),
	    cmocka_unit_test(test_fits),       cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_bounds),     cmocka_unit_test(test_hostile_patches_end),
	    cmocka_unit_test(test_as_diff),    cmocka_unit_test(test_as_git_apply),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

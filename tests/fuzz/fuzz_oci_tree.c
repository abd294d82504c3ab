// tier: check
/* Names of an image's layers: none in the tree has a part that leads anywhere, and what has one is what it says. */
#include "control/archive/oci_tree.c"
#include "control/archive/walk.c"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool is_so)
{
	if (!is_so)
		abort();
}

static void must_be_inside(const struct oci_node *in, unsigned depth)
{
	must(depth <= OCI_DEPTH_MAX);
	for (const struct oci_node *n = in->children; n; n = n->hh.next) {
		must(*n->name && !strchr(n->name, '/') && strcmp(n->name, ".") != 0 && strcmp(n->name, "..") != 0);
		must(strncmp(n->name, WHITEOUT, WHITEOUT_LEN) != 0 || n->kind == OCI_DIR);
		must((n->kind == OCI_FILE) == (n->inode != NULL) && (n->kind == OCI_LINK) == (n->target != NULL));
		must(n->kind == OCI_DIR || !n->children);
		must_be_inside(n, depth + 1);
	}
}

/* One letter of what comes, then its name, up to NUL; of a link another one. */
static void names(char *at, const char *end)
{
	static const char kinds[] = "dflhw+";
	struct oci_tree t;
	struct err e = {0};

	oci_tree_begin(&t, 100, NULL, NULL);
	t.layer = 1;
	for (char *next; at + 2 < end; at = next) {
		char *name = at + 1;
		bool is = false;

		next = name + strnlen(name, (size_t)(end - name)) + 1;
		switch (kinds[(unsigned char)*at % 6]) {
		case 'd':
			(void)oci_tree_dir(&t, name, 0, &e);
			break;
		case 'f':
			if (oci_tree_whiteout(&t, name, &is, &e) == 0 && !is)
				(void)oci_tree_file(&t, name, 1, &e);
			break;
		case 'l':
			(void)oci_tree_link(&t, name, "../x", &e);
			break;
		case 'h':
			(void)oci_tree_hard(&t, "hard", name, &e);
			break;
		case 'w':
			(void)oci_tree_whiteout(&t, name, &is, &e);
			break;
		default:
			t.layer++;
		}
	}
	must_be_inside(&t.root, 0);
	oci_tree_finish(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	must(text);
	memcpy(text, data, size);
	text[size] = '\0';
	names(text, text + size);
	free(text);
	return 0;
}

/* Values of sandbox.images. */
#include "base/conf_table.h"

#include "base/err.h"
#include "base/list.h"

#include <stdlib.h>
#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

int conf_check_image_name(const char *value, struct err *e)
{
	size_t n = strlen(value);

	if (!n || n > CONF_IMAGE_NAME_MAX || !strchr(letters, value[0]) ||
	    strspn(value + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/@+-") != n - 1)
		return err_set(e, ERR_CONFIG,
			       "is no name of an image: a letter or digit, then those and . _ : / @ + -, %d at most",
			       CONF_IMAGE_NAME_MAX);
	return 0;
}

int conf_check_image_digest(const char *value, struct err *e)
{
	if (strncmp(value, "sha256:", 7) != 0 || strlen(value) != CONF_IMAGE_DIGEST_LEN ||
	    strspn(value + 7, "0123456789abcdef") != 64)
		return err_set(e, ERR_CONFIG, "is not sha256: and 64 hexadecimal digits");
	return 0;
}

int conf_check_image_entry(const struct conf_image *x, struct err *e)
{
	int ways = !!x->archive + !!x->dir;

	if (ways > 1)
		return err_set(e, ERR_CONFIG, "archive and dir do not go together");
	if (!ways && !x->ref)
		return err_set(e, ERR_CONFIG,
			       "archive or dir is missing (for sandboxes of this machine), or ref (for pods)");
	if (ways && !x->digest)
		return err_set(e, ERR_CONFIG,
			       "digest is missing: sha256:... of its manifest or index, as index.json names it");
	return 0;
}

int conf_image_add(struct conf *c, const struct conf_image *x)
{
	if (conf_image_find(c, x->name))
		return ERR_CONFLICT;
	return c->nimages < CONF_IMAGES_MAX ? list_append(&c->images, &c->nimages, x, sizeof(*x)) : ERR_LIMIT;
}

const struct conf_image *conf_image_find(const struct conf *c, const char *name)
{
	for (size_t i = 0; i < c->nimages; i++)
		if (strcmp(c->images[i].name, name) == 0)
			return &c->images[i];
	return NULL;
}

int conf_image_allowed(const struct conf *c, const char *name, struct err *e)
{
	const struct conf_image *x = conf_image_find(c, name);
	bool pods = strcmp(c->sandbox_backend, "kubernetes") == 0;

	if (!x)
		return err_set(e, ERR_IMAGE_DENIED, "%.128s is not among sandbox.images", name);
	if (pods ? !x->ref : !x->archive && !x->dir)
		return err_set(e, ERR_IMAGE_DENIED, "sandbox.images has no %s for %.128s, which %s needs",
			       pods ? "ref" : "archive and no dir", name, pods ? "a pod" : "a sandbox of this machine");
	if (pods && c->kubernetes_warm_pool[0])
		return err_set(e, ERR_IMAGE_DENIED,
			       "pods of kubernetes.warm_pool have the image of their template, and no other");
	return 0;
}

void conf_image_finish(struct conf_image *x)
{
	free(x->name);
	free(x->archive);
	free(x->dir);
	free(x->digest);
	free(x->ref);
	*x = (struct conf_image){0};
}

void conf_images_clear(struct conf *c)
{
	for (size_t i = 0; i < c->nimages; i++)
		conf_image_finish(&c->images[i]);
	free(c->images);
	c->images = NULL;
	c->nimages = 0;
}

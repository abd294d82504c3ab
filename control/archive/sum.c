#include "control/archive/sum.h"

#include "base/bytes.h"
#include "base/err.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

int sum_begin(struct sum *s, struct err *e)
{
	*s = (struct sum){.md = EVP_MD_CTX_new()};
	if (s->md && EVP_DigestInit_ex(s->md, EVP_sha256(), NULL) == 1)
		return 0;
	EVP_MD_CTX_free(s->md);
	s->md = NULL;
	return err_set(e, ERR_NOMEM, "no memory for a digest");
}

static void sum_add(struct sum *s, const void *p, size_t n)
{
	(void)EVP_DigestUpdate(s->md, p, n);
}

static void add_number(struct sum *s, uint64_t v)
{
	uint8_t b[8];

	put_u64(b, v);
	sum_add(s, b, sizeof(b));
}

static void add_part(struct sum *s, const void *p, size_t n)
{
	add_number(s, n);
	sum_add(s, p, n);
}

static void extent_close(struct sum *s)
{
	if (!s->extent)
		return;
	s->extent = false;
	add_number(s, s->next - s->began);
}

void sum_item(struct sum *s, const struct item *i)
{
	extent_close(s);
	s->entries++;
	s->bytes += i->size;
	sum_add(s, &(uint8_t){(uint8_t)i->type}, 1);
	add_part(s, i->name, strlen(i->name));
	add_part(s, i->target ? i->target : "", i->target ? strlen(i->target) : 0);
	add_number(s, i->mode);
	add_number(s, (uint64_t)i->mtime.tv_sec);
	add_number(s, (uint64_t)i->mtime.tv_nsec);
	add_number(s, i->size);
	add_number(s, i->nattrs);
	for (size_t k = 0; k < i->nattrs; k++) {
		add_part(s, i->attrs[k].name, strlen(i->attrs[k].name));
		add_part(s, i->attrs[k].value, i->attrs[k].size);
	}
}

void sum_data(struct sum *s, uint64_t offset, const void *p, size_t n)
{
	if (n == 0)
		return;
	if (!s->extent || offset != s->next) {
		extent_close(s);
		s->extent = true;
		s->began = s->next = offset;
		add_number(s, offset);
	}
	sum_add(s, p, n);
	s->next += n;
}

int sum_end(struct sum *s, char out[SUM_TEXT_MAX], struct err *e)
{
	uint8_t d[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	int rc = 0;

	if (!s->md)
		return 0;
	extent_close(s);
	if (EVP_DigestFinal_ex(s->md, d, &n) != 1)
		rc = err_set(e, ERR_INTERNAL, "the digest cannot be finished");
	for (unsigned i = 0; out && rc == 0 && i < n; i++)
		snprintf(out + 2 * i, 3, "%02x", d[i]);
	EVP_MD_CTX_free(s->md);
	s->md = NULL;
	return rc;
}

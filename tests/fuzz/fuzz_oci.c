// tier: check
/* The JSON of an OCI image: what is taken has digests of 64 digits and bounded lists, what is refused says why. */
#include "control/archive/oci.c"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool is_so)
{
	if (!is_so)
		abort();
}

static void must_be_digest(const char *hex)
{
	must(strlen(hex) == OCI_HEX - 1 && strspn(hex, "0123456789abcdef") == OCI_HEX - 1);
}

static void texts(const char *text, size_t len)
{
	struct oci_manifest *m = calloc(1, sizeof(*m));
	struct oci_config *c = calloc(1, sizeof(*c));
	struct err e = {0};
	char hex[OCI_HEX];
	int rc;

	must(m && c);
	rc = oci_manifest_read(text, len, m, &e);
	must(rc == 0 || (rc == ERR_IMAGE && e.message[0]));
	if (rc == 0) {
		must_be_digest(m->config.hex);
		must(m->index ? m->nlayers == 0 : m->nlayers > 0 && m->nlayers <= OCI_LAYERS_MAX);
		for (size_t i = 0; i < m->nlayers; i++)
			must_be_digest(m->layers[i].hex);
	}
	rc = oci_config_read(text, len, c, &e);
	must(rc == 0 || (rc == ERR_IMAGE && e.message[0]));
	for (size_t i = 0; rc == 0 && i < c->nlayers; i++)
		must_be_digest(c->layers[i]);
	must(rc || (c->env_len <= OCI_ENV_MAX && (!c->env_len || !c->env[c->env_len - 1])));
	oci_index_first(text, len, hex);
	free(m);
	free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	must(text);
	memcpy(text, data, size);
	text[size] = '\0';
	texts(text, size);
	free(text);
	return 0;
}

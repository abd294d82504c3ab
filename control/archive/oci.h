/*
 * oci.h - the JSON of an OCI image: an index, a manifest, a configuration (OCI image-spec v1.1, Docker's schema 2).
 *
 * Pure: texts in, values out. Whatever stands in them is a stranger's: a digest is 64 hexadecimal digits here or the
 * text is refused, a size is bounded by its caller, and no name in them becomes a path.
 */
#ifndef CONTROL_ARCHIVE_OCI_H
#define CONTROL_ARCHIVE_OCI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define OCI_HEX        65 /* SHA-256 in hex, with its end */
#define OCI_JSON_MAX   (1 << 20)
#define OCI_LAYERS_MAX 128
#define OCI_ENV_MAX    (32 * 1024) /* bytes of all variables, each with its end */
#define OCI_ENV_VARS   500         /* of them: bwrap takes 9000 words, three for each (cmdline_image.c) */
#define OCI_NOTES_MAX  200

enum oci_packing { OCI_PLAIN, OCI_GZIP, OCI_ZSTD };

/* A blob as another text names it. */
struct oci_blob {
	char hex[OCI_HEX];
	uint64_t size;
	enum oci_packing packing; /* of a layer */
};

/* An index and a manifest are told apart by their members; a text that is both is refused. */
struct oci_manifest {
	bool index; /* then `config` is the text that goes on: another index, or a manifest */
	struct oci_blob config;
	struct oci_blob layers[OCI_LAYERS_MAX];
	size_t nlayers;
};

struct oci_config {
	char layers[OCI_LAYERS_MAX][OCI_HEX]; /* SHA-256 of each layer, unpacked */
	size_t nlayers;
	char env[OCI_ENV_MAX]; /* NAME=VALUE, each with its NUL; names that the sandbox sets itself are left out */
	size_t env_len, nenv;
	char notes[OCI_NOTES_MAX]; /* what it says and nobody heeds, for people; "" */
};

/* "sha256:" and 64 lower-case hexadecimal digits. */
bool oci_digest(const char *text, char out[OCI_HEX]);
/* The architecture of this program, as images name it. */
const char *oci_architecture(void);
/* Of an index the first entry for linux and this architecture. ERR_IMAGE. */
int oci_manifest_read(const char *text, size_t len, struct oci_manifest *out, struct err *e);
int oci_config_read(const char *text, size_t len, struct oci_config *out, struct err *e);
/* The digest of the first entry of an index.json, for a message; "" where there is none. */
void oci_index_first(const char *text, size_t len, char out[OCI_HEX]);

#endif

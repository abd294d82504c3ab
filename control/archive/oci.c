#include "control/archive/oci.h"

#include "base/err.h"
#include "base/json.h"
#include "base/text.h"
#include "base/visible.h"

#include <string.h>

#define PREFIX     "sha256:"
#define NOTE_WORDS 40 /* of a stranger's word, in what is noted */

bool oci_digest(const char *text, char out[OCI_HEX])
{
	const char *hex = text;

	if (strncmp(text, PREFIX, sizeof(PREFIX) - 1) != 0)
		return false;
	hex += sizeof(PREFIX) - 1;
	if (strlen(hex) != OCI_HEX - 1 || strspn(hex, "0123456789abcdef") != OCI_HEX - 1)
		return false;
	memcpy(out, hex, OCI_HEX);
	return true;
}

const char *oci_architecture(void)
{
#if defined(__x86_64__)
	return "amd64";
#elif defined(__aarch64__)
	return "arm64";
#elif defined(__riscv)
	return "riscv64";
#elif defined(__powerpc64__)
	return "ppc64le";
#elif defined(__s390x__)
	return "s390x";
#else
	return "unknown";
#endif
}

static const char *word(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

/* err_set() shows a stranger's word as text, and cuts it between characters. */
static int oci_bad(struct err *e, const char *what, const char *of)
{
	return err_set(e, ERR_IMAGE, "%s%s%.60s", what, *of ? ": " : "", of);
}

static int parse(const char *what, const char *text, size_t len, json_t **out, struct err *e)
{
	struct err why = {0};

	if (json_parse_values(text, len, OCI_JSON_MAX, JSON_VALUES_BODY, out, &why))
		return err_set(e, ERR_IMAGE, "the %s is no sound JSON: %.200s", what, why.message);
	if (json_is_object(*out))
		return 0;
	json_decref(*out);
	*out = NULL;
	return err_set(e, ERR_IMAGE, "the %s is no JSON object", what);
}

/* ---- an index, a manifest */

static int blob_read(const json_t *o, struct oci_blob *out, struct err *e)
{
	const json_t *size = json_object_get(o, "size");

	if (!oci_digest(word(o, "digest"), out->hex))
		return oci_bad(e, "a digest is not sha256: and 64 hexadecimal digits", word(o, "digest"));
	if (!json_is_integer(size) || json_integer_value(size) < 0)
		return err_set(e, ERR_IMAGE, "sha256:%.12s... is named without a size", out->hex);
	out->size = (uint64_t)json_integer_value(size);
	return 0;
}

static int layer_read(const json_t *o, struct oci_blob *out, struct err *e)
{
	static const struct {
		const char *type;
		enum oci_packing packing;
	} types[] = {{"application/vnd.oci.image.layer.v1.tar", OCI_PLAIN},
		     {"application/vnd.oci.image.layer.v1.tar+gzip", OCI_GZIP},
		     {"application/vnd.oci.image.layer.v1.tar+zstd", OCI_ZSTD},
		     {"application/vnd.docker.image.rootfs.diff.tar", OCI_PLAIN},
		     {"application/vnd.docker.image.rootfs.diff.tar.gzip", OCI_GZIP}};
	size_t i = 0;

	while (i < sizeof(types) / sizeof(types[0]) && strcmp(types[i].type, word(o, "mediaType")) != 0)
		i++;
	if (i == sizeof(types) / sizeof(types[0]))
		return oci_bad(e, "a layer's media type is none of tar, tar+gzip and tar+zstd", word(o, "mediaType"));
	out->packing = types[i].packing;
	return blob_read(o, out, e);
}

static int layers_read(const json_t *list, struct oci_manifest *out, struct err *e)
{
	size_t i;
	json_t *o;

	if (json_array_size(list) == 0 || json_array_size(list) > OCI_LAYERS_MAX)
		return err_set(e, ERR_IMAGE, "the manifest has %zu layers: between 1 and %d are taken",
			       json_array_size(list), OCI_LAYERS_MAX);
	json_array_foreach((json_t *)(uintptr_t)list, i, o)
	{
		int rc = layer_read(o, &out->layers[i], e);

		if (rc)
			return rc;
	}
	out->nlayers = i;
	return 0;
}

static bool fits(const json_t *entry)
{
	const json_t *p = json_object_get(entry, "platform");

	return strcmp(word(p, "os"), "linux") == 0 && strcmp(word(p, "architecture"), oci_architecture()) == 0;
}

/* An index of one entry that names no platform is for whatever its manifest is for. */
static const json_t *pick(const json_t *list)
{
	const json_t *one = json_array_get(list, 0);
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)(uintptr_t)list, i, o)
	{
		if (fits(o))
			return o;
	}
	return json_array_size(list) == 1 && !json_object_get(one, "platform") ? one : NULL;
}

static int index_read(const json_t *list, struct oci_manifest *out, struct err *e)
{
	const json_t *entry = pick(list), *first = json_array_get(list, 0);

	if (!json_is_array(list) || json_array_size(list) == 0)
		return err_set(e, ERR_IMAGE, "the index names no image");
	if (!entry)
		return err_set(e, ERR_IMAGE, "the index has no image for linux/%s; its first one is for \"%.60s\"",
			       oci_architecture(), word(json_object_get(first, "platform"), "architecture"));
	out->index = true;
	return blob_read(entry, &out->config, e);
}

int oci_manifest_read(const char *text, size_t len, struct oci_manifest *out, struct err *e)
{
	struct oci_manifest m = {0};
	json_t *o = NULL;
	const json_t *layers, *list;
	int rc = parse("manifest", text, len, &o, e);

	if (rc)
		return rc;
	layers = json_object_get(o, "layers");
	list = json_object_get(o, "manifests");
	if (list && (layers || json_object_get(o, "config")))
		rc = err_set(e, ERR_IMAGE, "one text is an index and a manifest at once");
	else if (list)
		rc = index_read(list, &m, e);
	else if (!json_is_array(layers) || !json_is_object(json_object_get(o, "config")))
		rc = err_set(e, ERR_IMAGE, "the text is neither a manifest nor an index");
	else if ((rc = blob_read(json_object_get(o, "config"), &m.config, e)) == 0)
		rc = layers_read(layers, &m, e);
	json_decref(o);
	if (rc == 0)
		*out = m;
	return rc;
}

void oci_index_first(const char *text, size_t len, char out[OCI_HEX])
{
	json_t *o = NULL;

	out[0] = '\0';
	if (parse("index", text, len, &o, NULL))
		return;
	(void)oci_digest(word(json_array_get(json_object_get(o, "manifests"), 0), "digest"), out);
	json_decref(o);
}

/* ---- a configuration */

static bool is_variable(const char *s)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

	return n > 0 && n <= 128 && s[n] == '=' && !(s[0] >= '0' && s[0] <= '9');
}

/* Variables that the sandbox sets itself; its own words win. */
static bool is_ours(const char *s)
{
	static const char *const ours[] = {"HOME=", "USER=", "LOGNAME=", "SHELL=", "TERM=", "PWD="};

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (strncmp(s, ours[i], strlen(ours[i])) == 0)
			return true;
	return false;
}

static int env_add(struct oci_config *c, const json_t *v, struct err *e)
{
	const char *s = json_string_value(v);
	size_t n = s ? strlen(s) + 1 : 0;

	if (!s || n != json_string_length(v) + 1 || !is_variable(s))
		return oci_bad(e, "a variable of the image is no NAME=VALUE", s ? s : "");
	if (is_ours(s))
		return 0;
	if (n > OCI_ENV_MAX - c->env_len)
		return err_set(e, ERR_IMAGE, "the image's variables have more than %d bytes", OCI_ENV_MAX);
	if (c->nenv == OCI_ENV_VARS)
		return err_set(e, ERR_IMAGE, "the image has more than %d variables", OCI_ENV_VARS);
	memcpy(c->env + c->env_len, s, n);
	c->env_len += n;
	c->nenv++;
	return 0;
}

static void note(struct oci_config *c, const char *what, const char *value)
{
	char shown[NOTE_WORDS + 1];
	size_t n = strlen(c->notes);

	visible_put(shown, sizeof(shown), value, strlen(value), 0);
	if (*shown)
		text_format(c->notes + n, sizeof(c->notes) - n, "%s%s %s", n ? ", " : "", what, shown);
}

static int diffs_read(const json_t *o, struct oci_config *c, struct err *e)
{
	const json_t *list = json_object_get(json_object_get(o, "rootfs"), "diff_ids");
	size_t i;
	json_t *v;

	if (!json_is_array(list) || json_array_size(list) > OCI_LAYERS_MAX)
		return err_set(e, ERR_IMAGE, "the configuration has no list of its layers (rootfs.diff_ids)");
	json_array_foreach((json_t *)(uintptr_t)list, i, v)
	{
		const char *s = json_string_value(v);

		if (!oci_digest(s ? s : "", c->layers[i]))
			return oci_bad(e, "a diff_id is not sha256: and 64 hexadecimal digits", s ? s : "");
	}
	c->nlayers = i;
	return 0;
}

int oci_config_read(const char *text, size_t len, struct oci_config *out, struct err *e)
{
	struct oci_config *c = out;
	const json_t *list;
	json_t *o = NULL, *v;
	size_t i;
	int rc = parse("configuration", text, len, &o, e);

	if (rc)
		return rc;
	*c = (struct oci_config){0};
	if (strcmp(word(o, "os"), "linux") != 0 || strcmp(word(o, "architecture"), oci_architecture()) != 0)
		rc = oci_bad(e, "the image is for another system than linux and this machine's processor",
			     word(o, "architecture"));
	rc = rc ? rc : diffs_read(o, c, e);
	list = json_object_get(json_object_get(o, "config"), "Env");
	json_array_foreach((json_t *)(uintptr_t)list, i, v)
	{
		if (rc == 0)
			rc = env_add(c, v, e);
	}
	note(c, "User", word(json_object_get(o, "config"), "User"));
	note(c, "WorkingDir", word(json_object_get(o, "config"), "WorkingDir"));
	json_decref(o);
	return rc;
}

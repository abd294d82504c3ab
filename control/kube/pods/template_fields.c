#include "control/kube/pods/template_fields.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#define TEXT(n)                                                                                                        \
	{                                                                                                              \
		.name = (n), .kind = TEMPLATE_TEXT                                                                     \
	}
#define NUMBER(n)                                                                                                      \
	{                                                                                                              \
		.name = (n), .kind = TEMPLATE_NUMBER                                                                   \
	}
#define BOOL(n)                                                                                                        \
	{                                                                                                              \
		.name = (n), .kind = TEMPLATE_BOOL                                                                     \
	}
#define TEXTS(n)                                                                                                       \
	{                                                                                                              \
		.name = (n), .kind = TEMPLATE_TEXTS                                                                    \
	}
#define OBJECT(n, f)                                                                                                   \
	{                                                                                                              \
		.name = (n), .kind = TEMPLATE_OBJECT, .fields = (f)                                                    \
	}
#define LIST(n, f)                                                                                                     \
	{                                                                                                              \
		.name = (n), .kind = TEMPLATE_LIST, .fields = (f)                                                      \
	}
#define BY(n, f, k)                                                                                                    \
	{                                                                                                              \
		.name = (n), .kind = TEMPLATE_LIST, .fields = (f), .key = (k)                                          \
	}
#define RULED(n, k, r)                                                                                                 \
	{                                                                                                              \
		.name = (n), .kind = (k), .rule = (r)                                                                  \
	}
#define MAP(n)                                                                                                         \
	{                                                                                                              \
		.name = (n), .kind = TEMPLATE_MAP                                                                      \
	}
#define END                                                                                                            \
	{                                                                                                              \
		.name = NULL                                                                                           \
	}
typedef const struct template_field table[];

/* ---- selectors and affinity */

static table requirement = {TEXT("key"), TEXT("operator"), TEXTS("values"), END};
static table label_selector = {MAP("matchLabels"), LIST("matchExpressions", requirement), END};
static table node_term = {LIST("matchExpressions", requirement), LIST("matchFields", requirement), END};
static table node_required = {LIST("nodeSelectorTerms", node_term), END};
static table node_preferred = {NUMBER("weight"), OBJECT("preference", node_term), END};
static table node_affinity = {OBJECT("requiredDuringSchedulingIgnoredDuringExecution", node_required),
			      LIST("preferredDuringSchedulingIgnoredDuringExecution", node_preferred), END};
static table pod_term = {OBJECT("labelSelector", label_selector),
			 OBJECT("namespaceSelector", label_selector),
			 TEXTS("namespaces"),
			 TEXT("topologyKey"),
			 TEXTS("matchLabelKeys"),
			 TEXTS("mismatchLabelKeys"),
			 END};
static table pod_preferred = {NUMBER("weight"), OBJECT("podAffinityTerm", pod_term), END};
static table pod_affinity = {LIST("requiredDuringSchedulingIgnoredDuringExecution", pod_term),
			     LIST("preferredDuringSchedulingIgnoredDuringExecution", pod_preferred), END};
static table affinity = {OBJECT("nodeAffinity", node_affinity), OBJECT("podAffinity", pod_affinity),
			 OBJECT("podAntiAffinity", pod_affinity), END};
static table toleration = {TEXT("key"), TEXT("operator"), TEXT("value"), TEXT("effect"), NUMBER("tolerationSeconds"),
			   END};
static table spread = {TEXT("topologyKey"),
		       NUMBER("maxSkew"),
		       TEXT("whenUnsatisfiable"),
		       OBJECT("labelSelector", label_selector),
		       NUMBER("minDomains"),
		       TEXT("nodeAffinityPolicy"),
		       TEXT("nodeTaintsPolicy"),
		       TEXTS("matchLabelKeys"),
		       END};
static table by_name = {RULED("name", TEMPLATE_TEXT, RULE_NOT_EMPTY), END};

/* ---- volumes */

static table item = {TEXT("key"), TEXT("path"), NUMBER("mode"), END};
static table config_map = {RULED("name", TEMPLATE_TEXT, RULE_CONFIG_MAP), BY("items", item, "key"),
			   NUMBER("defaultMode"), BOOL("optional"), END};
static table secret = {RULED("secretName", TEMPLATE_TEXT, RULE_SECRET), BY("items", item, "key"), NUMBER("defaultMode"),
		       BOOL("optional"), END};
static table claim = {RULED("claimName", TEMPLATE_TEXT, RULE_CLAIM), BOOL("readOnly"), END};
static table empty_dir = {TEXT("medium"), TEXT("sizeLimit"), END};
static table requests = {{.name = "requests", .kind = TEMPLATE_QUANTITIES}, END};
static table claim_spec = {TEXTS("accessModes"), TEXT("storageClassName"), TEXT("volumeMode"),
			   OBJECT("resources", requests), END};
static table claim_meta = {RULED("labels", TEMPLATE_MAP, RULE_LABELS),
			   RULED("annotations", TEMPLATE_MAP, RULE_ANNOTATIONS), END};
static table claim_template = {OBJECT("metadata", claim_meta), OBJECT("spec", claim_spec), END};
static table ephemeral = {OBJECT("volumeClaimTemplate", claim_template), END};
static table volume = {RULED("name", TEMPLATE_TEXT, RULE_VOLUME),
		       OBJECT("emptyDir", empty_dir),
		       OBJECT("configMap", config_map),
		       OBJECT("secret", secret),
		       OBJECT("persistentVolumeClaim", claim),
		       OBJECT("ephemeral", ephemeral),
		       END};
const struct template_field template_volume_sources[] = {
    OBJECT("emptyDir", empty_dir),          OBJECT("configMap", config_map), OBJECT("secret", secret),
    OBJECT("persistentVolumeClaim", claim), OBJECT("ephemeral", ephemeral),  END};

/* ---- containers */

static table config_map_key = {RULED("name", TEMPLATE_TEXT, RULE_CONFIG_MAP), TEXT("key"), BOOL("optional"), END};
static table secret_key = {RULED("name", TEMPLATE_TEXT, RULE_SECRET), TEXT("key"), BOOL("optional"), END};
static table field_ref = {TEXT("fieldPath"), TEXT("apiVersion"), END};
static table value_from = {OBJECT("configMapKeyRef", config_map_key), OBJECT("secretKeyRef", secret_key),
			   OBJECT("fieldRef", field_ref), END};
static table env = {RULED("name", TEMPLATE_TEXT, RULE_ENV), TEXT("value"), OBJECT("valueFrom", value_from), END};
static table mount = {RULED("mountPath", TEMPLATE_TEXT, RULE_MOUNT), RULED("name", TEMPLATE_TEXT, RULE_NOT_EMPTY),
		      BOOL("readOnly"), TEXT("subPath"), END};
static table resources = {
    {.name = "requests", .kind = TEMPLATE_QUANTITIES}, {.name = "limits", .kind = TEMPLATE_QUANTITIES}, END};
static table port = {{.name = "containerPort", .kind = TEMPLATE_NUMBER}, TEXT("name"), TEXT("protocol"), END};
static table probe_exec = {TEXTS("command"), END};
static table probe_http = {TEXT("path"), {.name = "port", .kind = TEMPLATE_PORT}, TEXT("scheme"), END};
static table probe_tcp = {{.name = "port", .kind = TEMPLATE_PORT}, END};
static table probe = {OBJECT("exec", probe_exec),    OBJECT("httpGet", probe_http), OBJECT("tcpSocket", probe_tcp),
		      NUMBER("initialDelaySeconds"), NUMBER("periodSeconds"),       NUMBER("timeoutSeconds"),
		      NUMBER("successThreshold"),    NUMBER("failureThreshold"),    END};
static table container_security = {RULED("allowPrivilegeEscalation", TEMPLATE_BOOL, RULE_FALSE),
				   RULED("privileged", TEMPLATE_BOOL, RULE_FALSE),
				   RULED("runAsNonRoot", TEMPLATE_BOOL, RULE_TRUE),
				   RULED("readOnlyRootFilesystem", TEMPLATE_BOOL, RULE_TRUE),
				   RULED("runAsUser", TEMPLATE_NUMBER, RULE_UID),
				   RULED("runAsGroup", TEMPLATE_NUMBER, RULE_UID),
				   END};
static table container = {RULED("name", TEMPLATE_TEXT, RULE_OWN_NAME),
			  RULED("image", TEMPLATE_TEXT, RULE_NOT_EMPTY),
			  TEXT("imagePullPolicy"),
			  TEXTS("command"),
			  TEXTS("args"),
			  TEXT("workingDir"),
			  BY("env", env, "name"),
			  OBJECT("resources", resources),
			  BY("volumeMounts", mount, "mountPath"),
			  BY("ports", port, "containerPort"),
			  OBJECT("livenessProbe", probe),
			  OBJECT("readinessProbe", probe),
			  OBJECT("startupProbe", probe),
			  OBJECT("securityContext", container_security),
			  TEXT("terminationMessagePolicy"),
			  END};
const struct template_field template_own_fields[] = {RULED("name", TEMPLATE_TEXT, RULE_OWN_NAME),
						     BY("env", env, "name"),
						     OBJECT("resources", resources),
						     BY("volumeMounts", mount, "mountPath"),
						     BY("ports", port, "containerPort"),
						     END};

/* ---- the pod */

static table metadata = {RULED("labels", TEMPLATE_MAP, RULE_LABELS),
			 RULED("annotations", TEMPLATE_MAP, RULE_ANNOTATIONS), END};
static table spec = {{.name = "nodeSelector", .kind = TEMPLATE_MAP, .takes_null = true},
		     {.name = "tolerations", .kind = TEMPLATE_LIST, .fields = toleration, .takes_null = true},
		     {.name = "affinity", .kind = TEMPLATE_OBJECT, .fields = affinity, .takes_null = true},
		     {.name = "topologySpreadConstraints",
		      .kind = TEMPLATE_LIST,
		      .fields = spread,
		      .key = "topologyKey",
		      .takes_null = true},
		     {.name = "priorityClassName", .kind = TEMPLATE_TEXT, .rule = RULE_NOT_EMPTY, .takes_null = true},
		     BY("imagePullSecrets", by_name, "name"),
		     RULED("hostUsers", TEMPLATE_BOOL, RULE_FALSE),
		     BY("volumes", volume, "name"),
		     BY("containers", container, "name"),
		     END};
const struct template_field template_root[] = {OBJECT("metadata", metadata), OBJECT("spec", spec), END};

const struct template_field *template_field_find(const struct template_field *fields, const char *name)
{
	for (; fields && fields->name; fields++)
		if (strcmp(fields->name, name) == 0)
			return fields;
	return NULL;
}

size_t template_path_down(char at[TEMPLATE_PATH_MAX], const char *key)
{
	size_t was = strlen(at), n = was;

	if (n + 1 < TEMPLATE_PATH_MAX)
		at[n++] = '/';
	for (; *key && n + 3 < TEMPLATE_PATH_MAX; key++) {
		bool escaped = *key == '~' || *key == '/';

		if (escaped)
			at[n++] = '~';
		at[n++] = *key == '~' ? '0' : *key == '/' ? '1' : iscntrl((unsigned char)*key) ? '?' : *key;
	}
	at[n] = '\0';
	return was;
}

/*
 * resources.h - how much of a machine a sandbox asks for: memory, processor time, processes. Values, pure.
 *
 * A caller asks with a start or a fork, lifecycle keeps what was asked in the agent's row, and each start clips it by
 * the configuration of that moment (sandbox.memory, cpu_milli and pids here, kubernetes.limit_cpu and limit_memory of
 * pods): nobody gets more than that, whoever asks. 0 of a field: nothing was asked, the configured limit holds.
 *
 * Texts are quantities of Kubernetes (resource.Quantity without exponents): "500m", "2", "0.5"; "512Mi", "1G".
 */
#ifndef BASE_RESOURCES_H
#define BASE_RESOURCES_H

#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

struct conf;
struct err;

#define RESOURCES_TEXT       24 /* of a quantity, with its end */
#define RESOURCES_MEMORY_MIN (UINT64_C(16) << 20)
#define RESOURCES_MEMORY_MAX (UINT64_C(16) << 40)
#define RESOURCES_CPU_MIN    10
#define RESOURCES_CPU_MAX    1024000
#define RESOURCES_PIDS_MIN   8
#define RESOURCES_PIDS_MAX   4194304

struct resources {
	uint64_t memory;    /* bytes */
	uint32_t cpu_milli; /* thousandths of a processor */
	uint32_t pids;      /* processes and threads of programs */
};

/*
 * {"cpu": "500m", "memory": "512Mi", "pids": 200}, each optional; cpu and memory may be whole numbers, of processors
 * and bytes. null: nothing is asked. ERR_INVAL names the field and its bounds.
 */
int resources_read(const json_t *o, struct resources *out, struct err *e);
/* As resources_read() takes it, without what was not asked; null where nothing was. */
json_t *resources_json(const struct resources *r);
bool resources_none(const struct resources *r);
bool resources_equal(const struct resources *a, const struct resources *b);
/* Of configured texts, as conf_check_quantity() takes them; "" and NULL: 0. */
struct resources resources_quantities(const char *cpu, const char *memory);
/* The most that the configuration gives, of its backend. 0: no limit. */
void resources_most(const struct conf *c, struct resources *out);
/* As asked, and where nothing is asked the most; never more than that. */
struct resources resources_clip(const struct resources *asked, const struct resources *most);
/* The names of what was asked beyond the most: ["memory"], or null. */
json_t *resources_clipped(const struct resources *asked, const struct resources *most);
void resources_cpu_text(uint32_t milli, char out[RESOURCES_TEXT]);    /* "500m", "2" */
void resources_memory_text(uint64_t bytes, char out[RESOURCES_TEXT]); /* "512Mi", "1500" */

#endif

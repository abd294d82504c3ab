/*
 * program.h - a program as a list in control.db names it (control/servers/program_def.h), for exec_spec. Values.
 */
#ifndef MUXD_HUB_SESSION_PROGRAM_H
#define MUXD_HUB_SESSION_PROGRAM_H

#include "base/json.h"

#define PROGRAM_ARGV_MAX 65 /* with the NULL at its end */

void program_argv(const json_t *list, const char **out, size_t max); /* NULL-ended; borrows */
char **program_env(const json_t *env); /* "K=V", NULL-ended; NULL: no memory, which is no environment */
void program_env_free(char **env);     /* NULL-safe */

#endif

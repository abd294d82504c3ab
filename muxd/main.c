/* muxd: one program, two long-lived roles. `muxd net` is started by the monitor alone. */
#include "base/conf.h"
#include "base/err.h"
#include "muxd/monitor/cluster.h"
#include "muxd/monitor/options.h"
#include "muxd/monitor/serve.h"
#include "muxd/net/net.h"

#include <stdio.h>
#include <string.h>

#define IPC_FD 3

static int check_config(const char *path)
{
	struct conf *c = NULL;
	struct err e = {0};
	int rc = conf_load(path, &c, &e);

	if (rc == 0)
		rc = cluster_check(c, &e);
	conf_destroy(c);
	if (rc) {
		fprintf(stderr, "muxd: %s\n", e.message);
		return err_exit_code(rc);
	}
	printf("%s: correct\n", path);
	return 0;
}

static int usage(FILE *to, int code)
{
	fputs(options_usage, to);
	return code;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

	if (strcmp(verb, "serve") == 0)
		return serve_main(argc - 1, argv + 1);
	if (strcmp(verb, "net") == 0 && argc == 2)
		return net_main(IPC_FD);
	if (strcmp(verb, "check-config") == 0 && argc == 3)
		return check_config(argv[2]);
	if ((strcmp(verb, "version") == 0 || strcmp(verb, "--version") == 0) && argc == 2) {
		puts("muxd " MUXD_VERSION);
		return 0;
	}
	if (strcmp(verb, "help") == 0 || strcmp(verb, "--help") == 0)
		return usage(stdout, 0);
	return usage(stderr, err_exit_code(ERR_INVAL));
}

#include "muxd/base/confine.h"

#include "muxd/base/err.h"

#include <errno.h>
#include <seccomp.h>
#include <sys/socket.h>

static int add_rules(scmp_filter_ctx filter)
{
	static const int programs[] = {SCMP_SYS(execve), SCMP_SYS(execveat)};
	int rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_NE, AF_UNIX));
	/* io_uring would open sockets past this filter. */
	if (rc == 0)
		rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(io_uring_setup), 0);
	for (size_t i = 0; rc == 0 && i < sizeof(programs) / sizeof(programs[0]); i++)
		rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), programs[i], 0);
	return rc;
}

int confine_local(struct err *e)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	if (!filter)
		return err_set(e, ERR_NOMEM, "cannot make a seccomp filter");
	int rc = add_rules(filter);
	if (rc == 0)
		rc = seccomp_load(filter);
	seccomp_release(filter);
	if (rc == -EINVAL || rc == -ENOSYS || rc == -EOPNOTSUPP)
		return err_set(e, ERR_UNSUPPORTED, "the kernel has no seccomp filters");
	return rc ? err_sys(e, -rc, "cannot load a seccomp filter") : 0;
}

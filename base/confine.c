#include "base/confine.h"

#include "base/err.h"

#include <errno.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/socket.h>

static int add_programs(scmp_filter_ctx filter)
{
	static const int programs[] = {SCMP_SYS(execve), SCMP_SYS(execveat)};
	/* io_uring would open sockets past this filter. */
	int rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(io_uring_setup), 0);

	for (size_t i = 0; rc == 0 && i < sizeof(programs) / sizeof(programs[0]); i++)
		rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), programs[i], 0);
	return rc;
}

static int add_local(scmp_filter_ctx filter)
{
	int rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_NE, AF_UNIX));

	if (rc == 0)
		rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(socketpair), 1,
				      SCMP_A0(SCMP_CMP_NE, AF_UNIX));
	return rc ? rc : add_programs(filter);
}

static int confine_load(scmp_filter_ctx filter, int rc, struct err *e)
{
	if (rc == 0)
		rc = seccomp_load(filter);
	seccomp_release(filter);
	if (rc == -EINVAL || rc == -ENOSYS || rc == -EOPNOTSUPP)
		return err_set(e, ERR_UNSUPPORTED, "the kernel has no seccomp filters");
	return rc ? err_sys(e, -rc, "cannot load a seccomp filter") : 0;
}

static int confine_confine(int (*add)(scmp_filter_ctx), struct err *e)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

	if (!filter)
		return err_set(e, ERR_NOMEM, "cannot make a seccomp filter");
	return confine_load(filter, add(filter), e);
}

int confine_local(struct err *e)
{
	return confine_confine(add_local, e);
}

int confine_programs(struct err *e)
{
	return confine_confine(add_programs, e);
}

int confine_pure(struct err *e)
{
	static const int calls[] = {SCMP_SYS(read),           SCMP_SYS(write),      SCMP_SYS(brk),
				    SCMP_SYS(munmap),         SCMP_SYS(mremap),     SCMP_SYS(madvise),
				    SCMP_SYS(exit),           SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn),
				    SCMP_SYS(restart_syscall)};
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int rc = 0;

	if (!filter)
		return err_set(e, ERR_NOMEM, "cannot make a seccomp filter");
	for (size_t i = 0; rc == 0 && i < sizeof(calls) / sizeof(calls[0]); i++)
		rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
	if (rc == 0)
		rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
				      SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	return confine_load(filter, rc, e);
}

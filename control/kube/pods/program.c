#include "control/kube/pods/program.h"

#include "base/err.h"
#include "base/text.h"

#include <elf.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
	unsigned elf;
	const char *name;
} machines[] = {{EM_X86_64, "x86_64"}, {EM_AARCH64, "aarch64"}, {EM_RISCV, "riscv64"},
		{EM_S390, "s390x"},    {EM_PPC64, "ppc64le"},   {EM_ARM, "armv7l"}};

static int read_whole(int fd, struct program *p, struct err *e)
{
	size_t n = 0;

	while (n < p->len) {
		ssize_t got = pread(fd, p->bytes + n, p->len - n, (off_t)n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(e, errno, "muxlet's program");
		if (got == 0)
			return err_set(e, ERR_INVAL, "muxlet's program became shorter while it was read");
		n += (size_t)got;
	}
	return 0;
}

static int program_describe(struct program *p, struct err *e)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	Elf64_Ehdr head;
	unsigned n = 0;

	if (p->len < sizeof(head) || memcmp(p->bytes, ELFMAG, SELFMAG) != 0)
		return err_set(e, ERR_INVAL, "what is given as muxlet is no ELF program");
	memcpy(&head, p->bytes, sizeof(head));
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
		if (machines[i].elf == head.e_machine)
			text_put(p->machine, sizeof(p->machine), machines[i].name);
	if (!EVP_Digest(p->bytes, p->len, digest, &n, EVP_sha256(), NULL))
		return err_set(e, ERR_NOMEM, "no digest of muxlet");
	for (unsigned i = 0; i < n && 2 * i + 2 < sizeof(p->sha256); i++)
		snprintf(p->sha256 + 2 * (size_t)i, 3, "%02x", digest[i]);
	return 0;
}

int program_read(int fd, struct program *out, struct err *e)
{
	struct program p = {0};
	struct stat st;
	int rc;

	if (fstat(fd, &st))
		return err_sys(e, errno, "muxlet's program");
	if (st.st_size > PROGRAM_MAX)
		return err_set(e, ERR_TOO_LARGE, "muxlet's program has %lld bytes", (long long)st.st_size);
	p.len = (size_t)st.st_size;
	p.bytes = malloc(p.len + 1);
	if (!p.bytes)
		return err_set(e, ERR_NOMEM, "no memory for muxlet's program");
	rc = read_whole(fd, &p, e);
	if (!rc)
		rc = program_describe(&p, e);
	if (rc) {
		program_finish(&p);
		return rc;
	}
	*out = p;
	return 0;
}

void program_finish(struct program *p)
{
	free(p->bytes);
	memset(p, 0, sizeof(*p));
}

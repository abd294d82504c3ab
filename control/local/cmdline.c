#include "control/local/cmdline.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/persist.h"
#include "control/local/cmdline_image.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

/*
 * What shells, editors, compilers, Python and TLS need of the host's /etc. Left
 * out on purpose: everything that may hold secrets or name people and other
 * machines (shadow, hosts, resolv.conf, gitconfig, pip.conf, npmrc, ssh, ...).
 */
static const char *const etc_of_host[] = {
    "alternatives",
    "bash.bashrc",
    "bash_completion",
    "bash_completion.d",
    "ca-certificates",
    "debian_version",
    "fonts",
    "gai.conf",
    "groff",
    "host.conf",
    "inputrc",
    "java-*",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "lsb-release",
    "magic",
    "manpath.config",
    "mime.types",
    "nanorc",
    "os-release",
    "perl",
    "profile",
    "protocols",
    "python3*",
    "rpc",
    "screenrc",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
    "tmux.conf",
    "vim",
    "xattr.conf",
};

/* Appends one argument; a failure is remembered as n past the end and reported once by cmdline_make(). */
static void cmdline_add(struct cmdline *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void cmdline_add(struct cmdline *c, const char *fmt, ...)
{
	va_list ap;

	if (c->n >= CMDLINE_ARGS_MAX)
		return;
	va_start(ap, fmt);
	if (vasprintf(&c->argv[c->n], fmt, ap) < 0) {
		c->argv[c->n] = NULL;
		c->n = CMDLINE_ARGS_MAX;
	} else {
		c->n++;
	}
	va_end(ap);
}

static void add_all(struct cmdline *c, const char *const *words)
{
	for (; *words; words++)
		cmdline_add(c, "%s", *words);
}

#define ADD(c, ...) add_all(c, (const char *const[]){__VA_ARGS__, NULL})

int cmdline_memfile(const char *name, const void *p, size_t n, int *out_fd, struct err *e)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "cannot make a memory file for %s", name);
	if (pwrite(fd, p, n, 0) != (ssize_t)n) {
		int rc = err_sys(e, errno ? errno : EIO, "cannot write a memory file for %s", name);

		close(fd);
		return rc;
	}
	*out_fd = fd;
	return 0;
}

/* how: "--file" makes one, "--ro-bind-data" mounts over one that an image has. */
static int add_file(struct cmdline *c, struct err *e, const char *how, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
static int add_file(struct cmdline *c, struct err *e, const char *how, const char *path, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	int n, rc;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(text) || c->ndata >= CMDLINE_DATA_MAX)
		return err_set(e, ERR_INTERNAL, "the text of %s does not fit", path);
	rc = cmdline_memfile(path, text, (size_t)n, &c->data[c->ndata], e);
	if (rc)
		return rc;
	ADD(c, "--perms", "0444", how);
	cmdline_add(c, "%zu", CMDLINE_FD_DATA + c->ndata++);
	cmdline_add(c, "%s", path);
	return 0;
}

/* bin, lib and the like are links into /usr on a merged system and directories of their own on others. */
static void add_system(struct cmdline *c)
{
	static const char *const dirs[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

	ADD(c, "--ro-bind", "/usr", "/usr");
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		char path[16], target[PATH_MAX];
		struct stat st;
		ssize_t n;

		snprintf(path, sizeof(path), "/%s", dirs[i]);
		if (lstat(path, &st) != 0)
			continue;
		n = S_ISLNK(st.st_mode) ? readlink(path, target, sizeof(target) - 1) : -1;
		target[n > 0 ? n : 0] = '\0';
		if (n > 0 && (strncmp(target, "usr/", 4) == 0 || strncmp(target, "/usr/", 5) == 0))
			ADD(c, "--symlink", target, path);
		else if (S_ISDIR(st.st_mode))
			ADD(c, "--ro-bind", path, path);
	}
}

static void add_host_files(struct cmdline *c, const char *pattern)
{
	char path[64];
	glob_t found = {0};

	snprintf(path, sizeof(path), "/etc/%s", pattern);
	if (glob(path, GLOB_NOSORT, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++)
			if (access(found.gl_pathv[i], R_OK) == 0)
				ADD(c, "--ro-bind-try", found.gl_pathv[i], found.gl_pathv[i]);
	globfree(&found);
}

static int add_etc(struct cmdline *c, const struct cmdline_params *p, const char *shell, struct err *e)
{
	const char *how = p->image ? "--ro-bind-data" : "--file";
	int rc;

	for (size_t i = 0; !p->image && i < sizeof(etc_of_host) / sizeof(etc_of_host[0]); i++)
		add_host_files(c, etc_of_host[i]);
	if (!p->image)
		ADD(c, "--symlink", "/proc/self/mounts", "/etc/mtab");
	rc = add_file(c, e, how, "/etc/passwd",
		      "root:x:0:0:root:/:/usr/sbin/nologin\n"
		      "agent:x:1000:1000:agent:/workspace:%s\n"
		      "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		      shell);
	rc = rc ? rc : add_file(c, e, how, "/etc/group", "root:x:0:\ntty:x:5:\nagent:x:1000:\nnogroup:x:65534:\n");
	rc = rc ? rc : add_file(c, e, how, "/etc/hostname", "%s\n", p->agent);
	rc = rc ? rc
		: add_file(c, e, how, "/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 %s\n::1 localhost ip6-localhost\n",
			   p->agent);
	rc = rc ? rc : add_file(c, e, how, "/etc/resolv.conf", "%s", "");
	return rc ? rc
		  : add_file(c, e, how, "/etc/nsswitch.conf",
			     "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
			     "protocols: files\nservices: files\nrpc: files\n");
}

static void add_tmpfs(struct cmdline *c, const char *path, const char *perms, uint64_t size)
{
	ADD(c, "--perms", perms, "--size");
	cmdline_add(c, "%" PRIu64, size);
	ADD(c, "--tmpfs", path);
}

static uint64_t between(uint64_t low, uint64_t v, uint64_t high)
{
	return v < low ? low : v > high ? high : v;
}

/*
 * Memory file systems count as memory of the sandbox where a cgroup counts at
 * all; their own bounds keep one of them from eating it, or the host's without one.
 */
static void add_volatile(struct cmdline *c, uint64_t memory_max, bool image)
{
	uint64_t quarter = memory_max ? memory_max / 4 : 512 * MIB;

	ADD(c, "--proc", "/proc", "--dev", "/dev");
	add_tmpfs(c, "/dev/shm", "1777", between(4 * MIB, quarter, 256 * MIB));
	ADD(c, "--remount-ro", "/dev"); /* or files could be made there without bound */
	add_tmpfs(c, "/tmp", "1777", between(4 * MIB, quarter, 512 * MIB));
	add_tmpfs(c, "/var/tmp", "1777", between(4 * MIB, quarter, 512 * MIB));
	add_tmpfs(c, "/run", "0755", between(1 * MIB, quarter, 16 * MIB));
	ADD(c, "--dir", "/run/lock");
	if (!image) /* which has them */
		ADD(c, "--symlink", "/run", "/var/run", "--symlink", "/run/lock", "/var/lock");
}

/*
 * Links, resolved inside: a mount would have its source looked up outside, along links that the sandbox made. muxlet
 * makes what they lead to.
 */
static void add_persist(struct cmdline *c, const char *list)
{
	char path[256];
	size_t at = 0;

	while (list && persist_next(list, &at, path, sizeof(path))) {
		ADD(c, "--symlink");
		cmdline_add(c, "%s%s", PERSIST_ROOT, path);
		ADD(c, path);
	}
}

/* Behind what an image says: these win. */
static void add_environment(struct cmdline *c, const struct cmdline_image *image, const char *shell)
{
	const char *path = image ? cmdline_image_env(image, "PATH") : NULL;

	ADD(c, "--setenv", "HOME", "/workspace", "--setenv", "PATH");
	cmdline_add(c, "/workspace/.local/bin:%s",
		    path ? path : "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin");
	ADD(c, "--setenv", "USER", "agent", "--setenv", "LOGNAME", "agent", "--setenv", "SHELL", shell);
	if (!image || !cmdline_image_env(image, "LANG"))
		ADD(c, "--setenv", "LANG", "C.UTF-8");
}

/* In a memory file: an image has more words than this line, and its variables are for nobody who looks at processes. */
static int add_image(struct cmdline *c, const struct cmdline_params *p, struct err *e)
{
	struct buf words;
	int rc;

	buf_init(&words, CMDLINE_IMAGE_MAX);
	rc = cmdline_image(p->image, p->persist, &words, e);
	if (rc == 0)
		rc = cmdline_memfile("image", buf_ptr(&words), buf_len(&words), &c->data[c->ndata], e);
	buf_finish(&words);
	if (rc)
		return rc;
	ADD(c, "--args");
	cmdline_add(c, "%zu", CMDLINE_FD_DATA + c->ndata++);
	return 0;
}

static const char *shell_pick(const char *wanted)
{
	if (wanted && *wanted)
		return wanted;
	return access("/usr/bin/bash", X_OK) == 0 || access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
}

int cmdline_make(const struct cmdline_params *p, struct cmdline *out, struct err *e)
{
	const char *shell = shell_pick(p->shell);
	struct cmdline c = {0};
	int rc = 0;

	/* No --new-session (muxlet makes a session for each terminal) and no --die-with-parent (it outlives us). */
	ADD(&c, p->bwrap, "--unshare-all", "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000",
	    "--as-pid-1", "--cap-drop", "ALL", "--hostname", p->agent, "--clearenv");
	if (p->image)
		rc = add_image(&c, p, e);
	else
		add_system(&c);
	rc = rc ? rc : add_etc(&c, p, shell, e);
	add_volatile(&c, p->memory_max, p->image);
	add_persist(&c, p->persist);
	ADD(&c, p->read_only ? "--ro-bind" : "--bind", p->workspace, "/workspace", "--ro-bind", p->muxlet,
	    "/.muxlet/muxlet", "--remount-ro", "/", "--chdir", "/workspace");
	add_environment(&c, p->image, shell);
	ADD(&c, "--info-fd");
	cmdline_add(&c, "%d", CMDLINE_FD_INFO);
	ADD(&c, "--seccomp");
	cmdline_add(&c, "%d", CMDLINE_FD_SECCOMP);
	ADD(&c, "--", "/.muxlet/muxlet", "--listen-fd");
	cmdline_add(&c, "%d", CMDLINE_FD_LISTEN);
	ADD(&c, "--secret-fd");
	cmdline_add(&c, "%d", CMDLINE_FD_SECRET);
	ADD(&c, "--shell", shell);
	if (p->pids) {
		ADD(&c, "--pids");
		cmdline_add(&c, "%u", p->pids);
	}
	if (p->persist && *p->persist)
		ADD(&c, "--persist", p->persist);
	if (p->programs) {
		ADD(&c, "--programs-fd");
		cmdline_add(&c, "%d", CMDLINE_FD_PROGRAMS);
	}
	if (rc == 0 && c.n >= CMDLINE_ARGS_MAX)
		rc = err_set(e, ERR_NOMEM, "no memory for the command line of bwrap");
	if (rc)
		cmdline_finish(&c);
	else
		*out = c;
	return rc;
}

void cmdline_finish(struct cmdline *c)
{
	for (size_t i = 0; i < CMDLINE_ARGS_MAX; i++)
		free(c->argv[i]);
	for (size_t i = 0; i < c->ndata; i++)
		close(c->data[i]);
	memset(c, 0, sizeof(*c));
}

#include "control/local/cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROC_TEXT_MAX (1024 * 1024)

static const char *const kind_names[CGROUP_KINDS] = {"memory", "pids", "cpu", "cpuacct"};

const char *cgroup_kind_name(enum cgroup_kind k)
{
	return kind_names[k];
}

/* Is word one of the comma-separated words in list (len bytes)? */
static bool list_has(const char *list, size_t len, const char *word)
{
	size_t n = strlen(word);

	while (len > 0) {
		const char *comma = memchr(list, ',', len);
		size_t one = comma ? (size_t)(comma - list) : len;

		if (one == n && memcmp(list, word, n) == 0)
			return true;
		if (!comma)
			break;
		len -= one + 1;
		list = comma + 1;
	}
	return false;
}

/* Our path in the hierarchy of a controller (NULL: version 2), from lines "4:memory:/path". */
static bool self_path(const char *self, const char *controller, char *out, size_t size)
{
	for (const char *line = self; *line;) {
		const char *end = strchrnul(line, '\n');
		const char *list = memchr(line, ':', (size_t)(end - line));
		const char *path = list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;

		if (path) {
			size_t list_len = (size_t)(path - list - 1);
			size_t n = (size_t)(end - path - 1);

			if ((controller ? list_has(list + 1, list_len, controller) : list_len == 0) && n < size) {
				memcpy(out, path + 1, n);
				out[n] = '\0';
				return true;
			}
		}
		line = *end ? end + 1 : end;
	}
	return false;
}

static void place_add(struct cgroup_place *p, const char *mount, const char *path)
{
	char dir[CGROUP_PATH_MAX];
	size_t i = 0, n = strlen(path);

	while (n > 0 && path[n - 1] == '/')
		n--;
	/* bytes: a path, refused when it does not fit */
	if ((size_t)snprintf(dir, sizeof(dir), "%s%.*s", mount, (int)n, path) >= sizeof(dir))
		return;
	for (; i < CGROUP_PLACES && p->dir[i][0]; i++)
		if (strcmp(p->dir[i], dir) == 0)
			return;
	if (i < CGROUP_PLACES)
		memcpy(p->dir[i], dir, sizeof(dir));
}

/* Own group first, its parent (version 2: free of processes where somebody delegated it), then the root. */
static void place_fill(struct cgroup_place *p, const char *mount, const char *root, const char *own, bool v2)
{
	size_t n = strlen(root);
	char parent[CGROUP_PATH_MAX];
	char *slash;

	if (strcmp(root, "/") == 0)
		n = 0;
	if (strncmp(own, root, n) == 0 && (own[n] == '/' || !own[n]) && !strstr(own, "/..")) {
		place_add(p, mount, own + n);
		snprintf(parent, sizeof(parent), "%s", own + n);
		slash = strrchr(parent, '/');
		if (v2 && slash && slash != parent) {
			*slash = '\0';
			place_add(p, mount, parent);
		}
	}
	place_add(p, mount, "");
}

/* mountinfo writes blank, tab, line end and backslash as three octal digits. */
static void unescape(char *s)
{
	char *to = s;

	for (const char *p = s; *p; p++) {
		if (p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] >= '0' && p[2] <= '7' && p[3] >= '0' &&
		    p[3] <= '7') {
			*to++ = (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
			p += 3;
		} else {
			*to++ = *p;
		}
	}
	*to = '\0';
}

/* "42 41 0:38 ROOT MOUNT rw,relatime - TYPE SOURCE OPTIONS" */
static void mount_line(const char *line, size_t len, const char *self, struct cgroup_layout *out)
{
	char text[2048], root[512], mount[512], own[CGROUP_PATH_MAX];
	char type[32], super[512];
	const char *dash;

	if (len >= sizeof(text))
		return;
	memcpy(text, line, len);
	text[len] = '\0';
	dash = strstr(text, " - ");
	if (!dash || sscanf(text, "%*s %*s %*s %511s %511s", root, mount) != 2 ||
	    sscanf(dash + 3, "%31s %*s %511s", type, super) != 2)
		return;
	unescape(root);
	unescape(mount);
	if (strcmp(type, "cgroup2") == 0) {
		if (!out->v2.dir[0][0] && self_path(self, NULL, own, sizeof(own)))
			place_fill(&out->v2, mount, root, own, true);
		return;
	}
	if (strcmp(type, "cgroup") != 0)
		return;
	for (int k = 0; k < CGROUP_KINDS; k++)
		if (!out->v1[k].dir[0][0] && list_has(super, strlen(super), kind_names[k]) &&
		    self_path(self, kind_names[k], own, sizeof(own)))
			place_fill(&out->v1[k], mount, root, own, false);
}

void cgroup_layout_parse(const char *mountinfo, const char *self, struct cgroup_layout *out)
{
	memset(out, 0, sizeof(*out));
	for (const char *line = mountinfo; *line;) {
		const char *end = strchrnul(line, '\n');

		mount_line(line, (size_t)(end - line), self, out);
		line = *end ? end + 1 : end;
	}
}

/* Files of /proc give their length only by being read. NULL when it cannot be read. */
static char *proc_text(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0, cap = 16384;
	char *text = fd < 0 ? NULL : malloc(cap);
	ssize_t n = -1;

	while (text && (n = read(fd, text + len, cap - len - 1)) > 0) {
		len += (size_t)n;
		if (len + 1 == cap && cap < PROC_TEXT_MAX) {
			char *more = realloc(text, cap *= 2);

			if (!more)
				free(text);
			text = more;
		}
	}
	if (fd >= 0)
		close(fd);
	if (text && n < 0) {
		free(text);
		return NULL;
	}
	if (text)
		text[len] = '\0';
	return text;
}

void cgroup_layout_read(struct cgroup_layout *out)
{
	char *mountinfo = proc_text("/proc/self/mountinfo");
	char *self = proc_text("/proc/self/cgroup");

	memset(out, 0, sizeof(*out));
	if (mountinfo && self)
		cgroup_layout_parse(mountinfo, self, out);
	free(mountinfo);
	free(self);
}

#include "muxd/base/slurp.h"

#include "muxd/base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As much of data as is there; *out_len counts what came before a failure, too. */
static int read_all(int fd, const char *path, char *data, size_t size, size_t *out_len, struct err *e)
{
	*out_len = 0;
	while (*out_len < size) {
		ssize_t n = read(fd, data + *out_len, size - *out_len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, errno, "read %s", path);
		if (n == 0)
			break;
		*out_len += (size_t)n;
	}
	return 0;
}

int slurp_fd(int fd, const char *path, size_t max, char **out, size_t *out_len, struct err *e)
{
	char *data = malloc(max + 1);
	size_t len = 0;
	int rc;

	if (!data)
		return err_set(e, ERR_NOMEM, "no memory for %s", path);
	rc = read_all(fd, path, data, max + 1, &len, e);
	if (rc == 0 && len > max)
		rc = err_set(e, ERR_TOO_LARGE, "%s is larger than %zu bytes", path, max);
	if (rc < 0) {
		slurp_free(data, len);
		return rc;
	}
	data[len] = '\0';
	*out = data;
	*out_len = len;
	return 0;
}

int slurp_file(const char *path, int flags, size_t max, char **out, size_t *out_len, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
	int rc;

	if (fd < 0)
		return err_sys(e, errno, "open %s", path);
	rc = slurp_fd(fd, path, max, out, out_len, e);
	close(fd);
	return rc;
}

void slurp_free(char *data, size_t len)
{
	if (data)
		explicit_bzero(data, len);
	free(data);
}

#include "control/kube/file.h"

#include "muxd/base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int read_all(int fd, const char *path, char *data, size_t size, size_t *out_len, struct err *e)
{
	size_t len = 0;

	while (len < size) {
		ssize_t n = read(fd, data + len, size - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, errno, "read %s", path);
		if (n == 0)
			break;
		len += (size_t)n;
	}
	*out_len = len;
	return 0;
}

int kube_file_read(const char *path, size_t max, char **out, size_t *out_len, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t len = 0;
	int rc;

	if (fd < 0)
		return err_sys(e, errno, "open %s", path);
	char *data = malloc(max + 1);
	if (!data)
		rc = err_set(e, ERR_NOMEM, "no memory for %s", path);
	else
		rc = read_all(fd, path, data, max + 1, &len, e);
	close(fd);
	if (rc == 0 && len > max)
		rc = err_set(e, ERR_TOO_LARGE, "%s is larger than %zu bytes", path, max);
	if (rc < 0) {
		kube_file_free(data, len);
		return rc;
	}
	data[len] = '\0';
	*out = data;
	*out_len = len;
	return 0;
}

void kube_file_free(char *data, size_t len)
{
	if (data)
		explicit_bzero(data, len);
	free(data);
}

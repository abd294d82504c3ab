#include "muxd/hub/session/file_op.h"

#include "base/err.h"

#include <errno.h>
#include <string.h>

static const struct file_op_row rows[FILE_OPS] = {
    [FILE_PUT] = {"put", "file.put", .takes = true},
    [FILE_GET] = {"get", "file.get", .gives = true},
    [FILE_STAT] = {"stat", "file.stat", .asks = true, .looks = true},
    [FILE_LIST] = {"list", "file.list", .asks = true, .looks = true},
    [FILE_READ] = {"read", "file.read", .asks = true, .looks = true},
    [FILE_WRITE] = {"write", "file.write", .asks = true, .takes = true},
    [FILE_APPEND] = {"append", "file.append", .asks = true, .takes = true},
    [FILE_MKDIR] = {"mkdir", "file.mkdir", .asks = true},
    [FILE_MOVE] = {"move", "file.move", .asks = true},
    [FILE_COPY] = {"copy", "file.copy", .asks = true},
    [FILE_DELETE] = {"delete", "file.delete", .asks = true},
    [FILE_CHMOD] = {"chmod", "file.chmod", .asks = true},
    [FILE_PATCH] = {"patch", "file.patch", .asks = true, .takes = true},
    [FILE_SEARCH] = {"search", "file.search", .asks = true, .looks = true},
    [FILE_GLOB] = {"glob", "file.glob", .asks = true, .looks = true},
    [FILE_WATCH] = {"watch", "file.watch", .asks = true, .gives = true, .later = true, .lasts = true},
    [FILE_TREE_GET] = {"tree_get", "file.tree_get", .asks = true, .gives = true, .later = true},
    [FILE_TREE_PUT] = {"tree_put", "file.tree_put", .asks = true, .takes = true, .later = true},
    [FILE_CHANGES] = {"changes", "file.changes", .asks = true, .takes = true, .gives = true, .newest = true},
};

const struct file_op_row *file_op_row(enum file_op op)
{
	return &rows[op];
}

const char *file_op_name(enum file_op op)
{
	return rows[op].name;
}

int file_op_parse(const char *name, enum file_op *out)
{
	for (int i = 0; i < FILE_OPS; i++) {
		if (strcmp(rows[i].name, name) != 0)
			continue;
		*out = (enum file_op)i;
		return 0;
	}
	return ERR_NOT_FOUND;
}

struct reason {
	int errnum, code;
	const char *text; /* NULL: strerror has it */
};

static const struct reason reasons[] = {
    {ENOSPC, ERR_NO_SPACE, NULL},
    {EDQUOT, ERR_NO_SPACE, NULL},
    {EACCES, ERR_FILE_DENIED, NULL},
    {EPERM, ERR_FILE_DENIED, NULL},
    {EROFS, ERR_FILE_DENIED, NULL},
    {ENOENT, ERR_NO_FILE, NULL},
    {ENOTDIR, ERR_NO_FILE, NULL},
    {EISDIR, ERR_NOT_A_FILE, NULL},
    {ENODEV, ERR_NOT_A_FILE, "it is neither a file nor a directory"},
    {ENAMETOOLONG, ERR_INVAL, NULL},
    {ELOOP, ERR_INVAL, NULL},
    {EINVAL, ERR_INVAL, NULL},
    {EBADMSG, ERR_TRANSFER, "its content did not arrive whole"},
    {ESTALE, ERR_TRANSFER, "it became shorter while it was read"},
    {EMSGSIZE, ERR_TOO_LARGE, "it is larger than your grant lets a file be"}, /* whose limit: transfer.h, over */
    {EFBIG, ERR_TOO_LARGE, "it is larger than a file may be"},
    {EDOM, ERR_PATH_DENIED, "your grant does not allow that path, or a link is on the way"},
};

/* Of operations, before those above. */
static const struct reason asked[] = {
    {EXDEV, ERR_PATH_OUTSIDE, "the path leads outside the workspace"},
    {EEXIST, ERR_FILE_EXISTS, NULL},
    {ENOTEMPTY, ERR_NOT_EMPTY, NULL},
    {ENOTDIR, ERR_NOT_A_DIRECTORY, NULL},
    {ERANGE, ERR_RANGE, "the range begins behind its end"},
    {ECANCELED, ERR_FILE_CHANGED, "it is not what if_match says"},
    {EFBIG, ERR_TOO_LARGE, NULL},
    {ENOMSG, ERR_PATCH, "the patch does not fit"},
    {EAGAIN, ERR_AGAIN, "names in its path are being changed"},
    {EOPNOTSUPP, ERR_UNSUPPORTED, NULL},
    {ENOSYS, ERR_UNSUPPORTED, "the sandbox's kernel or its seccomp filter lacks openat2"},
};

static const struct reason *find(const struct reason *list, size_t n, int errnum)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].errnum == errnum)
			return &list[i];
	return NULL;
}

int file_op_error(const struct file_op_row *row, int errnum, const char **out_text)
{
	const struct reason *r = row->asks ? find(asked, sizeof(asked) / sizeof(asked[0]), errnum) : NULL;

	if (!r)
		r = find(reasons, sizeof(reasons) / sizeof(reasons[0]), errnum);
	*out_text = r ? r->text : NULL;
	return r ? r->code : ERR_TRANSFER;
}

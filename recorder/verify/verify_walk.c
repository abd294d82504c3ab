#include "recorder/verify/verify_whole.h"

#include "base/err.h"
#include "recorder/chain/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A damaged header does not say whose file it is; its name still does. */
static void name_session(const char *name, struct verify_result *r)
{
	char text[ID_STR_LEN];

	if (!id_is_nil(&r->session) || strlen(name) < ID_STR_LEN - 1)
		return;
	memcpy(text, name, ID_STR_LEN - 1);
	text[ID_STR_LEN - 1] = '\0';
	(void)id_parse(text, &r->session); /* a name that is no id leaves it nil: unknown to the log */
}

static int is_recording(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && strcmp(name + n - 5, ".mrec") == 0;
}

/*
 * What could not be judged as a recording is a finding of its own, and the others are still looked at. What is gone was
 * sealed or removed while we looked: the log decides. An open one is written and cut at work.
 */
static int not_judged(struct verify_whole *w, const char *path, const char *name, bool open, int rc,
		      const struct err *why)
{
	struct verify_result r = {0};

	if (rc == ERR_NOT_FOUND)
		return 0;
	if (rc != ERR_NOT_A_FILE && rc != ERR_SYS && rc != ERR_EOF)
		return rc;
	name_session(name, &r);
	if (rc == ERR_NOT_A_FILE)
		verify_whole_found(w, VERIFY_INTEGRITY, "wrong_kind", path, &r.session, "%s", why->message);
	else if (rc == ERR_SYS || !open)
		verify_whole_found(w, VERIFY_INTEGRITY, "file_unreadable", path, &r.session, "%s", why->message);
	return 0;
}

static int walk_file(struct verify_whole *w, const char *path, const char *name, const char *day, struct err *e)
{
	struct verify_result r;
	struct err why = {0};
	int rc = verify_whole_file(w, path, day != NULL, &r, &why);

	if (rc) {
		rc = not_judged(w, path, name, !day, rc, &why);
		return rc ? err_set(e, rc, "%s", why.message) : 0;
	}
	name_session(name, &r);
	w->sum->recordings++;
	w->sum->open += day == NULL;
	if (day)
		verify_whole_compare(w, path, day, &r);
	if (w->ask->each)
		w->ask->each(w->ask->arg, path, &r);
	return 0;
}

/* 0 and NULL: there is none, or it is none and that was told. */
static int open_folder(struct verify_whole *w, const char *path, DIR **out, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	*out = NULL;
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP || errno == ENXIO)) {
		verify_whole_found(w, VERIFY_INTEGRITY, "wrong_kind", path, NULL, "%s is not a folder", path);
		return 0;
	}
	*out = fd < 0 ? NULL : fdopendir(fd);
	if (*out)
		return 0;
	int rc = err_sys(e, errno, "cannot read the folder %s", path);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Every recording of one folder. day: NULL for open/. */
static int walk_folder(struct verify_whole *w, const char *folder, const char *day, struct err *e)
{
	char path[FILE_PATH_MAX];
	struct dirent *de;
	DIR *d;
	int rc = open_folder(w, folder, &d, e);

	while (d && !rc && (de = readdir(d))) {
		if (!is_recording(de->d_name))
			continue;
		rc = file_path(path, e, "%s/%s", folder, de->d_name);
		if (!rc)
			rc = walk_file(w, path, de->d_name, day, e);
	}
	if (d)
		closedir(d);
	return rc;
}

static int walk_sealed(struct verify_whole *w, struct err *e)
{
	char sealed[FILE_PATH_MAX], folder[FILE_PATH_MAX];
	struct dirent *de;
	DIR *d = NULL;
	int rc = file_path(sealed, e, "%s/sealed", w->ask->dir);

	if (!rc)
		rc = open_folder(w, sealed, &d, e);
	while (d && !rc && (de = readdir(d))) {
		if (de->d_name[0] == '.')
			continue;
		rc = file_path(folder, e, "%s/%s", sealed, de->d_name);
		if (!rc)
			rc = walk_folder(w, folder, de->d_name, e);
	}
	if (d)
		closedir(d);
	return rc;
}

int verify_walk(struct verify_whole *w, struct err *e)
{
	char folder[FILE_PATH_MAX];
	int rc = file_path(folder, e, "%s/open", w->ask->dir);

	if (!rc)
		rc = walk_sealed(w, e);
	return rc ? rc : walk_folder(w, folder, NULL, e);
}

/*
 * A main() for a fuzz target where no fuzzing engine is: each file named, and
 * each file in a directory named, goes through LLVMFuzzerTestOneInput() once.
 * A crash or a sanitizer's finding is the failure; the file's name is printed
 * first when it happens. A file that cannot be read fails too.
 */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *volatile current = "";

static void crashed(int sig)
{
	static const char text[] = "failed at ";

	if (write(2, text, sizeof(text) - 1) < 0 || write(2, current, strlen(current)) < 0 || write(2, "\n", 1) < 0)
		_exit(2);
	signal(sig, SIG_DFL);
	raise(sig);
}

/* The input gets an allocation of its exact size, so that a sanitizer sees a read past its end. */
static int run_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = NULL;
	long size = -1;
	int failed = 1;

	current = path;
	if (f && fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0 && fseek(f, 0, SEEK_SET) == 0)
		data = malloc(size ? (size_t)size : 1);
	if (data && fread(data, 1, (size_t)size, f) == (size_t)size) {
		LLVMFuzzerTestOneInput(data, (size_t)size);
		failed = 0;
	} else {
		perror(path);
	}
	free(data);
	if (f)
		fclose(f);
	return failed;
}

static void run_path(const char *path, int *passed, int *failed)
{
	struct stat st;
	struct dirent *d;
	char file[4096];

	if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
		*(run_file(path) ? failed : passed) += 1;
		return;
	}
	DIR *dir = opendir(path);
	if (!dir) {
		perror(path);
		++*failed;
		return;
	}
	while ((d = readdir(dir))) {
		snprintf(file, sizeof(file), "%s/%s", path, d->d_name);
		if (stat(file, &st) == 0 && S_ISREG(st.st_mode))
			*(run_file(file) ? failed : passed) += 1;
	}
	closedir(dir);
}

int main(int argc, char **argv)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
	int passed = 0, failed = 0;

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], crashed);
	for (int i = 1; i < argc; i++)
		run_path(argv[i], &passed, &failed);
	printf("%d passed, %d failed\n", passed, failed);
	return failed || passed == 0;
}

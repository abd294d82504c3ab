/*
 * How long a snapshot of a 100 MB workspace takes, its restore, a start from it until the first answer from inside, a
 * fork to another uid, and how long programs stand still meanwhile. Prints the middle and the worst of the runs in ms.
 *
 *   local_snapshot [image|plain] [runs]          LOCAL_BOX_DIR: on another file system than /tmp
 */
#include "tests/lib/local_box.h"

#include <fcntl.h>

#define FORM_LINE                                                                                                      \
	"head -c 70M /dev/urandom > a; mkdir d; for i in $(seq 3000); do head -c 10240 a > d/$i; done; sync; echo "    \
	"done"

struct times {
	const char *what;
	double ms[200];
	int n;
};

static double now_ms(void)
{
	return (double)clock_boot_ns() / 1e6;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void tell(struct times *t)
{
	qsort(t->ms, (size_t)t->n, sizeof(t->ms[0]), compare);
	printf("%-34s p50 %7.1f ms   worst %7.1f ms   (%d)\n", t->what, t->ms[t->n / 2], t->ms[t->n - 1], t->n);
}

static void add(struct times *t, double since)
{
	t->ms[t->n++] = now_ms() - since;
}

static double need(int rc, const struct err *e)
{
	if (rc) {
		fprintf(stderr, "%s: %s\n", err_name(rc), e->message);
		exit(1);
	}
	return now_ms();
}

static void first_answer(struct box *b, const char *agent, struct times *t, double since)
{
	struct sandbox_info info;
	struct err e = {0};
	int fd = -1;

	need(local_ensure(b->l, agent, &info, &fd, &e), &e);
	if (strcmp(ask_fd(fd, "echo here"), "here\n") != 0)
		exit(1);
	add(t, since);
}

static void run(struct box *b, int runs)
{
	static struct times take = {.what = "snapshot of one that runs"},
			    quiet = {.what = "snapshot of one that is stopped"}, back = {.what = "restore"},
			    start = {.what = "start from it to the first answer"},
			    resume = {.what = "restore and start: resume"},
			    warm = {.what = "start with a workspace that is there"},
			    copy = {.what = "fork: restore and start, other uid"}, drop = {.what = "snapshot removed"};
	struct sandbox_snapshot s = {0};
	struct sandbox_info info;
	struct err e = {0};

	if (!strstr(ask(b, "demo", FORM_LINE), "done"))
		exit(1);
	for (int i = 0; i < runs; i++) {
		struct id id, again;
		double t0, t1;

		id_new(&id), id_new(&again);
		ask(b, "demo", "date > now");
		t0 = now_ms();
		need(local_snapshot_take(b->l, "demo", &id, 60 * NS_PER_SEC, &s, &e), &e);
		add(&take, t0);
		need(local_destroy_sandbox(b->l, "demo", false, &e), &e);
		t0 = now_ms();
		need(local_snapshot_take(b->l, "demo", &again, 60 * NS_PER_SEC, &s, &e), &e);
		add(&quiet, t0);
		first_answer(b, "demo", &warm, now_ms());
		need(local_destroy_sandbox(b->l, "demo", false, &e), &e);
		need(local_drop_workspace(b->l, "demo", &info, &e), &e);
		t0 = now_ms();
		need(local_restore(b->l, "demo", "demo", &id, false, 60 * NS_PER_SEC, &info, &e), &e);
		add(&back, t0);
		t1 = now_ms();
		first_answer(b, "demo", &start, t1);
		add(&resume, t0);
		t0 = now_ms();
		need(local_restore(b->l, "copy", "demo", &id, false, 60 * NS_PER_SEC, &info, &e), &e);
		first_answer(b, "copy", &copy, t0);
		need(local_destroy_sandbox(b->l, "copy", true, &e), &e);
		t0 = now_ms();
		need(local_snapshot_drop(b->l, "demo", &id, &e), &e);
		add(&drop, t0);
		need(local_snapshot_drop(b->l, "demo", &again, &e), &e);
	}
	printf("%s, %.0f MB on disk\n", s.how, (double)s.size / 1e6);
	tell(&take), tell(&quiet), tell(&drop), tell(&back), tell(&start), tell(&resume), tell(&warm), tell(&copy);
}

int main(int argc, char **argv)
{
	int runs = argc > 2 ? atoi(argv[2]) : 10, rc;
	struct box b;

	if (!box_begin(argc, argv, &rc))
		return rc;
	box_open(&b, "bench");
	b.c.workspace_size = 1024 * MIB;
	b.c.memory_max = 512 * MIB;
	local_destroy(b.l);
	b.l = box_local(&b, true);
	if (argc > 1 && strcmp(argv[1], "plain") == 0) {
		char path[600];

		snprintf(path, sizeof(path), "%s/sandboxes/demo", b.dir);
		mkdir(path, 0700);
		snprintf(path, sizeof(path), "%s/sandboxes/demo/workspace", b.dir);
		mkdir(path, 0700);
	}
	run(&b, runs > 0 && runs <= 200 ? runs : 10);
	box_wipe(&b);
	return box_end(0);
}

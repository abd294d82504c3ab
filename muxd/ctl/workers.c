#include "muxd/ctl/workers.h"

#include "muxd/monitor/identity.h"
#include "recorder/draw/drawer.h"

#include <unistd.h>

static int workers_on_ask(void *arg, struct err *e)
{
	struct workers *w = arg;
	int fd;

	screens_finish(&w->screens);
	int rc = screens_start(&w->screens, SCREENS_NICE_RECORDED, &fd, e);
	if (rc == 0)
		drawers_answer(w->drawers, fd);
	return rc;
}

int workers_begin(struct workers *w, struct err *e)
{
	struct drawers_params p = {.ask = workers_on_ask, .arg = w};

	*w = (struct workers){.screens.who = FILE_OWNER_SELF};
	if (geteuid() == 0)
		w->screens.who = (struct file_owner){IDENTITY_SCREEN_UID, IDENTITY_SCREEN_UID};
	int rc = screens_find(&w->screens, e);
	return rc ? rc : drawers_create(&p, &w->drawers, e);
}

void workers_finish(struct workers *w)
{
	screens_finish(&w->screens);
	drawers_destroy(w->drawers);
	w->drawers = NULL;
}

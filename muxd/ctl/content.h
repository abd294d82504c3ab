/*
 * content.h - what a sandbox holds or printed, on its way out of muxctl: a file, output, an artifact.
 *
 * A file or a pipe gets the bytes. Onto a terminal it is a look at what others made (base/tamer.h): what draws is
 * written, and with --raw, where a command has it, all of it.
 *
 * Owned by its command, for one descriptor and as long as its pieces belong together.
 */
#ifndef MUXD_CTL_CONTENT_H
#define MUXD_CTL_CONTENT_H

#include "base/tamer.h"
#include "muxd/ctl/ctl.h"

struct content {
	int fd;
	bool tame;
	struct tamer tamer;
	struct buf tamed; /* empty between two calls */
};

#define CONTENT_RAW                                                                                                    \
	{                                                                                                              \
		"raw", 0, NULL, "Onto a terminal, too, the bytes as they are; what they say to it, yours obeys."       \
	}

void content_open(struct content *w, int fd, bool raw);
int content_write(struct content *w, const void *p, size_t n, struct err *e);
/* The bytes of {"data", "encoding"}. ERR_PROTOCOL: it has none. */
int content_data(struct content *w, const json_t *o, struct err *e);
/* As api_flow and its like want it; arg: the content. */
int content_take(void *arg, const void *p, size_t n, struct err *e);
void content_close(struct content *w); /* the descriptor stays open */

#endif

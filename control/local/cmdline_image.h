/*
 * cmdline_image.h - the part of bwrap's command line that an image's root makes: words for --args, each with its NUL.
 *
 * What lies in the root is bound read-only, each by its own: so that what the sandbox adds beside it (/workspace, /tmp)
 * needs no place in it. A directory above a path that persists is made anew, and what it holds is bound into it. No
 * path is followed along a link: links are made again inside, as links, and none may lie above a path that persists.
 */
#ifndef CONTROL_LOCAL_CMDLINE_IMAGE_H
#define CONTROL_LOCAL_CMDLINE_IMAGE_H

#include "control/local/cmdline.h"

struct buf;

#define CMDLINE_IMAGE_MAX (1 << 20) /* bytes */

/* Appends. ERR_IMAGE: too much lies in what has to be taken apart, or a link is in a persisting path's way. */
int cmdline_image(const struct cmdline_image *image, const char *persist, struct buf *out, struct err *e);
/* The value of a variable of the image; NULL: it has none. */
const char *cmdline_image_env(const struct cmdline_image *image, const char *name);

#endif

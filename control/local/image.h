/*
 * image.h - the workspace as an ext4 image in a sparse file: a hard cap of bytes.
 *
 * workspace.img is as large as the cap and takes disk space as it fills. It is
 * attached to a loop device that detaches itself (autoclear) with its last
 * user, and mounted only in the sandbox's own mount namespace; so when the
 * sandbox dies, mount and device go with it, whatever happens to the monitor.
 *
 * One image must never be mounted twice: image_in_use() looks at the loop
 * devices themselves, not at what some file says.
 */
#ifndef CONTROL_LOCAL_IMAGE_H
#define CONTROL_LOCAL_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

#define IMAGE_NAME     "workspace.img"
#define IMAGE_SIZE_MIN (UINT64_C(4) << 20)
#define IMAGE_LOOP_MAX 32 /* bytes of "/dev/loop123" */

/* Can this process have loop devices? ERR_UNSUPPORTED says why not. Makes a missing /dev/loop-control. */
int image_loops_check(struct err *e);
bool image_exists(int dir);
/* A new image of `size` bytes whose root belongs to uid:gid. Appears whole or not at all. */
int image_make(int dir, uint64_t size, uid_t uid, gid_t gid, struct err *e);
/*
 * Held while the image is repaired or attached, by the tool as well: one that outlives its daemon is not met by
 * another, nor by a mount. Waits a little. ERR_SANDBOX_CREATE: it is still at work. close() lets go.
 */
int image_lock(int dir, int *out_fd, struct err *e);
/*
 * Repairs what a power cut left (e2fsck -p), only when the file system was not
 * cleanly unmounted. ERR_CORRUPT: e2fsck's words; *out_repaired: it changed something.
 */
int image_check(int dir, bool *out_repaired, struct err *e);
/* Attached to a free loop device: its path, and a descriptor that holds it until the mount does. */
int image_attach(int dir, char out_path[IMAGE_LOOP_MAX], int *out_fd, struct err *e);
/* Is a loop device attached to this image? Its path into out (may be NULL). */
bool image_in_use(int dir, char out_path[IMAGE_LOOP_MAX]);
/* Waits until no loop device has it: ERR_TIMEOUT. */
int image_wait_free(int dir, uint64_t deadline_ns, struct err *e);

#endif

/*
 * program.h - the muxlet that is streamed into containers which have none: its bytes and what is known of them.
 * Owned by the provider; read once, so that an upgrade on disk never changes it in the middle of a delivery.
 */
#ifndef CONTROL_KUBE_PODS_PROGRAM_H
#define CONTROL_KUBE_PODS_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

struct err;

#define PROGRAM_MAX (32 * 1024 * 1024)

struct program {
	uint8_t *bytes;
	size_t len;
	char sha256[65];
	char machine[16]; /* as uname -m says it; "" for an ELF machine that is not known here */
};

/* From the start of the file, whatever fd's offset; fd stays the caller's. ERR_INVAL for what is no ELF program. */
int program_read(int fd, struct program *out, struct err *e);
void program_finish(struct program *p);

#endif

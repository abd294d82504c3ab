/*
 * listen.h - every listening socket of the daemon, bound by the monitor alone.
 *
 * They stay open here, so that a restarted child finds its clients waiting in
 * the queue. Local sockets belong to the person who started the daemon.
 */
#ifndef MUXD_MONITOR_LISTEN_H
#define MUXD_MONITOR_LISTEN_H

struct layout;
struct identity;
struct err;

#define ADDRESS_MAX 80

struct listeners {
	int https, ssh, admin, api, recorder;                      /* -1: not open */
	char https_address[ADDRESS_MAX], ssh_address[ADDRESS_MAX]; /* with the port that was given */
};

/* https, ssh: NULL: there is no such door. ERR_ADDR_IN_USE and the like name the address. On failure nothing is left
 * open. */
int listeners_open(struct listeners *s, const struct layout *l, const struct identity *who, const char *https,
		   const char *ssh, struct err *e);
/* Closes; unlink_paths: removes the local sockets too (a clean end). */
void listeners_close(struct listeners *s, const struct layout *l, int unlink_paths);
/* "127.0.0.1" of "127.0.0.1:8443"; out is ADDRESS_MAX bytes. Brackets are taken off. */
void address_host(const char *address, char *out);
/* What a client on this machine types: an address of "any" becomes the loopback's. Brackets stay. */
void address_for_client(const char *address, char *out_host, unsigned *out_port);

#endif

/*
 * door.h - what net_main() needs of each door: open, stop taking new clients, close.
 *
 * A door owns its connections; each connection owns its attachments. door_close
 * lets go of every client (saying why where the protocol can) and frees all.
 */
#ifndef MUXD_DOORS_DOOR_H
#define MUXD_DOORS_DOOR_H

struct hub;
struct err;
struct ssh_door;
struct rest_door;

/* listen_fd: bound and listening. host_key_fd: OpenSSH private key file. Both are the door's, also when it fails. */
int ssh_door_open(struct hub *h, int listen_fd, int host_key_fd, struct ssh_door **out, struct err *e);
void ssh_door_reload(struct ssh_door *d); /* configuration changed */
void ssh_door_close(struct ssh_door *d);  /* NULL-safe, as the others */

/*
 * Its limits are read from hub_conf() where they count: another configuration needs no reload.
 * listen_fd: TCP; -1: none. local_fd: a Unix socket with the same API behind the same TLS, for this machine; -1: none.
 * PEM certificate and key. The descriptors are the door's, also when it fails. Closing ends in the loop's next turns
 * (ten or so): run it before uv_loop_close().
 */
int rest_door_open(struct hub *h, int listen_fd, int local_fd, int cert_fd, int key_fd, struct rest_door **out,
		   struct err *e);
void rest_door_close(struct rest_door *d);

#endif

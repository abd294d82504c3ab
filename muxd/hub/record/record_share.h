/*
 * record_share.h - what the record keeps of an agent, counted and asked for: for its sessions (session_share.h), and
 * for its work that is recorded and is no session. Grants of the kind staff stand apart, as everywhere (share.h).
 */
#ifndef MUXD_HUB_RECORD_RECORD_SHARE_H
#define MUXD_HUB_RECORD_RECORD_SHARE_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct grant;
struct hub;
struct session;
struct share;

#define RECORD_SHARE_COST (4 * 1024) /* bytes of the record for what is known of each session, its chain too */

/* May a session of that agent's share go on (NULL: it added nothing)? 0, ERR_RECORD_SHARE. */
int record_share_lets(const struct hub *h, const struct share *agent, uint64_t now, struct err *e);
/* Bytes that are in the journal now, of a session; nothing where it stands apart. */
void record_share_add(struct session *s, uint64_t n);
/* The same of an event of it, with n bytes. */
void record_share_note(struct session *s, size_t n);

/* Of work under that grant: may it begin (0, ERR_RECORD_SHARE)? Its bytes, with RECORD_SHARE_COST for itself. */
int record_share_ask_work(const struct hub *h, const char *agent, const struct grant *g, struct err *e);
void record_share_add_work(struct hub *h, const char *agent, const struct grant *g, uint64_t n);

#endif

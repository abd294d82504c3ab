/*
 * witnesses.h - what the recorder says of the record's witnesses, for /healthz and /metrics (hub_witnesses()).
 *
 * Asked every few seconds, as long as some are configured. The last word stays while the recorder is away: one that
 * starts again has the same witnesses. Owner: the hub.
 */
#ifndef MUXD_HUB_RECORD_WITNESSES_H
#define MUXD_HUB_RECORD_WITNESSES_H

struct hub;
struct witness_words;

struct witness_words *witness_words_create(void);    /* NULL: no memory */
void witness_words_destroy(struct witness_words *w); /* NULL-safe */
void hub_witnesses_tick(struct hub *h);

#endif

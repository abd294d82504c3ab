/*
 * carrier.h - muxd-witness: takes the record's signed heads to the witnesses, and their receipts back.
 *
 * A process of its own, between recorder and network: the recorder has no network, net has no witness's credential, and
 * this one has neither the record nor a key of it. What it can do wrong is to be late, and the recorder sees that
 * (recorder/serve/witnesses.h). It holds nothing that would have to outlive it: what a witness has, the recorder says;
 * only the newest head is ever carried, as the chain covers what is between.
 *
 *   main      asks the recorder twice a second what there is (`news`), and listens to the monitor (descriptor 3)
 *   a thread for each witness: waits for its time, asks for a head, has its kind carry it (kind.h), brings the receipt.
 *             A witness that is slow or gone holds up itself alone: 1 s, 2 s, 4 s ... its interval between two tries
 *
 * A witness is due when there is news that it does not have, and its interval is over or a session of staff was sealed;
 * and once after each start, so that a record that was set back meanwhile is noticed.
 *
 * States: RUNNING -> ENDING (told to stop or to begin again; the monitor or the recorder has gone).
 */
#ifndef MUXD_WITNESS_CARRIER_H
#define MUXD_WITNESS_CARRIER_H

/* Returns the process's exit code. */
int carrier_run(int ipc_fd);

#endif

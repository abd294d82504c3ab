/*
 * checker.h - muxd-issuer: checks tokens of outside issuers, and fetches the keys of those issuers for it.
 *
 * A process of its own, with a user of its own: it has no key that signs, no socket of a client, nothing of the state
 * directory, and starts no program. It knows the issuers as the monitor gives them in its start packet (issuer,
 * audience, CA, times, and which claims to tell), and answers the monitor alone:
 *
 *   {"op":"check","tag","issuer","token","now"} -> {"tag","rc", ...} as jwt_answer() says, or {"tag","rc","error"}
 *   {"op":"keys","issuer","keys","left_out","at_ns","error"}: of its own accord, after each fetch
 *
 * Keys of an issuer: none -> held -> (too old, not to be had) lost -> held. Those older than `refresh` are asked for
 * before they are used; where that fails they count until `keep` is over, and then none do. A kid that is not there has
 * them asked for as well. Fetches have an allowance: FETCHES at once, one more each FETCH_EVERY seconds; a set takes
 * the place of the one before as a whole, so a key that the issuer no longer shows is gone.
 */
#ifndef MUXD_ISSUER_CHECKER_H
#define MUXD_ISSUER_CHECKER_H

/* Until the monitor says stop, or has gone. Returns the exit status. */
int checker_run(int ipc_fd);

#endif

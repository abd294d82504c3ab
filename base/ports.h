/*
 * ports.h - a list of TCP ports as people write it: "3000,8000-8999"; empty: none.
 *
 * Numbers from 1 to 65535 and ranges of them, with commas and any blanks between.
 */
#ifndef BASE_PORTS_H
#define BASE_PORTS_H

#include <stdbool.h>
#include <stdint.h>

struct err;

/* ERR_CONFIG says what is wrong with it. */
int ports_check(const char *list, struct err *e);
/* list: one that ports_check() took. */
bool ports_allow(const char *list, uint16_t port);

#endif

/*
 * scraper.h - the credential of who reads /metrics, and nothing else: a token in the file metrics.token_file.
 *
 * The file has one token on each line (SCRAPER_TOKEN_MIN to SCRAPER_TOKEN_MAX characters; empty lines and those
 * that begin with # are passed over). It is read at each use, so what is written into it counts at once, and what is
 * taken out of it has ended. A scraper has no grant: no other path asks here.
 */
#ifndef MUXD_DOORS_HTTPS_SCRAPER_H
#define MUXD_DOORS_HTTPS_SCRAPER_H

#include <stdbool.h>

#define SCRAPER_TOKEN_MIN 32
#define SCRAPER_TOKEN_MAX 512

/* path "": there is none. What is wrong with the file is logged. */
bool scraper_knows(const char *path, const char *token);

#endif

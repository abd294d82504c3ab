/* asks.h - a question to a provider of sandboxes in one line: ASK(p, done, arg, .op = SANDBOX_STAT, .agent = "box"). */
#ifndef TESTS_LIB_ASKS_H
#define TESTS_LIB_ASKS_H

#include "control/sandbox.h"

#define ASK(p, done, arg, ...) sandbox_ask(p, &(struct sandbox_ask){__VA_ARGS__}, done, arg)

#endif

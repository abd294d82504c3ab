/* The other case of a letter. */
#include "files/match_fold.h"

#include <stddef.h>

/* Letters from..to have their other case `by` further on; pairs: upper case is even (or odd) and lower case follows. */
static const struct {
	uint16_t from, to, by;
	uint8_t pairs;
} table[] = {
    {'A', 'Z', 32, 0},     {0xc0, 0xd6, 32, 0},   {0xd8, 0xde, 32, 0},  {0x100, 0x12f, 1, 1},  {0x132, 0x137, 1, 1},
    {0x139, 0x148, 1, 1},  {0x14a, 0x177, 1, 1},  {0x179, 0x17e, 1, 1}, {0x391, 0x3a1, 32, 0}, {0x3a3, 0x3ab, 32, 0},
    {0x400, 0x40f, 80, 0}, {0x410, 0x42f, 32, 0}, {0x460, 0x481, 1, 1}, {0x48a, 0x4bf, 1, 1},  {0x4c1, 0x4ce, 1, 1},
    {0x4d0, 0x52f, 1, 1},  {0x531, 0x556, 48, 0},
};

uint32_t fold_other(uint32_t cp)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		uint32_t from = table[i].from, to = table[i].to, by = table[i].by;

		if (table[i].pairs && cp >= from && cp <= to)
			return (cp - from) % 2 ? cp - 1 : cp + 1;
		if (!table[i].pairs && cp >= from && cp <= to)
			return cp + by;
		if (!table[i].pairs && cp >= from + by && cp <= to + by)
			return cp - by;
	}
	return cp;
}

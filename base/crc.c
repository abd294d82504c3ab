#include "base/crc.h"

#include <libdeflate.h>

uint32_t crc32_add(uint32_t crc, const void *p, size_t n)
{
	return n ? libdeflate_crc32(crc, p, n) : crc; /* NULL would ask for the initial value */
}

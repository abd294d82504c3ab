// tier: check
/* The tests of test_link_end.c again, with a nursery that makes the programs. */
int with_a_nursery(int argc, char **argv);
#define main with_a_nursery
#include "tests/unit/test_link_end.c"
#undef main

int main(int argc, char **argv)
{
	setenv("RIG_NURSERY", "1", 1);
	return with_a_nursery(argc, argv);
}

/* The test of real.c: encodes every string of the golden file with the real vocabulary. */
#ifndef REAL_H
#define REAL_H

void golden_strings(void **state);

#endif

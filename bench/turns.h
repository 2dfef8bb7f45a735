/* Measurements on demand, one for every line on standard input: programs that are compared take turns, and none of them
 * starts anew for each turn. */
#ifndef ZN_BENCH_TURNS_H
#define ZN_BENCH_TURNS_H

#include <stdbool.h>
#include <stdio.h>

/* Says that the first turn can come. */
static inline void announce_turns(void)
{
    puts("{}");
    fflush(stdout);
}

/* Waits for a line; what the turn before printed is out by then. False at the end of the input. */
static inline bool next_turn(void)
{
    int c;
    fflush(stdout);
    while ((c = getchar()) != EOF && c != '\n')
        ;
    return c != EOF;
}

#endif

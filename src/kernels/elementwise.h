/* For loops over elements whose results may replace an operand: element i depends on element i alone, and the compiler
 * may vectorise. Arguments that are read in such a loop must be copied to locals first: a store of a float could change
 * a float argument. */
#ifndef ZN_ELEMENTWISE_H
#define ZN_ELEMENTWISE_H

#if defined(__clang__)
#define ZN_ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define ZN_ELEMENTWISE _Pragma("GCC ivdep")
#endif

#endif

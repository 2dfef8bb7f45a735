/* For loops over elements whose output may alias an input: element i depends only on element i, so the compiler may
 * vectorise. Copy arguments that such a loop reads to local variables first: the compiler must assume that storing a
 * float may change a float argument. */
#ifndef ZN_ELEMENTWISE_H
#define ZN_ELEMENTWISE_H

#if defined(__clang__)
#define ZN_ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define ZN_ELEMENTWISE _Pragma("GCC ivdep")
#endif

#endif

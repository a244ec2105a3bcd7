/* All kernels for one kind of processor: NAMED(name) is the name that something has for that kind.

   There are no vector instructions here: the loops are such that a compiler makes them. Matrices are row by row, without
   gaps unless it says otherwise. bfloat16 is the upper half of a float's bits. */

/* The beginning of a kernel, and what it was given: an address, which may be null, or an integer. */
#define KERNEL(name) EXPORT void NAMED(name)(const int64_t *given, int64_t from, int64_t to, int64_t part)
#define ADDRESS(type, number) ((type *)(intptr_t)given[number])

#include "functions.h"

#include "attention.h"

#include "cross_entropy.h"

#include "gated.h"

#include "gru.h"

#include "lau.h"

#include "lstm.h"

#include "nematus.h"

#include "search.h"

#undef KERNEL
#undef ADDRESS
#undef NAMED

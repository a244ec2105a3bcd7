/* All kernels for one kind of processor: NAMED(name) is the name that something has for that kind.

   There are no vector instructions here, but in pairs.h: the loops are such that a compiler makes them. Matrices are row
   by row, without gaps unless it says otherwise. bfloat16 is the upper half of a float's bits. */

#include "functions.h"

#include "attention.h"

#include "cross_entropy.h"

#include "gated.h"

#include "gru.h"

#include "lstm.h"

#include "nematus.h"

#ifdef __x86_64__
#include "pairs.h"
#endif

#include "search.h"

#undef NAMED

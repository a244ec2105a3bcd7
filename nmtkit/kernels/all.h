/* All kernels for one kind of processor: NAMED(name) is the name of a symbol for that kind.

   The loops are written for a compiler to vectorise; only pairs.h and tiles.h use intrinsics. Matrices are row-major
   and contiguous unless stated otherwise. A bfloat16 is the upper half of a float's bits. */

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

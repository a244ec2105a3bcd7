/* All kernels for one kind of processor: NAMED(name) is the name that something has for that kind.

   There are no vector instructions here, but in pairs.h: the loops are such that a compiler makes them. Matrices are row
   by row, without gaps unless it says otherwise. bfloat16 is the upper half of a float's bits. */

/* The cells' kernels still take their arguments by number. */
#pragma push_macro("KERNEL")
#undef KERNEL
#pragma push_macro("BODY")
#undef BODY
#pragma push_macro("KERNEL_OF")
#undef KERNEL_OF
/* The beginning of a kernel, and what it was given: an address, which may be null, or an integer. */
#define KERNEL(name) EXPORT void NAMED(name)(const int64_t *given, int64_t from, int64_t to, int64_t part)
#define ADDRESS(type, number) ((type *)(intptr_t)given[number])

/* A kernel whose body is made once for each answer to whether something is low, which is given with that number. Of two,
   the first is low only where the second is. */
#define BODY(name, ...)                                                                                                \
    INLINE void NAMED(name##_of)(const int64_t *given, int64_t from, int64_t to, int64_t part, __VA_ARGS__)
#define KERNEL_OF(name, number)                                                                                        \
    KERNEL(name) {                                                                                                     \
        if (given[number])                                                                                             \
            NAMED(name##_of)(given, from, to, part, 1);                                                                \
        else                                                                                                           \
            NAMED(name##_of)(given, from, to, part, 0);                                                                \
    }
#define KERNEL_OF_TWO(name, first, second)                                                                             \
    KERNEL(name) {                                                                                                     \
        if (!given[second])                                                                                            \
            NAMED(name##_of)(given, from, to, part, 0, 0);                                                             \
        else if (!given[first])                                                                                        \
            NAMED(name##_of)(given, from, to, part, 0, 1);                                                             \
        else                                                                                                           \
            NAMED(name##_of)(given, from, to, part, 1, 1);                                                             \
    }

#include "functions.h"

#include "gated.h"

#include "gru.h"

#include "lau.h"

#include "lstm.h"

#include "nematus.h"

#undef ADDRESS
#undef KERNEL_OF_TWO
#pragma pop_macro("KERNEL")
#pragma pop_macro("BODY")
#pragma pop_macro("KERNEL_OF")

#include "attention.h"

#ifdef __x86_64__
#include "pairs.h"
#endif

#include "search.h"

#undef NAMED

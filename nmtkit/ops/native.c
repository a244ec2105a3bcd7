/* The kernels of native.h for every kind of processor that PyTorch knows and that has wide vectors; native.py chooses.

   Other compilers than GCC, and other processors than x86-64, make one kind of what they are told to compile for. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

enum { LANES = 64 }; /* a sum is added up in so many parts, several vectors, which can go on side by side */

/* Raised with every change of a kernel's arguments or results: native.py uses no others. */
EXPORT int64_t nmtkit_version(void) { return 2; }

INLINE float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

INLINE uint32_t to_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define KERNEL(name) nmtkit_##name##_avx2
#include "native.h"
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#define KERNEL(name) nmtkit_##name##_avx512
#include "native.h"
#pragma GCC pop_options

#else

#define KERNEL(name) nmtkit_##name##_default
#include "native.h"

#endif

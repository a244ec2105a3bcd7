/* The kernels in the headers beside this file, compiled for each kind of processor with wide vectors that PyTorch
   distinguishes; library.py chooses one and distributes its rows over PyTorch's threads.

   On processors other than x86-64 there is one kind, the compiler's default target. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

/* Tiles need Linux and a compiler that supports them. */
#if defined(__linux__) && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11
#define HAS_TILES
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

/* For every j below n, in any order: the compiler may assume that iterations are independent, and vectorises. */
#ifdef __clang__
#define EACH(j, n) _Pragma("clang loop vectorize(assume_safety)") for (int64_t j = 0; j < (n); j++)
#else
#define EACH(j, n) _Pragma("GCC ivdep") for (int64_t j = 0; j < (n); j++)
#endif

enum { LANES = 64 }; /* partial sums, several vectors of them, which are independent of each other */

/* The sum of `term`, an expression of j, over all j below n. */
#define SUM(j, n, term)                                                                                                \
    ({                                                                                                                 \
        int64_t count_ = (n), whole_ = count_ - count_ % LANES;                                                        \
        float sums_[LANES] = {0};                                                                                      \
        for (int64_t first_ = 0; first_ < whole_; first_ += LANES)                                                     \
            for (int64_t lane_ = 0; lane_ < LANES; lane_++) {                                                          \
                int64_t j = first_ + lane_;                                                                            \
                sums_[lane_] += (term);                                                                                \
            }                                                                                                          \
        for (int64_t j = whole_; j < count_; j++) sums_[j - whole_] += (term);                                         \
        NAMED(total)(sums_);                                                                                           \
    })

/* Raised with every change of a kernel's arguments or results: library.py refuses other versions. */
EXPORT int64_t nmtkit_version(void) { return 12; }

/* A kernel processes rows `from` to `to` of its arguments, which are the part of this number. */
typedef void Kernel(const void *given, int64_t from, int64_t to, int64_t part);

#ifdef __linux__
/* PyTorch's threads are those of its OpenMP, which is found if it is GCC's or has GCC's interface. */
extern void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags) __attribute__((weak));
extern int omp_get_thread_num(void) __attribute__((weak));
extern int omp_get_num_threads(void) __attribute__((weak));

typedef struct {
    Kernel *kernel;
    const void *given;
    int64_t rows, parts;
} Work;

static void take_parts(void *data) {
    const Work *work = data;
    for (int64_t part = omp_get_thread_num(); part < work->parts; part += omp_get_num_threads())
        work->kernel(work->given, work->rows * part / work->parts, work->rows * (part + 1) / work->parts, part);
}
#endif

/* Runs a kernel on all rows, in `parts` parallel parts. */
EXPORT void nmtkit_run(Kernel *kernel, const void *given, int64_t rows, int64_t parts) {
#ifdef __linux__
    if (parts > 1 && GOMP_parallel && omp_get_thread_num && omp_get_num_threads) {
        Work work = {kernel, given, rows, parts};
        GOMP_parallel(take_parts, &work, 0, 0); /* all threads, as PyTorch does: another number would start new ones */
        return;
    }
#endif
    kernel(given, 0, rows, 0);
}

typedef void any; /* float or bfloat16, according to a flag */
_Static_assert(sizeof(any *) == sizeof(int64_t), "arguments have 8 bytes each");

/* The arguments of a kernel: addresses, some of which may be null, and integers. arguments.py has the same names in the
   same order, and a test compares the two. */
#define GIVEN(name) struct NAMED(name##_given)

/* KERNEL defines a kernel. KERNEL_OF defines one whose BODY is compiled once for each value of a flag among its
   arguments. */
#define KERNEL(name)                                                                                                   \
    INLINE void NAMED(name##_rows)(const GIVEN(name) *given, int64_t from, int64_t to, int64_t part);                  \
    EXPORT void NAMED(name)(const void *given, int64_t from, int64_t to, int64_t part) {                               \
        NAMED(name##_rows)(given, from, to, part);                                                                     \
    }                                                                                                                  \
    INLINE void NAMED(name##_rows)(const GIVEN(name) *given, int64_t from, int64_t to, int64_t part)
#define BODY(name, ...)                                                                                                \
    INLINE void NAMED(name##_of)(const GIVEN(name) *given, int64_t from, int64_t to, int64_t part, __VA_ARGS__)
#define KERNEL_OF(name, flag)                                                                                          \
    KERNEL(name) {                                                                                                     \
        if (given->flag)                                                                                               \
            NAMED(name##_of)(given, from, to, part, 1);                                                                \
        else                                                                                                           \
            NAMED(name##_of)(given, from, to, part, 0);                                                                \
    }

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

#if defined(__x86_64__) && defined(__clang__)

#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#define NAMED(name) nmtkit_##name##_avx2
#include "all.h"
#pragma clang attribute pop

#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))), apply_to = function)
#define NAMED(name) nmtkit_##name##_avx512
#include "all.h"
#pragma clang attribute pop

#elif defined(__x86_64__) && defined(__GNUC__)

#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define NAMED(name) nmtkit_##name##_avx2
#include "all.h"
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#define NAMED(name) nmtkit_##name##_avx512
#include "all.h"
#pragma GCC pop_options

#ifdef HAS_TILES
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512,avx512bf16,amx-tile,amx-bf16")
#define NAMED(name) nmtkit_##name##_avx512
#include "tiles.h"
#undef NAMED
#pragma GCC pop_options
#endif

#else

#define NAMED(name) nmtkit_##name##_default
#include "all.h"

#endif

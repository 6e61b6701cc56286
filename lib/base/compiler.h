#ifndef SLUICE_BASE_COMPILER_H
#define SLUICE_BASE_COMPILER_H

/* Our names for compiler attributes. */

#ifndef SLUICE_MUST_USE /* sluice.h has it, too */
#define SLUICE_MUST_USE __attribute__((warn_unused_result))
#endif
#define SLUICE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define SLUICE_UNUSED __attribute__((unused))
#define SLUICE_ALIGNED(bytes) __attribute__((aligned(bytes)))
/* For the body of a loop that is specialised by constant arguments: `static SLUICE_ALWAYS_INLINE`.
 */
#define SLUICE_ALWAYS_INLINE inline __attribute__((always_inline))

/* Not inlined, and callers assume nothing about its effects. */
#if __has_attribute(noipa)
#define SLUICE_NO_IPA __attribute__((noipa))
#else
#define SLUICE_NO_IPA __attribute__((noinline))
#endif

#define SLUICE_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The struct of type `type` whose member `member` is at `ptr`. */
#define SLUICE_CONTAINER_OF(ptr, type, member)                                                     \
    ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* ThreadSanitizer ignores the function's own reads and writes. */
#define SLUICE_NO_TSAN __attribute__((no_sanitize("thread")))

/* Exported, so that a program's function overrides one in shared libraries. */
#define SLUICE_EXPORTED __attribute__((visibility("default")))

/* For a function and a table in a header shared by C11 and CUDA. */
#ifdef __CUDACC__
#define SLUICE_KERNEL_INLINE static __device__ __forceinline__
#define SLUICE_KERNEL_CONST static __device__ const
#else
#define SLUICE_KERNEL_INLINE static inline
#define SLUICE_KERNEL_CONST static const
#endif

#endif

/* linked.h - so that the implementation is compiled once, with sanitizers, and all test programs link that object.

   A test says "#define ROCKMATE_IMPLEMENTATION, #include rockmate.h" as if it stood alone, and can be compiled so. tests/run.sh puts
   this file before it: the bodies of functions, private ones too, are then read but not compiled (gnu_inline: there is one of that
   name elsewhere, and it is optimized otherwise, so that none is inlined); that one is in the object of linked.c. */
#ifndef RMTEST_LINKED_H
#define RMTEST_LINKED_H

#define ROCKMATE_THREADS

#ifdef RMTEST_OBJECT
#define RMI_FN
#else
#ifdef __cplusplus
#define RMDEF extern "C" inline __attribute__((gnu_inline, optimize("O0")))
#else
#define RMDEF extern inline __attribute__((gnu_inline, optimize("O0")))
#endif
#define RMI_FN RMDEF
#endif

/* Limits of the implementation that a test may set while it runs; linked.c has them at what they are by default. */
#ifdef __cplusplus
extern "C"
#else
extern
#endif
struct rmtest_limits {
    int apart;
    unsigned ref_large, plan_many;
} rmtest_limits;
#define RMI_APART rmtest_limits.apart
#define RMI_SEARCH_LARGE rmtest_limits.ref_large
#define RMI_PLAN_MANY rmtest_limits.plan_many

#endif

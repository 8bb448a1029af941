/* heap.h - an allocator that counts, and in which allocation n fails. C99, one unit. */
#ifndef RMTEST_HEAP_H
#define RMTEST_HEAP_H

#include <stdlib.h>

static struct {
    long calls, fail_at, live; /* fail_at 0: never */
    int failing;               /* from fail_at on, not only then */
} heap;

static void *heap_alloc(size_t n, void *user)
{
    (void)user;
    heap.calls++;
    if (heap.fail_at && (heap.failing ? heap.calls >= heap.fail_at : heap.calls == heap.fail_at)) return NULL;
    heap.live++;
    return malloc(n);
}
static void heap_free(void *p, void *user)
{
    (void)user;
    if (p) heap.live--;
    free(p);
}

#endif

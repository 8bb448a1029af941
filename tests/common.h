/* common.h - what every test needs: how much to test, counts and their closing line, a sink that collects text, files as text. C99, one unit.

      EXPECT(x == 3, "more to print if it is not so");
      return tm_end();                                  // "N passed, N failed, N skipped" and the exit status */
#ifndef RMTEST_COMMON_H
#define RMTEST_COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__GNUC__)
#define TM_FN __attribute__((unused)) static
#else
#define TM_FN static
#endif

/* How many cases: few, or many where tests/run.sh --all has set RMTEST_ALL. */
TM_FN unsigned long tm_amount(unsigned long few, unsigned long many) { return getenv("RMTEST_ALL") ? many : few; }

/* Is there time for one more case of a loop that draws them? The first two in any case, then while this program has had less than
   RMTEST_SECONDS of the processor, which tests/run.sh sets: what it takes is bounded on a slow machine, too. */
TM_FN int tm_more(unsigned long done)
{
    const char *seconds = getenv("RMTEST_SECONDS");
    return done < 2 || !seconds || (double)clock() / CLOCKS_PER_SEC < atof(seconds);
}

/* --- counts */
static unsigned long tm_passed, tm_failed, tm_skipped;
static unsigned long tm_case; /* number or seed of what is being tested, told with a failure if it is not 0 */
static const char *tm_file = "";

/* Returns good. After forty failures the rest only counts. */
TM_FN int tm_expect(int good, int line, const char *what, const char *more)
{
    if (good) {
        tm_passed++;
        return 1;
    }
    if (tm_failed++ < 40) {
        printf("%s:%d: %s", tm_file, line, what);
        if (tm_case) printf(" (case %lu)", tm_case);
        printf("%s%s\n", more && more[0] ? ": " : "", more ? more : "");
    }
    return 0;
}
#define EXPECT(cond, more) (tm_file = __FILE__, tm_expect((cond) != 0, __LINE__, #cond, more))

TM_FN int tm_end(void)
{
    printf("%lu passed, %lu failed, %lu skipped\n", tm_passed, tm_failed, tm_skipped);
    return tm_failed != 0;
}

/* --- text that grows: an rm_write_fn and its user */
typedef struct tm_text {
    char *s; /* ends with a zero; never NULL after tm_sink or tm_read */
    size_t n, cap;
} tm_text;

TM_FN int tm_sink(void *user, const char *s, size_t n)
{
    tm_text *t = (tm_text *)user;
    if (t->n + n + 1 > t->cap) {
        t->cap = 2 * (t->n + n + 1);
        t->s = (char *)realloc(t->s, t->cap);
        if (!t->s) exit(3);
    }
    memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = 0;
    return 0;
}
TM_FN void tm_clear(tm_text *t)
{
    free(t->s);
    memset(t, 0, sizeof *t);
}
/* A sink that takes nothing. */
TM_FN int tm_full_sink(void *user, const char *s, size_t n)
{
    (void)user;
    (void)s;
    return n != 0;
}

/* A whole file; 0 if it cannot be read. */
TM_FN int tm_read(const char *path, tm_text *t)
{
    char piece[4096];
    size_t n;
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    tm_sink(t, "", 0);
    while ((n = fread(piece, 1, sizeof piece, f)) > 0) tm_sink(t, piece, n);
    fclose(f);
    return 1;
}

#endif

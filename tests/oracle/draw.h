/* draw.h - numbers by chance, keys of a graph's text and counts of plans, for the oracles in C++. Wants the implementation above it. */
#ifndef RMTEST_DRAW_H
#define RMTEST_DRAW_H

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

struct Rng {
    uint64_t s;
    unsigned below(unsigned n) { return (unsigned)((rmi_mix(s++) >> 32) % n); }
    bool one_in(unsigned n) { return below(n) == 0; }
};

static std::string num(const char *key, unsigned v) { return std::string(" ") + key + "=" + std::to_string(v); }

/* How far plans are from the fastest of all orders. */
struct Tally {
    unsigned long cases, optimal, faster;
    double slower, worst; /* parts of the best time: in all, of the slowest */
    void add(uint64_t plan, uint64_t best)
    {
        const double by = (double)plan / (double)best - 1;
        cases++, optimal += plan == best, faster += plan < best;
        slower += by, worst = std::max(worst, by);
    }
    double mean() const { return cases ? slower / (double)cases : 0; }
    void say(const char *what) const
    {
        printf("%s: %lu plans, %lu as fast as the best found, %lu faster; on average %.2f %% slower, at most %.1f %%\n", what, cases, optimal, faster, 100 * mean(), 100 * worst);
    }
};

#endif

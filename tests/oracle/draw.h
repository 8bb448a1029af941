/* draw.h - numbers by chance and keys of a graph's text, for the oracles in C++. Wants the implementation above it. */
#ifndef RMTEST_DRAW_H
#define RMTEST_DRAW_H

#include <cstdint>
#include <string>

struct Rng {
    uint64_t s;
    unsigned below(unsigned n) { return (unsigned)((rmi_mix(s++) >> 32) % n); }
    bool one_in(unsigned n) { return below(n) == 0; }
};

static std::string num(const char *key, unsigned v) { return std::string(" ") + key + "=" + std::to_string(v); }

#endif

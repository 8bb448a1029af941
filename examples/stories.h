/* stories.h - the text that the trainers of this directory train on if they are given no file */
#ifndef STORIES_H
#define STORIES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A random number for each (seed, a, b): what is drawn does not depend on what was drawn before, so a training that was
   saved and loaded goes on with the same digits. */
static uint64_t draw(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t x = seed * 0x9E3779B97F4A7C15u + a * 0xD1B54A32D192ED03u + b * 0x8CB92BA72F3D8DD7u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Little stories, the same ones on every machine: somebody has things, gets some or gives some away, and one can know what is left.
   NULL: no memory. */
static unsigned char *make_stories(size_t *size)
{
    enum { STORIES = 3000, LONGEST = 200 };
    static const char *const names[] = { "Anna", "Ben", "Clara", "David", "Emma", "Felix", "Greta", "Hugo" };
    static const char *const things[] = { "apples", "books", "coins", "eggs", "flowers", "marbles", "pears", "stamps" };
    static const char *const numbers[] = { "", "", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve" };
    static const char *const verbs[2][3] = { { "loses", "sells", "gives away" }, { "finds", "buys", "is given" } };
    char *out = (char *)malloc((size_t)STORIES * LONGEST);
    uint64_t i;
    *size = 0;
    if (!out) return NULL;
    for (i = 0; i < STORIES; i++) {
        const char *name = names[draw(7, i, 0) % 8], *thing = things[draw(7, i, 1) % 8];
        const int more = draw(7, i, 2) % 2 == 1, had = 4 + (int)(draw(7, i, 3) % 4);
        const int moved = 2 + (int)(draw(7, i, 4) % (more ? 4 : (uint64_t)(had - 3)));
        *size += (size_t)snprintf(out + *size, LONGEST, "%s has %s %s. %s %s %s%s. Now %s has %s %s.\n", name, numbers[had], thing, name,
                                  verbs[more][draw(7, i, 5) % 3], numbers[moved], more ? " more" : " of them", name,
                                  numbers[more ? had + moved : had - moved], thing);
    }
    return (unsigned char *)out;
}

#endif

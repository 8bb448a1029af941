/* No bound is above a legal plan: a few thousand comparisons (sound.h; tests/bench/sound.c makes millions).
   test_sound [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "randgraph.h"
#include "sound.h"

int main(int argc, char **argv)
{
    unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : 30, seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    for (i = seed; i < seed + graphs; i++) sound_graph(i);
    fprintf(stderr, "%llu graphs, %llu plans, %llu of them at their bound\n", sound_graphs, sound_plans, sound_tight);
    if (argc < 2) EXPECT(sound_compared > 3000, "too few comparisons");
    printf("%llu passed, %llu failed, %lu skipped\n", sound_compared - sound_wrong + tm_passed, sound_wrong + tm_failed, tm_skipped);
    return sound_wrong || tm_failed;
}

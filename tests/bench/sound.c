/* No bound is above a legal plan, looked for at length: random graphs with every feature of the format, times and sizes of 0, 1 and
   2^40 among them, every step kind, with and without host memory; plans of presets at alignments 1 and 256, and lists that random
   moves of the search make. Prints what was compared; a bound above a plan is printed with its graph.
   bench_sound [GRAPHS [FIRST SEED]] */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

#include "../common.h"
#include "../property/randgraph.h"
#include "../property/sound.h"
#include <time.h>

int main(int argc, char **argv)
{
    unsigned long graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000, seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1, i;
    for (i = seed; i < seed + graphs; i++) sound_graph(i);
    printf("%llu graphs, %llu plans (%llu at their bound), %llu lists; %llu comparisons, %llu bounds above a plan; %.0f s\n", sound_graphs, sound_plans, sound_tight, sound_lists, sound_compared, sound_wrong,
           (double)clock() / CLOCKS_PER_SEC);
    return 0;
}

/* rm_plan_create for a program that is compiled with ThreadSanitizer, itself without: it has no threads and takes a dozen times as long with.
   Linked with -Wl,--wrap=rm_plan_create; graph and plan are those of the program, whose other functions all are watched (tests/run.sh). */
#define ROCKMATE_THREADS
#define ROCKMATE_STATIC
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"

rm_result __wrap_rm_plan_create(rm_graph *g, const rm_plan_desc *desc, rm_plan **out);
rm_result __wrap_rm_plan_create(rm_graph *g, const rm_plan_desc *desc, rm_plan **out) { return rm_plan_create(g, desc, out); }

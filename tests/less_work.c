/* Plans of less work for programs of which a test asks whether they compute and say the right things, not how fast their steps are:
   linked with -Wl,--wrap=rm_plan_create, a call that names no work_limit has this one (tests/run.sh; tests/cli/docs.test runs the same programs without). */
#include "rockmate.h"

#define LESS_WORK 100000u

rm_result __real_rm_plan_create(rm_graph *g, const rm_plan_desc *desc, rm_plan **out);
rm_result __wrap_rm_plan_create(rm_graph *g, const rm_plan_desc *desc, rm_plan **out);
rm_result __wrap_rm_plan_create(rm_graph *g, const rm_plan_desc *desc, rm_plan **out)
{
    rm_plan_desc d;
    if (!desc || desc->work_limit) return __real_rm_plan_create(g, desc, out);
    d = *desc;
    d.work_limit = LESS_WORK;
    return __real_rm_plan_create(g, &d, out);
}

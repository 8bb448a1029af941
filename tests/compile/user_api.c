/* The API without the implementation, as users write it: the same source as C, C++ and CUDA. */
#include "rockmate.h"

static int forward(const rm_call *c)
{
    (void)c;
    return 0;
}

static const rm_kind LINEAR = {.name = "linear", .forward = forward, .backward = forward, .needs = RM_IN(0) | RM_IN(1), .zero_grads = RM_IN(1)};

#ifdef __cplusplus
static int typed(void)
{
    static const float in = 1, dout = 2;
    static float out, din;
    static const void *const ins[1] = {&in}, *const douts[1] = {&dout};
    static void *const outs[1] = {&out}, *const dins[1] = {&din};
    rm_call c = rm_call();
    c.in = ins, c.out = outs, c.din = dins, c.dout = douts;
    return rm_in<float>(&c, 0) == &in && rm_in<const float>(&c, 0) == &in && rm_out<float>(&c, 0) == &out && rm_din<float>(&c, 0) == &din && rm_dout<float>(&c, 0) == &dout;
}
#else
static int typed(void) { return 1; }
#endif

int main(void)
{
    rm_graph *g = rm_graph_create(NULL);
    rm_tensor x = rm_input_add(g, "x", 64, RM_INPUT_GRAD), w = RM_PARAM(g, .name = "w", .bytes = 64), y;
    rm_plan_info info;
    rm_plan_desc d = {.device_bytes = 1 << 20, .info = &info};
    rm_plan *p;
    rm_block_begin(g, "h");
    y = RM_OP(g, &LINEAR, .name = "fc", .in = {x, w}, .out = {128});
    rm_block_end(g);
    rm_output_add(g, y);
    if (rm_plan_create(g, &d, &p)) return 1;
    rm_plan_destroy(p);
    rm_graph_destroy(g);
    return info.arena_bytes == 0 || !typed();
}

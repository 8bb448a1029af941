/* What the pieces of code in the documents stand in, for tests/cli/docs.test: names that their text has introduced. */
#include "rockmate.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rm_graph *g, *long_graph;
static rm_plan *plan, *p;
static rm_exec *exec;
#ifndef TUTORIAL
static rm_tensor w, x, y;
static size_t n, size, square;
static float factor;
static const rm_kind TO_FP8, ATTENTION;
static int some(const rm_call *c) { return c == NULL; }
static int adamw(const rm_call *c) { return c == NULL; }
static int batchnorm_bwd(const rm_call *c) { return c == NULL; }
static void update(float *running, const float *mean, const float *variance) { *running += *mean + *variance; }
static void normalise(const rm_call *c, float *mean, float *variance, int eval) { *mean = *variance = (float)(eval + (int)c->n_in); }
static int write_file(void *user, const char *text, size_t bytes) { return fwrite(text, 1, bytes, (FILE *)user) != bytes; }
#else
static rm_plan_desc d;
static gpt *m;
static weight *w;
static rm_tensor tokens, targets, loss;
static int64_t step;
static uint64_t seed, bytes, budget, host, link_rate;
static uint32_t micro, n, steps;
static const char *name;
static int64_t count;
static const void *batch_tokens, *batch_targets, *values;
static float value;
static double deviation;
static options *o;
static trainer *t;
static rm_step s;
static rm_graph *small;
static rm_plan *small_plan;
static rm_plan_info info;
static rm_exec *other;
static FILE *file;
static int log_begin(void *user, const rm_call *c) { return fprintf((FILE *)user, "%s\n", c->op) < 0; }
static int log_end(void *user, const rm_call *c) { return (void)user, c == NULL; }
#endif

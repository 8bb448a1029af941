/* test_models.c - examples/models.h against what was published: numbers of parameters, bytes that a layer keeps for its backward.

      gcc -std=gnu99 -I. tests/unit/test_models.c -o build/test_models -lm && build/test_models */
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include "examples/models.h"

static unsigned long passed, failed;
static void expect(int good, const char *what, uint64_t got, uint64_t want)
{
    if (good) passed++;
    else failed++, printf("%s: %llu, should be %llu\n", what, (unsigned long long)got, (unsigned long long)want);
}

/* Parameters as the publishers (Hugging Face's safetensors, torchvision) count them. */
static const struct {
    const char *name;
    uint64_t count;
} published[] = {
    { "gpt2-124m", 124439808 },        { "gpt2-355m", 354823168 },        { "gpt2-774m", 774030080 },       { "gpt2-1.5b", 1557611200 },
    { "qwen2.5-0.5b", 494032768 },     { "llama3.2-1b", 1235814400 },     { "qwen2.5-1.5b", 1543714304 },   { "llama3.2-3b", 3212749824 },
    { "qwen2.5-3b", 3085938688 },      { "llama2-7b", 6738415616 },       { "qwen2.5-7b", 7615616512 },     { "llama3-8b", 8030261248 },
    { "llama2-13b", 13015864320 },     { "qwen2.5-14b", 14770033664 },    { "qwen2.5-32b", 32763876352 },   { "llama3-70b", 70553706496 },
    { "qwen2.5-72b", 72706203648 },    { "resnet50", 25557032 },          { "vgg16", 138357544 },           { "mobilenetv2", 3504872 },
    { "googlenet", 6624904 },          { "unet", 31037698 },              { "resnet101", 44549160 },        { "densenet121", 7978856 },
};

static uint64_t param_bytes(const rm_graph *g)
{
    uint64_t sum = 0;
    uint32_t i;
    for (i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].kind == RMI_PARAM) sum += g->tensors[i].bytes;
    return sum;
}

static void counts(void)
{
    size_t i;
    for (i = 0; i < sizeof published / sizeof published[0]; i++) {
        models_desc d;
        rm_graph *g;
        memset(&d, 0, sizeof d);
        d.model = published[i].name;
        g = models_build(&d);
        if (!g) {
            expect(0, published[i].name, 0, published[i].count);
            continue;
        }
        expect(rm_graph_result(g) == RM_OK, rm_graph_error(g), 0, 0);
        expect(param_bytes(g) == 2 * published[i].count, published[i].name, param_bytes(g) / 2, published[i].count);
        rm_graph_destroy(g);
    }
}

/* What one more layer adds to keeping everything: weights (2 bytes), states (12), and what the backward reads. */
static uint64_t layer_keeps(models_lm a, uint64_t rows)
{
    uint64_t all[2] = { 0, 0 }, weights[2] = { 0, 0 };
    int k;
    for (k = 0; k < 2; k++) {
        models m = { rm_graph_create(NULL), &models_devices[0], 0, { 0 } };
        rm_plan_desc d;
        rm_plan_info info;
        rm_plan *p = NULL;
        memset(&d, 0, sizeof d);
        memset(&info, 0, sizeof info);
        a.layers = 4 + (uint64_t)k;
        models_lm_build(&m, &a, rows, rows);
        d.preset = "noremat";
        d.info = &info;
        if (rm_plan_create(m.g, &d, &p) != RM_OK) expect(0, rm_graph_error(m.g), 0, 0);
        all[k] = info.keep_all_bytes;
        weights[k] = param_bytes(m.g);
        rm_plan_destroy(p);
        rm_graph_destroy(m.g);
    }
    return all[1] - all[0] - 7 * (weights[1] - weights[0]);
}

static const models_lm *find(const char *name)
{
    size_t i;
    for (i = 0; strcmp(models_lms[i].name, name);) i++;
    return &models_lms[i];
}

static void near(const char *what, uint64_t got, uint64_t want)
{
    expect(got >= want && got <= want + want / 1000 + 4096, what, got, want);
}

static void layers(void)
{
    const models_lm *a = find("gpt2-1.5b");
    uint64_t rows = 1024, c = a->width, kv;
    /* norm1, qkv (3), attention, residual, norm2, fc (4), gelu (4), residual: 16 C a token, 50 MiB at 1,024 tokens as llm.c has it;
       and mean and rstd of two norms, the log-sum-exp of each head */
    near("a layer of GPT-2 1.5B", layer_keeps(*a, rows), 2 * 16 * c * rows + 2 * 8 * rows + 4 * rows * a->heads);
    a = find("llama3-8b");
    rows = 2048;
    c = a->width;
    kv = a->kv_heads * a->head;
    near("a layer of Llama-3 8B", layer_keeps(*a, rows), 2 * rows * (5 * c + c + 2 * kv + 3 * a->ffn) + 2 * 4 * rows + 4 * rows * a->heads);
}

int main(void)
{
    counts();
    layers();
    printf("%lu passed, %lu failed, 0 skipped\n", passed, failed);
    return failed != 0;
}

/* llmc_reference.c - llm.c's GPT-2 on the CPU (train_gpt2.c, found by path: -I LLMC), for llmc_numbers.cpp. */
#define TESTING /* without its main */
#include "train_gpt2.c"

static GPT2 model;
static float *slice(float *memory, int which, int layer)
{
    const int layered = which >= 2 && which < 14; /* all but wte, wpe, lnfw, lnfb */
    size_t at = 0;
    int i;
    for (i = 0; i < which; i++) at += model.param_sizes[i];
    return memory + at + (layered ? model.param_sizes[which] / (size_t)model.config.num_layers * (size_t)layer : 0);
}
void reference_open(const char *checkpoint) { gpt2_build_from_checkpoint(&model, checkpoint); }
void reference_begin(void) { gpt2_zero_grad(&model); }
float reference_micro(int *tokens, int *targets, int B, int T)
{
    gpt2_forward(&model, tokens, targets, (size_t)B, (size_t)T);
    if (model.grads_acts_memory) memset(model.grads_acts_memory, 0, model.num_activations * sizeof(float));
    gpt2_backward(&model);
    return model.mean_loss;
}
const float *reference_grad(int which, int layer) { return slice(model.grads_memory, which, layer); }
float *reference_weight(int which, int layer) { return slice(model.params_memory, which, layer); }
void reference_update(float lr, int step, float share)
{
    float *kept = (float *)malloc(model.num_parameters * sizeof(float));
    double squares = 0;
    float scale;
    size_t i;
    for (i = 0; i < model.num_parameters; i++) model.grads_memory[i] *= share, squares += (double)model.grads_memory[i] * (double)model.grads_memory[i];
    scale = squares > 1 ? (float)(1 / sqrt(squares)) : 1;
    memcpy(kept, model.grads_memory, model.num_parameters * sizeof(float));
    for (i = 0; i < model.num_parameters; i++) model.grads_memory[i] *= scale;
    gpt2_update(&model, lr, 0.9f, 0.95f, 1e-8f, 0, step + 1);
    memcpy(model.grads_memory, kept, model.num_parameters * sizeof(float));
    free(kept);
}
void reference_close(void)
{
    gpt2_free(&model);
    memset(&model, 0, sizeof model);
}

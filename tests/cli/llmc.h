/* What docs/from-llm.c.md uses of llm.c, declared: so that its code is compiled where llm.c is not at hand. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { int max_seq_len, vocab_size, padded_vocab_size, num_layers, num_heads, channels; } GPT2Config;
typedef struct {
    float *wte, *wpe, *ln1w, *ln1b, *qkvw, *qkvb, *attprojw, *attprojb, *ln2w, *ln2b, *fcw, *fcb, *fcprojw, *fcprojb, *lnfw, *lnfb;
} ParameterTensors;
typedef struct { GPT2Config config; ParameterTensors params; float mean_loss; } GPT2;
typedef struct { int *inputs, *targets; } DataLoader;

void encoder_forward(float *, int *, float *, float *, int, int, int);
void encoder_backward(float *, float *, float *, int *, int, int, int);
void layernorm_forward(float *, float *, float *, float *, float *, float *, int, int, int);
void layernorm_backward(float *, float *, float *, float *, float *, float *, float *, float *, int, int, int);
void matmul_forward(float *, const float *, const float *, const float *, int, int, int, int);
void matmul_backward(float *, float *, float *, const float *, const float *, const float *, int, int, int, int);
void attention_forward(float *, float *, float *, float *, int, int, int, int);
void attention_backward(float *, float *, float *, float *, float *, float *, int, int, int, int);
void gelu_forward(float *, float *, int);
void gelu_backward(float *, float *, float *, int);
void residual_forward(float *, float *, float *, int);
void softmax_forward(float *, float *, int, int, int, int);
void crossentropy_forward(float *, float *, int *, int, int, int);
void crossentropy_softmax_backward(float *, float *, float *, int *, int, int, int, int);
void gpt2_build_from_checkpoint(GPT2 *, const char *);
void gpt2_forward(GPT2 *, int *, int *, size_t, size_t);
void gpt2_zero_grad(GPT2 *);
void gpt2_backward(GPT2 *);
void gpt2_update(GPT2 *, float, float, float, float, float, int);
void gpt2_free(GPT2 *);
void dataloader_init(DataLoader *, const char *, size_t, size_t, int, int, int);
void dataloader_next_batch(DataLoader *);

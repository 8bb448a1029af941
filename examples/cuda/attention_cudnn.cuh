/* attention_cudnn.cuh - the attention of train_gpt.cu by cuDNN, where it is asked for (-DTRAIN_GPT_CUDNN) and knows the shape

   Wants cuDNN 9 and its header-only C++ front end (github.com/NVIDIA/cudnn-frontend, or pip install nvidia-cudnn-frontend):
      nvcc -std=c++17 -DTRAIN_GPT_CUDNN -isystem PATH/include ... examples/cuda/train_gpt.cu -lcublasLt -lcudnn
   It saves what kernels.cuh's attention does (a float a query and head, in the same places), so a gradient that is to be added, which cuDNN
   cannot, is made by the kernel there. The backward is asked for in its deterministic form. Workspace: what cuDNN says, declared with
   the op. */
#ifndef TRAIN_GPT_ATTENTION_CUDNN_CUH
#define TRAIN_GPT_ATTENTION_CUDNN_CUH

#include "kernels.cuh"

#include <cudnn_frontend.h>
#include <memory>
#include <unordered_map>

typedef std::shared_ptr<cudnn_frontend::graph::Tensor_attributes> cudnn_tensor;
typedef std::shared_ptr<cudnn_frontend::graph::Graph> cudnn_graph;

typedef struct cudnn_attention {
    cudnnHandle_t handle;
    cudnn_graph forward, backward; /* NULL: cuDNN does not know the shape */
    uint64_t forward_bytes, backward_bytes;
    cudnn_tensor q, k, v, y, lse;                        /* of the forward */
    cudnn_tensor bq, bk, bv, by, blse, dy, dq, dk, dv;   /* of the backward */
} cudnn_attention;

/* Heads of one kind in rows of `width` elements. */
static cudnn_frontend::graph::Tensor_attributes cudnn_heads(const char *name, attention s, int heads, int64_t width)
{
    return cudnn_frontend::graph::Tensor_attributes().set_name(name).set_dim({ s.sequences, heads, s.context, s.head }).set_stride({ width * s.context, s.head, width, 1 });
}
static cudnn_frontend::graph::Tensor_attributes cudnn_floats(attention s)
{
    return cudnn_frontend::graph::Tensor_attributes().set_name("lse").set_dim({ s.sequences, s.heads, s.context, 1 }).set_stride({ (int64_t)s.heads * s.context, s.context, 1, 1 })
        .set_data_type(cudnn_frontend::DataType_t::FLOAT);
}
static void cudnn_output(const cudnn_tensor &t, attention s, int heads, int64_t width)
{
    t->set_output(true).set_dim({ s.sequences, heads, s.context, s.head }).set_stride({ width * s.context, s.head, width, 1 });
}
static cudnn_graph cudnn_begin(void)
{
    cudnn_graph g = std::make_shared<cudnn_frontend::graph::Graph>();
    g->set_io_data_type(cudnn_frontend::DataType_t::BFLOAT16).set_intermediate_data_type(cudnn_frontend::DataType_t::FLOAT).set_compute_data_type(cudnn_frontend::DataType_t::FLOAT);
    return g;
}
/* NULL where cuDNN cannot. */
static cudnn_graph cudnn_end(cudnn_graph g, cudnnHandle_t handle, uint64_t *bytes)
{
    int64_t ws = 0;
    if (!g->build(handle, { cudnn_frontend::HeurMode_t::A }).is_good() || !g->get_workspace_size(ws).is_good()) return NULL;
    *bytes = (uint64_t)ws;
    return g;
}
static void cudnn_forward(cudnn_attention *c, attention s, float scale)
{
    const int64_t width = qkv_width(s, s.head), y_width = (int64_t)s.heads * s.head;
    cudnn_graph g = cudnn_begin();
    c->q = g->tensor(cudnn_heads("q", s, s.heads, width));
    c->k = g->tensor(cudnn_heads("k", s, s.kv_heads, width));
    c->v = g->tensor(cudnn_heads("v", s, s.kv_heads, width));
    auto out = g->sdpa(c->q, c->k, c->v, cudnn_frontend::graph::SDPA_attributes().set_name("attention").set_generate_stats(true).set_causal_mask(true).set_attn_scale(scale));
    c->y = out[0];
    c->lse = out[1];
    cudnn_output(c->y, s, s.heads, y_width);
    c->lse->set_output(true).set_data_type(cudnn_frontend::DataType_t::FLOAT).set_dim({ s.sequences, s.heads, s.context, 1 }).set_stride({ (int64_t)s.heads * s.context, s.context, 1, 1 });
    c->forward = cudnn_end(g, c->handle, &c->forward_bytes);
}
static void cudnn_backward(cudnn_attention *c, attention s, float scale)
{
    const int64_t width = qkv_width(s, s.head), y_width = (int64_t)s.heads * s.head;
    cudnn_graph g = cudnn_begin();
    c->bq = g->tensor(cudnn_heads("q", s, s.heads, width));
    c->bk = g->tensor(cudnn_heads("k", s, s.kv_heads, width));
    c->bv = g->tensor(cudnn_heads("v", s, s.kv_heads, width));
    c->by = g->tensor(cudnn_heads("y", s, s.heads, y_width));
    c->dy = g->tensor(cudnn_heads("dy", s, s.heads, y_width));
    c->blse = g->tensor(cudnn_floats(s));
    auto out = g->sdpa_backward(c->bq, c->bk, c->bv, c->by, c->dy, c->blse,
                                cudnn_frontend::graph::SDPA_backward_attributes().set_name("slope").set_causal_mask(true).set_attn_scale(scale).set_deterministic_algorithm(true));
    c->dq = out[0];
    c->dk = out[1];
    c->dv = out[2];
    cudnn_output(c->dq, s, s.heads, width);
    cudnn_output(c->dk, s, s.kv_heads, width);
    cudnn_output(c->dv, s, s.kv_heads, width);
    c->backward = cudnn_end(g, c->handle, &c->backward_bytes);
}
/* NULL: cuDNN does not start, or does not know the shape both ways. */
static cudnn_attention *cudnn_attention_create(attention s)
{
    cudnn_attention *c = new cudnn_attention();
    const float scale = 1 / sqrtf((float)s.head);
    if (cudnnCreate(&c->handle) != CUDNN_STATUS_SUCCESS) c->handle = NULL;
    if (c->handle) cudnn_forward(c, s, scale);
    if (c->forward) cudnn_backward(c, s, scale);
    if (c->backward) return c;
    if (c->handle) cudnnDestroy(c->handle);
    delete c;
    return NULL;
}
static void cudnn_attention_destroy(cudnn_attention *c)
{
    if (!c) return;
    cudnnDestroy(c->handle);
    delete c;
}
/* As attend and attend_grad; lse is no NULL. ws: forward_bytes, backward_bytes of it. */
static int cudnn_attend(const cudnn_attention *c, bf16 *y, float *lse, const bf16 *qkv, attention s, void *ws, cudaStream_t stream)
{
    bf16 *q = (bf16 *)qkv, *k = q + (int64_t)s.heads * s.head, *v = k + (int64_t)s.kv_heads * s.head;
    std::unordered_map<cudnn_tensor, void *> at = { { c->q, q }, { c->k, k }, { c->v, v }, { c->y, y }, { c->lse, lse } };
    return cudnnSetStream(c->handle, stream) != CUDNN_STATUS_SUCCESS || !c->forward->execute(c->handle, at, ws).is_good();
}
static int cudnn_attend_grad(const cudnn_attention *c, bf16 *dqkv, const bf16 *qkv, const bf16 *y, const bf16 *dy, const float *lse, attention s, void *ws, cudaStream_t stream)
{
    const int64_t to_k = (int64_t)s.heads * s.head, to_v = to_k + (int64_t)s.kv_heads * s.head;
    bf16 *q = (bf16 *)qkv;
    std::unordered_map<cudnn_tensor, void *> at = { { c->bq, q }, { c->bk, q + to_k }, { c->bv, q + to_v }, { c->by, (void *)y }, { c->dy, (void *)dy }, { c->blse, (void *)lse },
                                                    { c->dq, dqkv }, { c->dk, dqkv + to_k }, { c->dv, dqkv + to_v } };
    return cudnnSetStream(c->handle, stream) != CUDNN_STATUS_SUCCESS || !c->backward->execute(c->handle, at, ws).is_good();
}
#endif

/* cudnn_frontend.h - stands for cuDNN and its C++ front end in the dry run (tests/cuda/dry.sh), so that no line of
   examples/cuda/attention_cudnn.cuh is run for the first time on a card. A test instrument: it computes nothing, but looks whether tensors
   have sizes, strides that fit them, and bytes when a graph is executed, and whether that has its workspace. */
#ifndef RMTEST_CUDNN_FRONTEND_H
#define RMTEST_CUDNN_FRONTEND_H

#include "../cudart_standin.h"
#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

enum cudnnStatus_t { CUDNN_STATUS_SUCCESS, CUDNN_STATUS_BAD_PARAM };
struct cudnnContext {
    cudaStream_t stream;
};
typedef cudnnContext *cudnnHandle_t;
static inline cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) { return *handle = new cudnnContext(), CUDNN_STATUS_SUCCESS; }
static inline cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return delete handle, CUDNN_STATUS_SUCCESS; }
static inline cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    return handle && stream ? (handle->stream = stream, CUDNN_STATUS_SUCCESS) : CUDNN_STATUS_BAD_PARAM;
}

namespace cudnn_frontend {
enum class DataType_t { NOT_SET, FLOAT, BFLOAT16 };
enum class HeurMode_t { A };
struct error_object {
    int bad;
    bool is_good() const { return !bad; }
};
namespace graph {
struct Tensor_attributes {
    std::vector<int64_t> dim, stride;
    bool output = false;
    Tensor_attributes &set_name(const char *) { return *this; }
    Tensor_attributes &set_dim(const std::vector<int64_t> &d) { return dim = d, *this; }
    Tensor_attributes &set_stride(const std::vector<int64_t> &s) { return stride = s, *this; }
    Tensor_attributes &set_data_type(DataType_t) { return *this; }
    Tensor_attributes &set_output(bool is) { return output = is, *this; }
    bool described() const
    {
        for (size_t i = 0; i < dim.size(); i++)
            if (dim[i] < 1 || stride[i] < 1) return false;
        return dim.size() == 4 && stride.size() == 4 && stride[3] == 1;
    }
};
struct SDPA_attributes {
    SDPA_attributes &set_name(const char *) { return *this; }
    SDPA_attributes &set_generate_stats(bool) { return *this; }
    SDPA_attributes &set_causal_mask(bool) { return *this; }
    SDPA_attributes &set_attn_scale(float) { return *this; }
};
struct SDPA_backward_attributes {
    SDPA_backward_attributes &set_name(const char *) { return *this; }
    SDPA_backward_attributes &set_causal_mask(bool) { return *this; }
    SDPA_backward_attributes &set_attn_scale(float) { return *this; }
    SDPA_backward_attributes &set_deterministic_algorithm(bool) { return *this; }
};
class Graph {
    typedef std::shared_ptr<Tensor_attributes> tensor_ptr;
    std::vector<tensor_ptr> all;
    int64_t workspace = 0;
    static int nothing(void *) { return 0; }
    tensor_ptr more() { return all.push_back(std::make_shared<Tensor_attributes>()), all.back(); }

public:
    Graph &set_io_data_type(DataType_t) { return *this; }
    Graph &set_intermediate_data_type(DataType_t) { return *this; }
    Graph &set_compute_data_type(DataType_t) { return *this; }
    tensor_ptr tensor(const Tensor_attributes &t) { return all.push_back(std::make_shared<Tensor_attributes>(t)), all.back(); }
    std::array<tensor_ptr, 2> sdpa(tensor_ptr, tensor_ptr, tensor_ptr, const SDPA_attributes &) { return { more(), more() }; }
    std::array<tensor_ptr, 3> sdpa_backward(tensor_ptr, tensor_ptr, tensor_ptr, tensor_ptr, tensor_ptr, tensor_ptr, const SDPA_backward_attributes &)
    {
        workspace = 4096;
        return { more(), more(), more() };
    }
    error_object build(cudnnHandle_t handle, const std::vector<HeurMode_t> &)
    {
        for (const tensor_ptr &t : all)
            if (!t->described()) return { 1 };
        return { !handle };
    }
    error_object get_workspace_size(int64_t &bytes) const { return bytes = workspace, error_object{ 0 }; }
    error_object execute(cudnnHandle_t handle, std::unordered_map<tensor_ptr, void *> &at, void *ws) const
    {
        for (const tensor_ptr &t : all)
            if (!at[t] || !standin_at(at[t])) return { 1 };
        if (workspace && !ws) return { 1 };
        return { standin_launch(handle->stream, nothing, NULL, 0, 60000) != cudaSuccess };
    }
};
} // namespace graph
} // namespace cudnn_frontend
#endif

// The library's functions that no encoding owns.
#include "kernels/common/cuda/quantize.cuh"

// dtype: 0 float32, 1 float16, 2 bfloat16. x[m, 32 * groups] with `stride` elements between rows.
extern "C" int harness_quantize_activations(const void* x, int dtype, int64_t stride, int8_t* codes, float* scales, int64_t m,
                                            int64_t groups, cudaStream_t stream) {
    switch (dtype) {
        case 0: return harness::launch_quantize<float>(x, stride, codes, scales, m, groups, stream);
        case 1: return harness::launch_quantize<__half>(x, stride, codes, scales, m, groups, stream);
        case 2: return harness::launch_quantize<__nv_bfloat16>(x, stride, codes, scales, m, groups, stream);
        default: return cudaErrorInvalidValue;
    }
}

extern "C" const char* harness_error(int status) { return cudaGetErrorString(static_cast<cudaError_t>(status)); }

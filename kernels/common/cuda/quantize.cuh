// Activations as 8-bit codes: for 32 values d = max|x| / 127 and q = round to nearest even of x / d. A group that holds NaN
// or infinity gets the scale NaN, so that its products are NaN and never a number.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/common/cuda/words.cuh"

namespace harness {

template <class T>
__device__ float as_float(T value) {
    return static_cast<float>(value);
}

template <class T>
__global__ void quantize_activations(const T* __restrict__ x, int64_t stride, int8_t* __restrict__ codes,
                                     float* __restrict__ scales, int64_t groups, int64_t all) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    if (at >= all) {
        return;
    }
    const float value = as_float(x[at / groups * stride + at % groups * 32 + threadIdx.x]);
    const bool finite = __all_sync(0xFFFFFFFFu, isfinite(value));
    float largest = fabsf(value);
    for (int step = 16; step > 0; step /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, step));
    }
    const float d = largest / 127.0f;
    // A subnormal d is rounded coarsely, so that value / d can pass 127.
    const float code = fminf(fmaxf(rintf(value / d), -127.0f), 127.0f);
    codes[at * 32 + threadIdx.x] = finite && d > 0.0f ? static_cast<int8_t>(code) : 0;
    if (threadIdx.x == 0) {
        scales[at] = finite ? d : __int_as_float(0x7FC00000);
    }
}

template <class T>
cudaError_t launch_quantize(const void* x, int64_t stride, int8_t* codes, float* scales, int64_t m, int64_t groups,
                            cudaStream_t stream) {
    const dim3 threads(32, 8);
    const dim3 grid(static_cast<unsigned>((m * groups + 7) / 8));
    quantize_activations<T><<<grid, threads, 0, stream>>>(static_cast<const T*>(x), stride, codes, scales, groups, m * groups);
    return cudaGetLastError();
}

}  // namespace harness

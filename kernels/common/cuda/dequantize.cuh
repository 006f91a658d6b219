// y = scale * code + offset for every weight: one thread a group of 32.
#pragma once
#include "kernels/common/cuda/words.cuh"

namespace harness {

template <class Unit>
HARNESS_DEVICE void decode_group(const uint8_t* blocks, int64_t at, float* out) {
    constexpr int runs = Unit::elems / 32;
    Group group;
    Unit::unpack(blocks + at / runs * Unit::bytes, static_cast<int>(at % runs), group);
    for (int i = 0; i < 32; ++i) {
        const float code = static_cast<float>(static_cast<int8_t>(static_cast<uint32_t>(group.code[i / 4]) >> 8 * (i % 4)));
        const float scaled = group.scale[i / 16] * code;
        out[32 * at + i] = Unit::has_offset ? scaled + group.offset[i / 16] : scaled;
    }
}

#ifdef __CUDACC__
template <class Unit>
__global__ void dequantize(const uint8_t* __restrict__ blocks, float* __restrict__ out, int64_t groups) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < groups) {
        decode_group<Unit>(blocks, at, out);
    }
}
#endif

}  // namespace harness

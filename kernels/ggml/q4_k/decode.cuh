// Q4_K: y = (d * sc) * q - dmin * mn, eight 6-bit scales and minima in twelve bytes, nibbles of sub-block pairs.
#pragma once
#include "kernels/common/cuda/six_bit_pairs.cuh"

struct ggml_q4_k {
    static constexpr int elems = 256, bytes = 144, alignment = 4;
    static constexpr bool has_offset = true, two_scales = false;

    static HARNESS_DEVICE void unpack(const uint8_t* block, int run, harness::Group& group) {
        const uint8_t* codes = block + 16 + 32 * (run / 2);
        for (int j = 0; j < 8; ++j) {
            group.code[j] = static_cast<int32_t>(harness::word4(codes + 4 * j) >> 4 * (run % 2) & 0x0F0F0F0Fu);
        }
        harness::six_bit_scale_and_minimum(block, run, group);
    }
};

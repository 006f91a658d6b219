// Q5_K: Q4_K with a fifth bit: bit j of byte l of qh belongs to code l of sub-block j.
#pragma once
#include "kernels/common/cuda/six_bit_pairs.cuh"

struct ggml_q5_k {
    static constexpr int elems = 256, bytes = 176, alignment = 4;
    static constexpr bool has_offset = true, two_scales = false;

    static HARNESS_DEVICE void unpack(const uint8_t* block, int run, harness::Group& group) {
        const uint8_t* codes = block + 48 + 32 * (run / 2);
        for (int j = 0; j < 8; ++j) {
            const uint32_t low = harness::word4(codes + 4 * j) >> 4 * (run % 2) & 0x0F0F0F0Fu;
            const uint32_t high = harness::word4(block + 16 + 4 * j) >> run & 0x01010101u;
            group.code[j] = static_cast<int32_t>(low | high << 4);
        }
        harness::six_bit_scale_and_minimum(block, run, group);
    }
};

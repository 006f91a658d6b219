// Q4_1: y = d * q + m; bytes of nibbles, low ones first half, high ones second half.
#pragma once
#include "kernels/common/cuda/words.cuh"

struct ggml_q4_1 {
    static constexpr int elems = 32, bytes = 20, alignment = 4;
    static constexpr bool has_offset = true, two_scales = false;

    static HARNESS_DEVICE void unpack(const uint8_t* block, int, harness::Group& group) {
        for (int j = 0; j < 4; ++j) {
            const uint32_t packed = harness::word4(block + 4 + 4 * j);
            group.code[j] = static_cast<int32_t>(packed & 0x0F0F0F0Fu);
            group.code[4 + j] = static_cast<int32_t>(packed >> 4 & 0x0F0F0F0Fu);
        }
        harness::uniform(group, harness::half_at(block), harness::half_at(block + 2));
    }
};

// Q4_0: y = d * (q - 8); bytes of nibbles, low ones first half, high ones second half.
#pragma once
#include "kernels/common/cuda/words.cuh"

struct ggml_q4_0 {
    static constexpr int elems = 32, bytes = 18, alignment = 2;
    static constexpr bool has_offset = false, two_scales = false;

    static HARNESS_DEVICE void unpack(const uint8_t* block, int, harness::Group& group) {
        for (int j = 0; j < 4; ++j) {
            const uint32_t packed = harness::word2(block + 2 + 4 * j);
            group.code[j] = harness::less(packed & 0x0F0F0F0Fu, 8);
            group.code[4 + j] = harness::less(packed >> 4 & 0x0F0F0F0Fu, 8);
        }
        harness::uniform(group, harness::half_at(block), 0.0f);
    }
};

// Q5_0: y = d * (q - 16); nibbles as in Q4_0, bit 4 of code i is bit i of the word qh.
#pragma once
#include "kernels/common/cuda/words.cuh"

struct ggml_q5_0 {
    static constexpr int elems = 32, bytes = 22, alignment = 2;
    static constexpr bool has_offset = false, two_scales = false;

    static HARNESS_DEVICE void unpack(const uint8_t* block, int, harness::Group& group) {
        const uint32_t high = harness::word2(block + 2);
        for (int j = 0; j < 4; ++j) {
            const uint32_t packed = harness::word2(block + 6 + 4 * j);
            const uint32_t low = (packed & 0x0F0F0F0Fu) | harness::spread(high >> 4 * j) << 4;
            const uint32_t top = (packed >> 4 & 0x0F0F0F0Fu) | harness::spread(high >> (16 + 4 * j)) << 4;
            group.code[j] = harness::less(low, 16);
            group.code[4 + j] = harness::less(top, 16);
        }
        harness::uniform(group, harness::half_at(block), 0.0f);
    }
};

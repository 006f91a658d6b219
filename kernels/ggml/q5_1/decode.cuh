// Q5_1: y = d * q + m; nibbles as in Q4_1, bit 4 of code i is bit i of the word qh.
#pragma once
#include "kernels/common/cuda/words.cuh"

struct ggml_q5_1 {
    static constexpr int elems = 32, bytes = 24, alignment = 4;
    static constexpr bool has_offset = true, two_scales = false;

    static HARNESS_DEVICE void unpack(const uint8_t* block, int, harness::Group& group) {
        const uint32_t high = harness::word4(block + 4);
        for (int j = 0; j < 4; ++j) {
            const uint32_t packed = harness::word4(block + 8 + 4 * j);
            const uint32_t low = (packed & 0x0F0F0F0Fu) | harness::spread(high >> 4 * j) << 4;
            const uint32_t top = (packed >> 4 & 0x0F0F0F0Fu) | harness::spread(high >> (16 + 4 * j)) << 4;
            group.code[j] = static_cast<int32_t>(low);
            group.code[4 + j] = static_cast<int32_t>(top);
        }
        harness::uniform(group, harness::half_at(block), harness::half_at(block + 2));
    }
};

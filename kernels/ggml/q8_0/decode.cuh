// Q8_0: y = d * q; 32 signed bytes.
#pragma once
#include "kernels/common/cuda/words.cuh"

struct ggml_q8_0 {
    static constexpr int elems = 32, bytes = 34, alignment = 2;
    static constexpr bool has_offset = false, two_scales = false;

    static HARNESS_DEVICE void unpack(const uint8_t* block, int, harness::Group& group) {
        for (int j = 0; j < 8; ++j) {
            group.code[j] = static_cast<int32_t>(harness::word2(block + 2 + 4 * j));
        }
        harness::uniform(group, harness::half_at(block), 0.0f);
    }
};

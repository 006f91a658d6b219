// Q6_K: y = (d * scale) * (q - 32), one signed byte of scale for 16 weights, codes split into 4 low and 2 high bits.
#pragma once
#include "kernels/common/cuda/words.cuh"

struct ggml_q6_k {
    static constexpr int elems = 256, bytes = 210, alignment = 2;
    static constexpr bool has_offset = false, two_scales = true;

    static HARNESS_DEVICE void unpack(const uint8_t* block, int run, harness::Group& group) {
        const int half = run / 4, part = run % 4;
        const uint8_t* low = block + 64 * half + 32 * (part % 2);
        const uint8_t* high = block + 128 + 32 * half;
        for (int j = 0; j < 8; ++j) {
            const uint32_t four = harness::word2(low + 4 * j) >> 4 * (part / 2) & 0x0F0F0F0Fu;
            const uint32_t two = harness::word2(high + 4 * j) >> 2 * part & 0x03030303u;
            group.code[j] = harness::less(four | two << 4, 32);
        }
        const float d = harness::half_at(block + 208);
        for (int i = 0; i < 2; ++i) {
            group.scale[i] = d * static_cast<float>(static_cast<int8_t>(block[192 + 2 * run + i]));
            group.offset[i] = 0.0f;
        }
    }
};

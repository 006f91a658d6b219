// Q2_K: y = (d * sc) * q - dmin * mn, one byte of scale (low nibble) and minimum (high nibble) for 16 weights.
#pragma once
#include "kernels/common/cuda/words.cuh"

struct ggml_q2_k {
    static constexpr int elems = 256, bytes = 84, alignment = 4;
    static constexpr bool has_offset = true, two_scales = true;

    static HARNESS_DEVICE void unpack(const uint8_t* block, int run, harness::Group& group) {
        const uint8_t* codes = block + 16 + 32 * (run / 4);
        for (int j = 0; j < 8; ++j) {
            group.code[j] = static_cast<int32_t>(harness::word4(codes + 4 * j) >> 2 * (run % 4) & 0x03030303u);
        }
        const float d = harness::half_at(block + 80), dmin = harness::half_at(block + 82);
        for (int i = 0; i < 2; ++i) {
            const int pair = block[2 * run + i];
            group.scale[i] = d * static_cast<float>(pair & 15);
            group.offset[i] = -(dmin * static_cast<float>(pair >> 4));
        }
    }
};

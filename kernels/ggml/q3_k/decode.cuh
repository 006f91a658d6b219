// Q3_K: y = (d * (sc - 32)) * (q - 4), a 6-bit scale for 16 weights, bit 2 of the codes in a mask of its own.
#pragma once
#include "kernels/common/cuda/words.cuh"

struct ggml_q3_k {
    static constexpr int elems = 256, bytes = 110, alignment = 2;
    static constexpr bool has_offset = false, two_scales = true;

    static HARNESS_DEVICE void unpack(const uint8_t* block, int run, harness::Group& group) {
        const uint8_t* codes = block + 32 + 32 * (run / 4);
        for (int j = 0; j < 8; ++j) {
            const uint32_t low = harness::word2(codes + 4 * j) >> 2 * (run % 4) & 0x03030303u;
            const uint32_t high = harness::word2(block + 4 * j) >> run & 0x01010101u;
            group.code[j] = harness::less(low | high << 2, 4);
        }
        const float d = harness::half_at(block + 108);
        for (int i = 0; i < 2; ++i) {
            group.scale[i] = d * static_cast<float>(sub_scale(block + 96, 2 * run + i) - 32);
            group.offset[i] = 0.0f;
        }
    }

    // Scale j of 16: low 4 bits in bytes 0..7 (low nibbles first), high 2 bits in bytes 8..11.
    static HARNESS_DEVICE int sub_scale(const uint8_t* packed, int j) {
        const int low = j < 8 ? packed[j] & 15 : packed[j - 8] >> 4;
        return low | (packed[8 + j % 4] >> 2 * (j / 4) & 3) << 4;
    }
};

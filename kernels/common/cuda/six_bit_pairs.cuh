// The header that Q4_K and Q5_K share: d, dmin, then eight 6-bit scales and eight 6-bit minima in twelve bytes.
#pragma once
#include "kernels/common/cuda/words.cuh"

namespace harness {

HARNESS_DEVICE void six_bit_scale_and_minimum(const uint8_t* block, int run, Group& group) {
    const uint8_t* packed = block + 4;
    int scale, minimum;
    if (run < 4) {
        scale = packed[run] & 63;
        minimum = packed[run + 4] & 63;
    } else {
        scale = (packed[run + 4] & 15) | (packed[run - 4] >> 6) << 4;
        minimum = (packed[run + 4] >> 4) | (packed[run] >> 6) << 4;
    }
    uniform(group, half_at(block) * static_cast<float>(scale), -(half_at(block + 2) * static_cast<float>(minimum)));
}

}  // namespace harness

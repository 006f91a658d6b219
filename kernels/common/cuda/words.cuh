// Words of packed codes: loads that honour the alignment of a block, and arithmetic on four 8-bit lanes at once.
//
// The same text compiles as plain C++ for the host, so that a decode can be held against the reference without a GPU.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#include <cuda_fp16.h>
#define HARNESS_DEVICE __device__ __forceinline__
#else
#define HARNESS_DEVICE inline
#endif

namespace harness {

// 32 consecutive weights: y[i] = scale[i / 16] * code[i] + offset[i / 16], code i in byte i % 4 of word i / 4.
struct Group {
    int32_t code[8];
    float scale[2];
    float offset[2];
};

// Four bytes from an address that is a multiple of 4.
HARNESS_DEVICE uint32_t word4(const uint8_t* at) {
#ifdef __CUDACC__
    return *reinterpret_cast<const uint32_t*>(at);
#else
    uint32_t word;
    std::memcpy(&word, at, 4);
    return word;
#endif
}

// Four bytes from an address that is only a multiple of 2: blocks of 18, 22, 34, 110 and 210 bytes.
HARNESS_DEVICE uint32_t word2(const uint8_t* at) {
#ifdef __CUDACC__
    const uint16_t* half = reinterpret_cast<const uint16_t*>(at);
    return half[0] | static_cast<uint32_t>(half[1]) << 16;
#else
    return word4(at);
#endif
}

// A binary16 number as float, from an address that is a multiple of 2. Exact.
HARNESS_DEVICE float half_at(const uint8_t* at) {
#ifdef __CUDACC__
    return __half2float(__ushort_as_half(*reinterpret_cast<const uint16_t*>(at)));
#else
    _Float16 value;
    std::memcpy(&value, at, 2);
    return static_cast<float>(value);
#endif
}

// Subtract `bias` (at most 128) from each of four bytes that are at most 127: no borrow crosses a lane.
HARNESS_DEVICE int32_t less(uint32_t bytes, uint32_t bias) {
    return static_cast<int32_t>(((bytes | 0x80808080u) - bias * 0x01010101u) ^ 0x80808080u);
}

// Bit i of a 4-bit number as the lowest bit of byte i.
HARNESS_DEVICE uint32_t spread(uint32_t bits) { return ((bits & 15u) * 0x00204081u) & 0x01010101u; }

// One scale and one offset for all 32 weights.
HARNESS_DEVICE void uniform(Group& group, float scale, float offset) {
    group.scale[0] = group.scale[1] = scale;
    group.offset[0] = group.offset[1] = offset;
}

}  // namespace harness

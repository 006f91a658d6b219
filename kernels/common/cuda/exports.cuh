// The C functions of one encoding. The file that includes this has included its decode and defined UNIT as its type.
#pragma once
#include "kernels/common/cuda/dequantize.cuh"
#include "kernels/common/cuda/matvec.cuh"

#define HARNESS_NAME2(op, unit) harness_##op##_##unit
#define HARNESS_NAME(op, unit) HARNESS_NAME2(op, unit)

extern "C" int HARNESS_NAME(matmul, UNIT)(const uint8_t* weights, const uint8_t* codes, const float* scales, float* out, int64_t m,
                                          int64_t rows, int64_t groups, cudaStream_t stream) {
    return harness::multiply<UNIT>(weights, codes, scales, out, m, rows, groups, stream);
}

extern "C" int HARNESS_NAME(dequantize, UNIT)(const uint8_t* blocks, float* out, int64_t groups, cudaStream_t stream) {
    const unsigned threads = 128;
    const unsigned grid = static_cast<unsigned>((groups + threads - 1) / threads);
    harness::dequantize<UNIT><<<grid, threads, 0, stream>>>(blocks, out, groups);
    return cudaGetLastError();
}

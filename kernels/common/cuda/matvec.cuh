// y[m, n] = sum over k of W[n, k] * X[m, k] with integer dot products: W in a block encoding, X as 8-bit codes with one
// float scale for 32 values. One warp a row of W; each lane takes every 32nd group of 32 weights; the order of the sum is
// fixed, so the bits do not change from run to run.
#pragma once
#include "kernels/common/cuda/words.cuh"

namespace harness {

constexpr int kWarps = 4;

template <class Unit, int M>
__global__ void __launch_bounds__(32 * kWarps)
    matvec(const uint8_t* __restrict__ weights, const int4* __restrict__ codes, const float* __restrict__ scales,
           float* __restrict__ out, int64_t rows, int64_t groups) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.y;
    if (row >= rows) {
        return;
    }
    constexpr int runs = Unit::elems / 32;
    const uint8_t* of_row = weights + row * (groups / runs) * Unit::bytes;
    float sum[M] = {};
    for (int64_t at = threadIdx.x; at < groups; at += 32) {
        Group group;
        Unit::unpack(of_row + at / runs * Unit::bytes, static_cast<int>(at % runs), group);
#pragma unroll
        for (int m = 0; m < M; ++m) {
            const int4 a = codes[(m * groups + at) * 2], b = codes[(m * groups + at) * 2 + 1];
            const int x[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
            int dot[2] = {0, 0}, total[2] = {0, 0};
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const int half = Unit::two_scales ? j / 4 : 0;
                dot[half] = __dp4a(group.code[j], x[j], dot[half]);
                if (Unit::has_offset) {
                    total[half] = __dp4a(0x01010101, x[j], total[half]);
                }
            }
            float part = group.scale[0] * static_cast<float>(dot[0]);
            if (Unit::two_scales) {
                part += group.scale[1] * static_cast<float>(dot[1]);
            }
            if (Unit::has_offset) {
                part += group.offset[0] * static_cast<float>(total[0]);
                if (Unit::two_scales) {
                    part += group.offset[1] * static_cast<float>(total[1]);
                }
            }
            sum[m] += scales[m * groups + at] * part;
        }
    }
#pragma unroll
    for (int m = 0; m < M; ++m) {
        for (int step = 16; step > 0; step /= 2) {
            sum[m] += __shfl_xor_sync(0xFFFFFFFFu, sum[m], step);
        }
        if (threadIdx.x == 0) {
            out[m * rows + row] = sum[m];
        }
    }
}

template <class Unit, int M>
cudaError_t launch_matvec(const uint8_t* weights, const void* codes, const float* scales, float* out, int64_t rows,
                          int64_t groups, cudaStream_t stream) {
    const dim3 threads(32, kWarps);
    const dim3 grid(static_cast<unsigned>((rows + kWarps - 1) / kWarps));
    matvec<Unit, M><<<grid, threads, 0, stream>>>(weights, static_cast<const int4*>(codes), scales, out, rows, groups);
    return cudaGetLastError();
}

// Any M: eight rows of X at a time, the rest by the kernel of its own size.
template <class Unit>
cudaError_t multiply(const uint8_t* weights, const uint8_t* codes, const float* scales, float* out, int64_t m,
                     int64_t rows, int64_t groups, cudaStream_t stream) {
    while (m > 0) {
        const int64_t step = m < 8 ? m : 8;
        cudaError_t status = cudaSuccess;
        switch (step) {
            case 1: status = launch_matvec<Unit, 1>(weights, codes, scales, out, rows, groups, stream); break;
            case 2: status = launch_matvec<Unit, 2>(weights, codes, scales, out, rows, groups, stream); break;
            case 3: status = launch_matvec<Unit, 3>(weights, codes, scales, out, rows, groups, stream); break;
            case 4: status = launch_matvec<Unit, 4>(weights, codes, scales, out, rows, groups, stream); break;
            case 5: status = launch_matvec<Unit, 5>(weights, codes, scales, out, rows, groups, stream); break;
            case 6: status = launch_matvec<Unit, 6>(weights, codes, scales, out, rows, groups, stream); break;
            case 7: status = launch_matvec<Unit, 7>(weights, codes, scales, out, rows, groups, stream); break;
            default: status = launch_matvec<Unit, 8>(weights, codes, scales, out, rows, groups, stream); break;
        }
        if (status != cudaSuccess) {
            return status;
        }
        codes += step * groups * 32;
        scales += step * groups;
        out += step * rows;
        m -= step;
    }
    return cudaSuccess;
}

}  // namespace harness

/* A ggml-style row decode of Q8_0: blocks of a half-precision scale and 32 signed bytes. */
#include <stdint.h>
#include <string.h>

void dequantize_row_q8_0(const void *data, float *values, int64_t elements) {
    const uint8_t *block = data;
    for (int64_t at = 0; at < elements; at += 32, block += 34) {
        _Float16 scale;
        memcpy(&scale, block, 2);
        for (int lane = 0; lane < 32; ++lane) {
            values[at + lane] = (float)scale * (float)(int8_t)block[2 + lane];
        }
    }
}

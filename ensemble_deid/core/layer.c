/* A layer of BERT with weights in eight bits, for processors with AVX-512 VNNI.

   What weights are multiplied with is rounded to 15 bits, in two digits of eight; products are whole numbers, and exact.
   So a piece's result depends on its window alone. */
#include "layer.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")))
#define INLINE TARGET static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 6")
#define TO_WHOLE 12582912.0f /* 1.5 * 2^23: a number added to it is rounded to a whole one, halves to even */

typedef float floats __attribute__((vector_size(64)));
typedef int32_t ints __attribute__((vector_size(64)));
typedef uint8_t bytes __attribute__((vector_size(16)));
typedef float floats_anywhere __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint8_t bytes_anywhere __attribute__((vector_size(16), aligned(1), may_alias));

INLINE floats load(const float *from) { return *(const floats_anywhere *)from; }
INLINE void store(float *to, floats value) { *(floats_anywhere *)to = value; }
INLINE floats all(float value) { return (floats){0} + value; }
INLINE floats larger(floats a, floats b) { return (floats)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE floats smaller(floats a, floats b) { return (floats)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE float largest_of(floats value) { return _mm512_reduce_max_ps((__m512)value); }
INLINE float sum_of(floats value) { return _mm512_reduce_add_ps((__m512)value); }

/* e^x, of numbers up to 0: 2^n * e^r, with e^r by its series. */
INLINE floats exponential(floats x)
{
    x = larger(x, all(-87.0f));
    floats shifted = x * 1.44269504f + TO_WHOLE, n = shifted - TO_WHOLE;
    floats r = x - n * 0.693359375f + n * 2.12194440e-4f;
    floats p = r * (1.0f / 720) + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    ints power = ((ints)shifted - (ints)all(TO_WHOLE) + 127) << 23;
    return p * (floats)power;
}

/* As `gelu` of taggers/layers.py. */
INLINE floats gelu(floats given)
{
    floats x = smaller(larger(given * 0.70710678f, all(-4.0f)), all(4.0f)), square = x * x;
    floats above = square * -2.72614225801306e-10f + 2.77068142495902e-08f;
    above = above * square + -2.10102402082508e-06f;
    above = above * square + -5.69250639462346e-05f;
    above = above * square + -7.34990630326855e-04f;
    above = above * square + -2.95459980854025e-03f;
    above = above * square + -1.60960333262415e-02f;
    floats below = square * -1.45660718464996e-05f + -2.13374055278905e-04f;
    below = below * square + -1.68282697438203e-03f;
    below = below * square + -7.37332916720468e-03f;
    below = below * square + -1.42647390514189e-02f;
    return given * (above * x / below + 1.0f) * 0.5f;
}

/* Round n numbers to whole ones of at most 127 * 128 times the scale: n high digits and n low ones, each plus 128. */
TARGET static void round_row(const float *row, size_t n, uint8_t *digits, float *scale)
{
    const float most = 127 * 128;
    floats found = all(1e-12f);
    for (size_t k = 0; k < n; k += LANES)
        found = larger((floats)((ints)load(row + k) & 0x7fffffff), found);
    float largest = largest_of(found), factor = most / largest;
    *scale = largest / most;
    for (size_t k = 0; k < n; k += LANES) {
        ints whole = (ints)(load(row + k) * factor + TO_WHOLE) - (ints)all(TO_WHOLE), high = (whole + 64) >> 7;
        *(bytes_anywhere *)(digits + k) = __builtin_convertvector(high + 128, bytes);
        *(bytes_anywhere *)(digits + n + k) = __builtin_convertvector(whole - (high << 7) + 128, bytes);
    }
}

/* As `LayerNorm` of taggers/layers.py. */
TARGET static void normalise(float *row, size_t n, const float *scale, const float *bias, float eps)
{
    floats total = {0}, square = {0};
    for (size_t k = 0; k < n; k += LANES)
        total += load(row + k);
    float mean = sum_of(total) / n;
    for (size_t k = 0; k < n; k += LANES) {
        floats moved = load(row + k) - mean;
        square += moved * moved;
    }
    float factor = 1 / __builtin_sqrtf(sum_of(square) / n + eps);
    for (size_t k = 0; k < n; k += LANES)
        store(row + k, (load(row + k) - mean) * factor * load(scale + k) + load(bias + k));
}

/* Both digits of three rows by a group of outputs, in registers: this takes three quarters of the time. */
TARGET static __attribute__((noinline)) void multiply_digits(
    const uint8_t *const *digits, const int8_t *packed, size_t inputs, int32_t sums[6][GROUP])
{
    __m512i found[6][4];
    UNROLL for (int j = 0; j < 4; j++) {
        /* The digits' 128, times the weights */
        __m512i less = _mm512_slli_epi32(_mm512_loadu_si512(packed + inputs * GROUP + j * 64), 7);
        UNROLL for (int i = 0; i < 6; i++)
            found[i][j] = _mm512_sub_epi32(_mm512_setzero_si512(), less);
    }
    for (size_t k = 0; k < inputs; k += 4, packed += 4 * GROUP) {
        __m512i first = _mm512_loadu_si512(packed), second = _mm512_loadu_si512(packed + 64);
        __m512i third = _mm512_loadu_si512(packed + 128), fourth = _mm512_loadu_si512(packed + 192);
        UNROLL for (int i = 0; i < 6; i++) {
            int32_t four;
            memcpy(&four, digits[i] + k, 4);
            __m512i row = _mm512_set1_epi32(four);
            found[i][0] = _mm512_dpbusd_epi32(found[i][0], row, first);
            found[i][1] = _mm512_dpbusd_epi32(found[i][1], row, second);
            found[i][2] = _mm512_dpbusd_epi32(found[i][2], row, third);
            found[i][3] = _mm512_dpbusd_epi32(found[i][3], row, fourth);
        }
    }
    UNROLL for (int i = 0; i < 6; i++)
        UNROLL for (int j = 0; j < 4; j++)
            _mm512_storeu_si512(sums[i] + j * LANES, found[i][j]);
}

enum { NOTHING, GELU, ADD };

/* Multiply at most ROWS rows by a matrix, and add its bias; then GELU, or what is to be added. */
INLINE void multiply(const matrix *by, const float *given, size_t rows, const memory *at, int then, const float *add,
                     float *out)
{
    size_t n = by->inputs, width = by->outputs;
    for (size_t r = 0; r < rows; r++)
        round_row(given + r * n, n, at->digits + 2 * r * n, at->scales + r);
    for (size_t begin = 0; begin < width; begin += GROUP)
        for (size_t low = 0; low < rows; low += 3) {
            const uint8_t *digits[6];
            int32_t sums[6][GROUP];
            for (size_t i = 0; i < 6; i++)
                digits[i] = at->digits + (2 * (low + i / 2 < rows ? low + i / 2 : rows - 1) + i % 2) * n;
            multiply_digits(digits, by->packed + begin / GROUP * GROUP_BYTES(n), n, sums);
            for (size_t r = low; r < low + 3 && r < rows; r++)
                for (size_t k = begin; k < begin + GROUP && k < width; k += LANES) {
                    const int32_t *high = sums[2 * (r - low)] + k - begin;
                    floats found = (floats)_mm512_cvtepi32_ps(_mm512_loadu_si512(high)) * 128.0f;
                    found += (floats)_mm512_cvtepi32_ps(_mm512_loadu_si512(high + GROUP));
                    found = found * at->scales[r] * load(by->scale + k) + load(by->bias + k);
                    if (then == GELU)
                        found = gelu(found);
                    if (then == ADD)
                        found += load(add + r * width + k);
                    store(out + r * width + k, found);
                }
        }
}

/* The weights with which four pieces read all, not yet divided by their sums, which are returned in `totals`. */
INLINE void look(const float *const *query, const memory *at, size_t pieces, size_t wide, size_t head, float *totals)
{
    const floats never = all(-1e30f);
    floats most[4] = {never, never, never, never};
    for (size_t low = 0; low < wide; low += LANES) {
        floats found[4] = {{0}};
        for (size_t d = 0; d < head; d++) {
            floats key = load(at->keys + d * wide + low);
            UNROLL for (int i = 0; i < 4; i++)
                found[i] += key * query[i][d];
        }
        __mmask16 there = low + LANES <= pieces ? 0xffff : (1 << (pieces - low)) - 1;
        UNROLL for (int i = 0; i < 4; i++) {
            found[i] = (floats)_mm512_mask_mov_ps((__m512)never, there, (__m512)found[i]);
            most[i] = larger(found[i], most[i]);
            store(at->weights + i * wide + low, found[i]);
        }
    }
    UNROLL for (int i = 0; i < 4; i++) {
        floats total = {0};
        float *weights = at->weights + i * wide, largest = largest_of(most[i]);
        for (size_t low = 0; low < wide; low += LANES) {
            floats found = exponential(load(weights + low) - largest);
            store(weights + low, found);
            total += found;
        }
        totals[i] = sum_of(total);
    }
}

/* As `attention` of taggers/layers.py, for one window. */
TARGET static void attend(const layer *with, size_t pieces, const memory *at)
{
    size_t width = with->width, head = width / with->heads, wide = (pieces + LANES - 1) / LANES * LANES;
    float factor = 1 / __builtin_sqrtf(head);
    for (size_t h = 0; h < with->heads; h++) {
        const float *queries = at->joined + h * head, *values = queries + 2 * width;
        for (size_t d = 0; d < head; d++)
            for (size_t j = 0; j < wide; j++)
                at->keys[d * wide + j] = j < pieces ? queries[j * 3 * width + width + d] * factor : 0;
        for (size_t low = 0; low < pieces; low += 4) {
            const float *query[4];
            float totals[4];
            for (size_t i = 0; i < 4; i++)
                query[i] = queries + (low + i < pieces ? low + i : pieces - 1) * 3 * width;
            look(query, at, pieces, wide, head, totals);
            for (size_t d = 0; d < head; d += LANES) {
                floats found[4] = {{0}};
                for (size_t j = 0; j < pieces; j++) {
                    floats value = load(values + j * 3 * width + d);
                    UNROLL for (int i = 0; i < 4; i++)
                        found[i] += value * at->weights[i * wide + j];
                }
                UNROLL for (size_t i = 0; i < 4; i++)
                    if (low + i < pieces)
                        store(at->context + (low + i) * width + h * head + d, found[i] / totals[i]);
            }
        }
    }
}

TARGET void compute_layer(const layer *with, float *state, size_t pieces, const memory *at)
{
    size_t width = with->width;
    for (size_t low = 0; low < pieces; low += ROWS) {
        size_t n = pieces - low < ROWS ? pieces - low : ROWS;
        multiply(&with->looks, state + low * width, n, at, NOTHING, NULL, at->joined + low * 3 * width);
    }
    attend(with, pieces, at);
    for (size_t low = 0; low < pieces; low += ROWS) {
        size_t n = pieces - low < ROWS ? pieces - low : ROWS;
        float *here = state + low * width;
        multiply(&with->seen, at->context + low * width, n, at, ADD, here, at->between);
        for (size_t r = 0; r < n; r++)
            normalise(at->between + r * width, width, with->first_scale, with->first_bias, with->eps);
        multiply(&with->within, at->between, n, at, GELU, NULL, at->spread);
        multiply(&with->outer, at->spread, n, at, ADD, at->between, here);
        for (size_t r = 0; r < n; r++)
            normalise(here + r * width, width, with->second_scale, with->second_bias, with->eps);
    }
}

int can_compute_layer(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
           && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

#else

int can_compute_layer(void) { return 0; }

void compute_layer(const layer *with, float *state, size_t pieces, const memory *at)
{
    (void)with, (void)state, (void)pieces, (void)at;
}

#endif

/* A layer of BERT with weights in eight bits, for processors with AMX, AVX-512 VNNI or AVX2.

   What weights are multiplied with is rounded to 15 bits; products are whole numbers, and exact. So a piece's result
   depends on its window alone. */
#include "layer.h"

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define UNROLL _Pragma("GCC unroll 6")
#define TO_WHOLE 12582912.0f /* 1.5 * 2^23: a number added to it is rounded to a whole one, halves to even */

typedef uint8_t bytes __attribute__((vector_size(16)));
typedef uint8_t bytes_anywhere __attribute__((vector_size(16), aligned(1), may_alias));
typedef int16_t shorts __attribute__((vector_size(16)));
typedef int16_t shorts_anywhere __attribute__((vector_size(16), aligned(1), may_alias));
typedef float vnni_floats_type __attribute__((vector_size(64)));
typedef float vnni_floats_anywhere __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t vnni_ints_type __attribute__((vector_size(64)));
typedef float avx2_floats_type __attribute__((vector_size(32)));
typedef float avx2_floats_anywhere __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t avx2_ints_type __attribute__((vector_size(32)));

enum { NOTHING, GELU, ADD };

#define NAME(x) vnni_##x
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")))
#define LANES 16
#define ROWS_AT_ONCE 3
#define OUTPUTS_AT_ONCE 64

/* n high digits, then n low ones, each plus 128. */
TARGET static inline void vnni_store_rounded(uint8_t *row, size_t n, size_t k, vnni_ints_type numbers)
{
    vnni_ints_type high = (numbers + 64) >> 7;
    *(bytes_anywhere *)(row + k) = __builtin_convertvector(high + 128, bytes);
    *(bytes_anywhere *)(row + n + k) = __builtin_convertvector(numbers - (high << 7) + 128, bytes);
}

/* All sums stay in registers: this takes three quarters of the time. */
TARGET static __attribute__((noinline)) void vnni_products(
    const uint8_t *const *rows, const int8_t *packed, size_t inputs, float sums[][OUTPUTS_AT_ONCE])
{
    const uint8_t *digits[6];
    __m512i found[6][4];
    for (int i = 0; i < 6; i++)
        digits[i] = rows[i / 2] + i % 2 * inputs;
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
    /* Stored first: converted at once, each sum would have two registers. */
    int32_t whole[6][OUTPUTS_AT_ONCE];
    UNROLL for (int i = 0; i < 6; i++)
        UNROLL for (int j = 0; j < 4; j++)
            _mm512_storeu_si512(whole[i] + j * 16, found[i][j]);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < OUTPUTS_AT_ONCE; j++)
            sums[i][j] = whole[2 * i][j] * 128.0f + whole[2 * i + 1][j];
}
#include "layer_steps.h"

/* Tiles of 16 rows of 64 bytes, where Linux grants their use to the process. */
#if defined(__linux__) && (__GNUC__ >= 11 || __clang_major__ >= 12)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAME(x) amx_##x
#define amx_floats_type vnni_floats_type
#define amx_floats_anywhere vnni_floats_anywhere
#define amx_ints_type vnni_ints_type
#define amx_store_rounded vnni_store_rounded
#define TARGET \
    __attribute__((target("amx-tile,amx-int8,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")))
#define LANES 16
#define ROWS_AT_ONCE 16
#define OUTPUTS_AT_ONCE 32
#define ROW_BYTES 64

/* How many inputs a tile takes: all tiles of a matrix are full. */
static size_t amx_depth(size_t inputs) { return inputs % 64 == 0 ? 64 : inputs % 32 == 0 ? 32 : 16; }

/* Tiles 0 to 3 are sums, 4 and 5 the digits, high and low, 6 and 7 the weights. */
TARGET static void amx_configure(size_t inputs)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shapes = {.palette = 1};
    for (int k = 0; k < 8; k++) {
        shapes.row_bytes[k] = k == 4 || k == 5 ? amx_depth(inputs) : ROW_BYTES;
        shapes.rows[k] = k >= 6 ? amx_depth(inputs) / 4 : ROWS_AT_ONCE;
    }
    _tile_loadconfig(&shapes);
}
#define BEFORE_PRODUCTS(inputs) amx_configure(inputs)
#define AFTER_PRODUCTS() _tile_release()

/* The rows follow each other in memory; those past the last one are computed, and not used. */
TARGET static __attribute__((noinline)) void amx_products(
    const uint8_t *const *rows, const int8_t *packed, size_t inputs, float sums[][OUTPUTS_AT_ONCE])
{
    const uint8_t *digits = rows[0];
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t k = 0, depth = amx_depth(inputs); k < inputs; k += depth) {
        _tile_loadd(4, digits + k, 2 * inputs);
        _tile_loadd(5, digits + inputs + k, 2 * inputs);
        _tile_loadd(6, packed + k * GROUP, 4 * GROUP);
        _tile_loadd(7, packed + k * GROUP + ROW_BYTES, 4 * GROUP);
        _tile_dpbusd(0, 4, 6);
        _tile_dpbusd(1, 4, 7);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
    }
    int32_t whole[4][ROWS_AT_ONCE][16];
    _tile_stored(0, whole[0], ROW_BYTES);
    _tile_stored(1, whole[1], ROW_BYTES);
    _tile_stored(2, whole[2], ROW_BYTES);
    _tile_stored(3, whole[3], ROW_BYTES);
    for (int j = 0; j < 2; j++) {
        vnni_ints_type less; /* the digits' 128, times the weights */
        memcpy(&less, packed + inputs * GROUP + j * ROW_BYTES, sizeof less);
        less <<= 7;
        for (int i = 0; i < ROWS_AT_ONCE; i++) {
            vnni_ints_type high, low;
            memcpy(&high, whole[j][i], sizeof high);
            memcpy(&low, whole[2 + j][i], sizeof low);
            vnni_floats_type found = __builtin_convertvector(high - less, vnni_floats_type) * 128.0f
                                     + __builtin_convertvector(low - less, vnni_floats_type);
            memcpy(sums[i] + j * 16, &found, sizeof found);
        }
    }
}
#include "layer_steps.h"

static int has_amx(void)
{
    static int known = -1;
    unsigned a, b, c, d = 0;
    if (known < 0)
        known = __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 24 & 1 && d >> 25 & 1
                && syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* tiles */) == 0;
    return known;
}
#else
static int has_amx(void) { return 0; }
#define amx_compute_layer vnni_compute_layer
#endif

#define NAME(x) avx2_##x
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define ROWS_AT_ONCE 6
#define OUTPUTS_AT_ONCE 16
#define MOST_SUMMED 2048 /* products of 15 bits and eight whose sums fit 32 bits, two lanes an output */

/* Written as an intrinsic, GCC copies every sum from register to register. */
#define ADD_TO(sum, more) __asm__("vpaddd %1, %0, %0" : "+x"(sum) : "x"(more))

TARGET static inline void avx2_store_rounded(uint8_t *row, size_t n, size_t k, avx2_ints_type numbers)
{
    (void)n;
    *(shorts_anywhere *)(row + 2 * k) = __builtin_convertvector(numbers, shorts);
}

/* Add the sums of eight outputs, which are in registers. */
TARGET static __attribute__((noinline)) void avx2_add_eight(
    const uint8_t *const *rows, const int8_t *packed, size_t from, size_t to, double sums[][OUTPUTS_AT_ONCE])
{
    __m256i found[ROWS_AT_ONCE][2];
    UNROLL for (int i = 0; i < ROWS_AT_ONCE; i++)
        found[i][0] = found[i][1] = _mm256_setzero_si256();
    for (size_t k = from; k < to; k += 4) {
        __m256i first = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(packed + k * GROUP)));
        __m256i second = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(packed + k * GROUP + 16)));
        UNROLL for (int i = 0; i < ROWS_AT_ONCE; i++) {
            int64_t four;
            memcpy(&four, rows[i] + 2 * k, 8);
            __m256i row = _mm256_set1_epi64x(four);
            ADD_TO(found[i][0], _mm256_madd_epi16(row, first));
            ADD_TO(found[i][1], _mm256_madd_epi16(row, second));
        }
    }
    UNROLL for (int i = 0; i < ROWS_AT_ONCE; i++) {
        UNROLL for (int j = 0; j < 2; j++) {
            /* Two lanes an output, whose sum takes 33 bits, in the order 0 2 1 3. */
            __m256d low = _mm256_cvtepi32_pd(_mm256_castsi256_si128(found[i][j]));
            __m256d high = _mm256_cvtepi32_pd(_mm256_extracti128_si256(found[i][j], 1));
            __m256d four = _mm256_permute4x64_pd(_mm256_hadd_pd(low, high), 0xd8);
            _mm256_storeu_pd(sums[i] + 4 * j, _mm256_add_pd(_mm256_loadu_pd(sums[i] + 4 * j), four));
        }
    }
}

TARGET static void avx2_products(
    const uint8_t *const *rows, const int8_t *packed, size_t inputs, float sums[][OUTPUTS_AT_ONCE])
{
    double whole[ROWS_AT_ONCE][OUTPUTS_AT_ONCE] = {{0}};
    for (size_t from = 0; from < inputs; from += MOST_SUMMED) {
        size_t to = inputs - from < MOST_SUMMED ? inputs : from + MOST_SUMMED;
        avx2_add_eight(rows, packed, from, to, whole);
        avx2_add_eight(rows, packed + 32, from, to, (double(*)[OUTPUTS_AT_ONCE])(*whole + 8));
    }
    for (int i = 0; i < ROWS_AT_ONCE; i++)
        for (int j = 0; j < OUTPUTS_AT_ONCE; j++)
            sums[i][j] = whole[i][j];
}
#include "layer_steps.h"

int can_compute_layer(int level)
{
    if (level == AVX2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (level == AMX && !has_amx())
        return 0;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
           && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

void compute_layer(int level, const layer *with, float *state, size_t pieces, const memory *at)
{
    void (*const compute[LEVELS])(const layer *, float *, size_t, const memory *) = {
        amx_compute_layer, vnni_compute_layer, avx2_compute_layer};
    compute[level](with, state, pieces, at);
}

#else

int can_compute_layer(int level) { return level < 0; }

void compute_layer(int level, const layer *with, float *state, size_t pieces, const memory *at)
{
    (void)level, (void)with, (void)state, (void)pieces, (void)at;
}

#endif

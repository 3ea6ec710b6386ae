/* A layer of BERT with matrices and activations in eight bits, for the instructions that the processor has. */
#include "core.h"
#include "layer.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define NAME(x) vnni_##x
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")))
#define ROWS_AT_ONCE 6
#define BLOCKS_AT_ONCE 4
#define ZERO 128 /* the instruction takes numbers from 0 to 255 */

/* Stored as what they were added as: else the compiler keeps every sum twice, and not in registers. */
TARGET static __attribute__((noinline)) void vnni_products(
    const int8_t *const *rows, const int8_t *packed, size_t inputs, ints sums[][BLOCKS_AT_ONCE])
{
    size_t step = BLOCK_BYTES(inputs);
    __m512i found[ROWS_AT_ONCE][BLOCKS_AT_ONCE];
    UNROLL for (int j = 0; j < BLOCKS_AT_ONCE; j++) {
        __m512i moved = _mm512_slli_epi32(_mm512_loadu_si512(packed + j * step + inputs * 16), 7);
        UNROLL for (int i = 0; i < ROWS_AT_ONCE; i++)
            found[i][j] = _mm512_sub_epi32(_mm512_setzero_si512(), moved);
    }
    for (size_t k = 0; k < inputs; k += 4, packed += 64) {
        __m512i first = _mm512_loadu_si512(packed), second = _mm512_loadu_si512(packed + step);
        __m512i third = _mm512_loadu_si512(packed + 2 * step), fourth = _mm512_loadu_si512(packed + 3 * step);
        UNROLL for (int i = 0; i < ROWS_AT_ONCE; i++) {
            int32_t four;
            memcpy(&four, rows[i] + k, 4);
            __m512i row = _mm512_set1_epi32(four);
            found[i][0] = _mm512_dpbusd_epi32(found[i][0], row, first);
            found[i][1] = _mm512_dpbusd_epi32(found[i][1], row, second);
            found[i][2] = _mm512_dpbusd_epi32(found[i][2], row, third);
            found[i][3] = _mm512_dpbusd_epi32(found[i][3], row, fourth);
        }
    }
    UNROLL for (int i = 0; i < ROWS_AT_ONCE; i++)
        UNROLL for (int j = 0; j < BLOCKS_AT_ONCE; j++)
            _mm512_storeu_si512(&sums[i][j], found[i][j]);
}
#include "layer_steps.h"

#define NAME(x) avx2_##x
#define TARGET __attribute__((target("avx2,fma")))
#define ROWS_AT_ONCE 4
#define BLOCKS_AT_ONCE 1
#define ZERO 0

/* |a| * (w with the sign of a): two such products fit 16 bits, as neither a nor w is -128. */
TARGET static __attribute__((noinline)) void avx2_products(
    const int8_t *const *rows, const int8_t *packed, size_t inputs, ints sums[][BLOCKS_AT_ONCE])
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i found[ROWS_AT_ONCE][2];
    UNROLL for (int i = 0; i < ROWS_AT_ONCE; i++)
        found[i][0] = found[i][1] = _mm256_setzero_si256();
    for (size_t k = 0; k < inputs; k += 4) {
        __m256i weights[2] = {_mm256_loadu_si256((const void *)(packed + k * 16)),
                              _mm256_loadu_si256((const void *)(packed + k * 16 + 32))};
        UNROLL for (int i = 0; i < ROWS_AT_ONCE; i++) {
            int32_t four;
            memcpy(&four, rows[i] + k, 4);
            __m256i row = _mm256_set1_epi32(four), size = _mm256_abs_epi8(row);
            UNROLL for (int j = 0; j < 2; j++) {
                __m256i pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(weights[j], row));
                found[i][j] = _mm256_add_epi32(found[i][j], _mm256_madd_epi16(pairs, ones));
            }
        }
    }
    UNROLL for (int i = 0; i < ROWS_AT_ONCE; i++)
        memcpy(&sums[i][0], found[i], sizeof sums[i][0]);
}
#include "layer_steps.h"
#endif

#define NAME(x) plain_##x
#define TARGET
#define ROWS_AT_ONCE 4
#define BLOCKS_AT_ONCE 1
#define ZERO 0

static inline void plain_products(
    const int8_t *const *rows, const int8_t *packed, size_t inputs, ints sums[][BLOCKS_AT_ONCE])
{
    for (int i = 0; i < ROWS_AT_ONCE; i++) {
        int32_t found[LANES] = {0};
        for (size_t k = 0; k < inputs; k += 4)
            for (int j = 0; j < LANES; j++)
                for (int part = 0; part < 4; part++)
                    found[j] += rows[i][k + part] * packed[k * 16 + j * 4 + part];
        memcpy(&sums[i][0], found, sizeof found);
    }
}
#include "layer_steps.h"

static const struct {
    const char *name;
    run_function *run;
} levels[] = {
#if defined(__x86_64__)
    {"avx512vnni", vnni_run},
    {"avx2", avx2_run},
#endif
    {"plain", plain_run},
};
#define LEVELS ((int)(sizeof levels / sizeof *levels))

static int is_supported(int level)
{
#if defined(__x86_64__)
    if (level == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
               && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
               && __builtin_cpu_supports("avx512vnni");
    if (level == 1)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return 1;
}

PyObject *core_levels(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyObject *found = PyList_New(0);
    for (int k = 0; found != NULL && k < LEVELS; k++) {
        PyObject *name = is_supported(k) ? PyUnicode_FromString(levels[k].name) : NULL;
        if (name != NULL && PyList_Append(found, name) < 0)
            Py_CLEAR(found);
        Py_XDECREF(name);
    }
    return found;
}

PyObject *core_pack(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *given, *to;
    if (!PyArg_ParseTuple(arguments, "OO", &given, &to))
        return NULL;
    Py_buffer weights, packed;
    Py_ssize_t shape[2] = {-1, -1};
    if (take_array(given, &weights, 'b', 2, shape, 0) < 0)
        return NULL;
    size_t outputs = shape[0], inputs = shape[1];
    Py_ssize_t wanted[2] = {BLOCKS(outputs), BLOCK_BYTES(inputs)};
    int fits = outputs % LANES == 0 && inputs % LANES == 0;
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "the matrix has not a multiple of 16 rows and columns");
    if (!fits || take_array(to, &packed, 'b', 2, wanted, 1) < 0) {
        PyBuffer_Release(&weights);
        return NULL;
    }
    const int8_t *from = weights.buf;
    int8_t *block = packed.buf;
    memset(block, 0, packed.len);
    for (size_t n = 0; n < outputs; n++) {
        int32_t sum = 0;
        int8_t *here = block + n / LANES * BLOCK_BYTES(inputs);
        for (size_t k = 0; k < inputs; k++) {
            int8_t weight = from[n * inputs + k];
            sum += weight;
            fits = fits && weight != -128;
            here[k / 4 * 64 + n % LANES * 4 + k % 4] = weight;
        }
        memcpy(here + inputs * 16 + n % LANES * 4, &sum, 4);
    }
    PyBuffer_Release(&packed);
    PyBuffer_Release(&weights);
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "a weight is -128");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Take an array into the next of the views; 0 where it does not fit. */
static int take(PyObject *object, Py_buffer **next, char type, int dimensions, Py_ssize_t first, Py_ssize_t second)
{
    Py_ssize_t shape[2] = {first, second};
    if (take_array(object, *next, type, dimensions, shape, 0) < 0)
        return 0;
    ++*next;
    return 1;
}

static int take_matrix(PyObject **parts, Py_buffer **next, matrix *into, size_t outputs, size_t inputs)
{
    const Py_buffer *first = *next;
    if (!take(parts[0], next, 'b', 2, BLOCKS(outputs), BLOCK_BYTES(inputs)) || !take(parts[1], next, 'f', 1, outputs, 0)
        || !take(parts[2], next, 'f', 1, outputs, 0))
        return 0;
    *into = (matrix){outputs, inputs, first[0].buf, first[1].buf, first[2].buf};
    return 1;
}

/* Give each part of a piece of memory its place; returns the size of all. */
static size_t lay_out(memory *at, uintptr_t begin, const layer *with, size_t rows)
{
    size_t wide = (rows + LANES - 1) / LANES * LANES, most = with->width > with->inner ? with->width : with->inner;
    struct { float **part; size_t count; } parts[] = {
        {&at->joined, rows * 3 * with->width}, {&at->context, rows * with->width},
        {&at->between, ROWS * with->width},    {&at->spread, ROWS * with->inner},
        {&at->scales, ROWS},                   {&at->keys, with->width / with->heads * wide},
        {&at->weights, 4 * wide},
    };
    size_t used = 0;
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        *parts[k].part = (float *)(begin + used);
        used += (parts[k].count * sizeof(float) + 63) / 64 * 64;
    }
    at->rounded = (int8_t *)(begin + used);
    return used + ROWS * most;
}

static int run(int level, const layer *with, float *state, size_t rows)
{
    memory at;
    char *block = malloc(lay_out(&at, 0, with, rows) + 64);
    if (block == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    lay_out(&at, ((uintptr_t)block + 63) / 64 * 64, with, rows);
    Py_BEGIN_ALLOW_THREADS
    levels[level].run(with, state, rows, &at);
    Py_END_ALLOW_THREADS
    free(block);
    return 0;
}

static int find_level(const char *name)
{
    for (int k = 0; k < LEVELS; k++)
        if (strcmp(levels[k].name, name) == 0 && is_supported(k))
            return k;
    PyErr_SetString(PyExc_ValueError, "this processor has no such level");
    return -1;
}

PyObject *core_run_layer(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *given, *part[16], **p = part;
    Py_ssize_t heads;
    layer with;
    const char *name;
    if (!PyArg_ParseTuple(arguments, "O((OOO)(OOO)(OOO)(OOO)(OO)(OO))nfs", &given, p, p + 1, p + 2, p + 3, p + 4, p + 5,
                          p + 6, p + 7, p + 8, p + 9, p + 10, p + 11, p + 12, p + 13, p + 14, p + 15, &heads, &with.eps,
                          &name))
        return NULL;
    int level = find_level(name), done = -1;
    Py_buffer views[17], *next = views + 1;
    Py_ssize_t shape[2] = {-1, -1}, inner[1] = {-1};
    if (level < 0 || take_array(given, views, 'f', 2, shape, 1) < 0)
        return NULL;
    Py_ssize_t rows = shape[0], width = shape[1];
    if (heads <= 0 || width <= 0 || width % (heads * LANES) != 0) {
        PyErr_SetString(PyExc_ValueError, "the width of a head is not a multiple of 16");
        goto release;
    }
    /* The bias of the inner matrix says how wide it is. */
    if (take_array(part[8], next, 'f', 1, inner, 0) < 0)
        goto release;
    PyBuffer_Release(next);
    if (inner[0] <= 0 || inner[0] % LANES != 0) {
        PyErr_SetString(PyExc_ValueError, "the inner width is not a multiple of 16");
        goto release;
    }
    with.width = width, with.inner = inner[0], with.heads = heads;
    if (take_matrix(part, &next, &with.looks, 3 * width, width) && take_matrix(part + 3, &next, &with.seen, width, width)
        && take_matrix(part + 6, &next, &with.within, inner[0], width)
        && take_matrix(part + 9, &next, &with.outer, width, inner[0]) && take(part[12], &next, 'f', 1, width, 0)
        && take(part[13], &next, 'f', 1, width, 0) && take(part[14], &next, 'f', 1, width, 0)
        && take(part[15], &next, 'f', 1, width, 0)) {
        with.first_scale = next[-4].buf, with.first_bias = next[-3].buf;
        with.second_scale = next[-2].buf, with.second_bias = next[-1].buf;
        done = rows > 0 ? run(level, &with, views[0].buf, rows) : 0;
    }
release:
    while (next > views)
        PyBuffer_Release(--next);
    if (done < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* An LSTM in both directions over sequences, each by itself: what `LstmPair` does in numpy, to the last digits.

   Every sum is taken in one order, whatever the processor's vectors, and no product is fused with a sum: all processors
   give the same bits. */
#include "core.h"

EXACT_SUMS

#include <stdlib.h>
#include <string.h>

/* The compiler makes a version for each set of instructions, and the loader takes the best one that is here. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

/* tanh by a ratio of polynomials in x * x (as Eigen computes it), exact to some units in the last place. */
#define LARGEST 7.90531110763549805f
#define TANH(x)                                                                                                   \
    {                                                                                                             \
        float a = x > LARGEST ? LARGEST : x < -LARGEST ? -LARGEST : x, b = a * a;                                 \
        float above = -2.76076847742355e-16f;                                                                     \
        above = above * b + 2.00018790482477e-13f;                                                                \
        above = above * b - 8.60467152213735e-11f;                                                                \
        above = above * b + 5.12229709037114e-08f;                                                                \
        above = above * b + 1.48572235717979e-05f;                                                                \
        above = above * b + 6.37261928875436e-04f;                                                                \
        above = above * b + 4.89352455891786e-03f;                                                                \
        float below = 1.19825839466702e-06f;                                                                      \
        below = below * b + 1.18534705686654e-04f;                                                                \
        below = below * b + 2.26843463243900e-03f;                                                                \
        below = below * b + 4.89352518554385e-03f;                                                                \
        x = a * above / below;                                                                                    \
    }

/* Take a step: `gates` (4 * hidden) has what the input gives, in the order in, forget, out, cell; `out` the new state. */
FOR_EACH_PROCESSOR
static void step(
    float *restrict gates, const float *restrict weights, const float *restrict state, float *restrict cell,
    float *restrict out, size_t hidden)
{
    size_t all = 4 * hidden;
    for (size_t k = 0; state != NULL && k < hidden; k++) {
        const float *restrict row = weights + k * all;
        float value = state[k];
        for (size_t j = 0; j < all; j++)
            gates[j] += value * row[j];
    }
    for (size_t j = 0; j < all; j++)
        TANH(gates[j])
    for (size_t j = 0; j < 3 * hidden; j++)
        gates[j] = gates[j] * 0.5f + 0.5f;
    for (size_t j = 0; j < hidden; j++) {
        cell[j] = cell[j] * gates[hidden + j] + gates[j] * gates[3 * hidden + j];
        float value = cell[j];
        TANH(value)
        out[j] = gates[2 * hidden + j] * value;
    }
}

PyObject *core_run_lstm(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *objects[4];
    Py_buffer views[4];
    Py_ssize_t given[3] = {2, -1, -1}, weights[3] = {2, -1, -1}, count[1] = {-1}, out[2] = {-1, -1};
    const struct {
        Py_ssize_t *shape;
        char type;
        int dimensions, writable;
    } wanted[] = {{given, 'f', 3, 1}, {weights, 'f', 3, 0}, {count, 'q', 1, 0}, {out, 'f', 2, 1}};
    if (!PyArg_ParseTuple(arguments, "OOOO", objects, objects + 1, objects + 2, objects + 3))
        return NULL;
    int held = 0;
    while (held < 4
           && take_array(objects[held], views + held, wanted[held].type, wanted[held].dimensions, wanted[held].shape,
                         wanted[held].writable) == 0)
        held++;
    Py_ssize_t hidden = weights[1], rows = given[1], total = 0;
    const int64_t *lengths = held == 4 ? views[2].buf : NULL;
    int fits = held == 4 && weights[2] == 4 * hidden && given[2] == 4 * hidden && out[0] == rows && out[1] == 2 * hidden;
    for (Py_ssize_t k = 0; fits && k < count[0]; k++) {
        fits = lengths[k] >= 0 && lengths[k] <= rows - total;
        total += fits ? lengths[k] : 0;
    }
    fits = fits && total == rows;
    float *cell = fits ? malloc((hidden + 1) * sizeof *cell) : NULL;
    if (cell != NULL) {
        Py_BEGIN_ALLOW_THREADS
        for (int backwards = 0; backwards < 2; backwards++) {
            float *gates = (float *)views[0].buf + backwards * rows * 4 * hidden;
            float *states = (float *)views[3].buf + backwards * hidden;
            const float *by = (const float *)views[1].buf + backwards * hidden * 4 * hidden;
            for (Py_ssize_t k = 0, first = 0; k < count[0]; first += lengths[k++]) {
                const float *before = NULL;
                memset(cell, 0, hidden * sizeof *cell);
                for (int64_t place = 0; place < lengths[k]; place++) {
                    Py_ssize_t row = first + (backwards ? lengths[k] - 1 - place : place);
                    step(gates + row * 4 * hidden, by, before, cell, states + row * 2 * hidden, hidden);
                    before = states + row * 2 * hidden;
                }
            }
        }
        Py_END_ALLOW_THREADS
        free(cell);
    }
    while (held > 0)
        PyBuffer_Release(views + --held);
    if (cell == NULL && !PyErr_Occurred())
        fits ? (void)PyErr_NoMemory() : PyErr_SetString(PyExc_ValueError, "the arrays do not fit each other");
    if (cell == NULL)
        return NULL;
    Py_RETURN_NONE;
}

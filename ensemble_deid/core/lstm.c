/* An LSTM in both directions over sequences, each by itself: what `LstmPair` does in numpy, to the last digits.

   Every sum is taken in one order, whatever the width of a processor's vectors, and no product is fused with a sum: all
   processors give the same bits. */
#include "core.h"

EXACT_SUMS
/* Else the bounds of tanh are compared one by one; the bits are the same. */
#if defined(__GNUC__) && !defined(__clang__)
_Pragma("GCC optimize(\"no-trapping-math\")")
#endif

#include <stdlib.h>
#include <string.h>

/* tanh by a ratio of polynomials in x * x (as Eigen computes it), exact to some units in the last place. */
static inline float tanh_of(float x)
{
    const float largest = 7.90531110763549805f;
    float a = x > largest ? largest : x < -largest ? -largest : x, b = a * a;
    float above = -2.76076847742355e-16f;
    above = above * b + 2.00018790482477e-13f;
    above = above * b - 8.60467152213735e-11f;
    above = above * b + 5.12229709037114e-08f;
    above = above * b + 1.48572235717979e-05f;
    above = above * b + 6.37261928875436e-04f;
    above = above * b + 4.89352455891786e-03f;
    float below = 1.19825839466702e-06f;
    below = below * b + 1.18534705686654e-04f;
    below = below * b + 2.26843463243900e-03f;
    below = below * b + 4.89352518554385e-03f;
    return a * above / below;
}

/* Take a step: `gates` (4 * hidden) has what the input gives, in the order in, forget, out, cell; `out` the new state. */
CLONES("avx512f", "avx2", "default")
static void step(
    float *RESTRICT gates, const float *RESTRICT weights, const float *RESTRICT state, float *RESTRICT cell,
    float *RESTRICT out, size_t hidden)
{
    size_t all = 4 * hidden;
    for (size_t k = 0; state != NULL && k < hidden; k++) {
        const float *RESTRICT row = weights + k * all;
        float value = state[k];
        for (size_t j = 0; j < all; j++)
            gates[j] += value * row[j];
    }
    for (size_t j = 0; j < all; j++)
        gates[j] = tanh_of(gates[j]);
    for (size_t j = 0; j < 3 * hidden; j++)
        gates[j] = gates[j] * 0.5f + 0.5f;
    for (size_t j = 0; j < hidden; j++) {
        cell[j] = cell[j] * gates[hidden + j] + gates[j] * gates[3 * hidden + j];
        out[j] = gates[2 * hidden + j] * tanh_of(cell[j]);
    }
}

/* Step through a sequence of `length` tokens, from its first or its last one on. `gates` and `states` are those of its
   first token; a token's states of both directions lie side by side. */
static void run(float *gates, const float *weights, float *cell, float *states, int64_t length, size_t hidden, int back)
{
    const float *before = NULL;
    memset(cell, 0, hidden * sizeof *cell);
    for (int64_t place = 0; place < length; place++) {
        int64_t row = back ? length - 1 - place : place;
        step(gates + row * 4 * hidden, weights, before, cell, states + row * 2 * hidden, hidden);
        before = states + row * 2 * hidden;
    }
}

/* Return whether lengths are those of sequences that make up all rows. */
static int are_lengths(const int64_t *lengths, Py_ssize_t count, Py_ssize_t rows)
{
    for (Py_ssize_t k = 0; k < count; rows -= lengths[k++])
        if (lengths[k] < 0 || lengths[k] > rows)
            return 0;
    return rows == 0;
}

static int run_all(Py_buffer *views, Py_ssize_t rows, Py_ssize_t hidden, Py_ssize_t count)
{
    const int64_t *lengths = views[2].buf;
    float *cell = malloc((hidden + 1) * sizeof *cell);
    if (cell == NULL)
        return 0;
    Py_BEGIN_ALLOW_THREADS
    for (int back = 0; back < 2; back++) {
        float *gates = (float *)views[0].buf + back * rows * 4 * hidden;
        float *states = (float *)views[3].buf + back * hidden;
        const float *weights = (const float *)views[1].buf + back * hidden * 4 * hidden;
        for (Py_ssize_t k = 0, first = 0; k < count; first += lengths[k++])
            run(gates + first * 4 * hidden, weights, cell, states + first * 2 * hidden, lengths[k], hidden, back);
    }
    Py_END_ALLOW_THREADS
    free(cell);
    return 1;
}

PyObject *core_run_lstm(PyObject *module, PyObject *arguments)
{
    (void)module;
    static const char types[] = "ffqf";
    static const int dimensions[] = {3, 3, 1, 2}, writable[] = {1, 0, 0, 1};
    PyObject *objects[4];
    Py_buffer views[4];
    Py_ssize_t shapes[4][3] = {{2, -1, -1}, {2, -1, -1}, {-1}, {-1, -1}};
    if (!PyArg_ParseTuple(arguments, "OOOO", objects, objects + 1, objects + 2, objects + 3))
        return NULL;
    int held = 0;
    while (held < 4 && take_array(objects[held], views + held, types[held], dimensions[held], shapes[held], writable[held]) == 0)
        held++;
    if (held == 4) {
        Py_ssize_t rows = shapes[0][1], hidden = shapes[1][1], count = shapes[2][0];
        int fits = shapes[0][2] == 4 * hidden && shapes[1][2] == 4 * hidden && shapes[3][0] == rows
                   && shapes[3][1] == 2 * hidden && are_lengths(views[2].buf, count, rows);
        if (!fits)
            PyErr_SetString(PyExc_ValueError, "the arrays do not fit each other");
        else if (!run_all(views, rows, hidden, count))
            PyErr_NoMemory();
    }
    while (held > 0)
        PyBuffer_Release(views + --held);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

/* The encoder's functions for Python: they check arrays, and give them to `compute_layer`. */
#include "core.h"
#include "layer.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"amx", "avx512vnni", "avx2"};

PyObject *core_levels(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyObject *found = PyList_New(0);
    for (int k = 0; found != NULL && k < LEVELS; k++) {
        if (!can_compute_layer(k))
            continue;
        PyObject *name = PyUnicode_FromString(names[k]);
        if (name == NULL || PyList_Append(found, name) < 0)
            Py_CLEAR(found);
        Py_XDECREF(name);
    }
    return found;
}

/* Return the number of a level that this processor has, LEVELS where it has no such one. */
static int level_of(const char *name)
{
    int k = 0;
    while (k < LEVELS && (strcmp(names[k], name) != 0 || !can_compute_layer(k)))
        k++;
    return k;
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
    if (!take(parts[0], next, 'b', 2, GROUPS(outputs), GROUP_BYTES(inputs)) || !take(parts[1], next, 'f', 1, outputs, 0)
        || !take(parts[2], next, 'f', 1, outputs, 0))
        return 0;
    *into = (matrix){outputs, inputs, first[0].buf, first[1].buf, first[2].buf};
    return 1;
}

/* Give each part of the working memory its place; return where it ends. */
static uintptr_t lay_out(memory *at, uintptr_t place, const layer *with, size_t pieces)
{
    size_t wide = (pieces + STEP - 1) / STEP * STEP, most = with->width > with->inner ? with->width : with->inner;
    struct {
        float **part;
        size_t count;
    } parts[] = {
        {&at->joined, pieces * 3 * with->width}, {&at->context, pieces * with->width}, {&at->between, ROWS * with->width},
        {&at->spread, ROWS * with->inner},       {&at->scales, ROWS},                  {&at->weights, 4 * wide},
        {&at->keys, with->width / with->heads * wide},
    };
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        place = (place + 63) / 64 * 64;
        *parts[k].part = (float *)place;
        place += parts[k].count * sizeof(float);
    }
    at->digits = (uint8_t *)place;
    return place + ROWS * 2 * most;
}

static int run(int level, const layer *with, float *state, size_t pieces)
{
    memory at;
    void *block = malloc(lay_out(&at, 0, with, pieces) + 64);
    if (block == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    lay_out(&at, (uintptr_t)block, with, pieces);
    Py_BEGIN_ALLOW_THREADS
    compute_layer(level, with, state, pieces, &at);
    Py_END_ALLOW_THREADS
    free(block);
    return 1;
}

/* Set the sizes of a layer, the inner one by the bias of its matrix. */
static int take_sizes(int level, layer *with, Py_ssize_t width, Py_ssize_t heads, PyObject *inner_bias)
{
    Py_buffer view;
    Py_ssize_t inner[1] = {-1};
    if (take_array(inner_bias, &view, 'f', 1, inner, 0) < 0)
        return 0;
    PyBuffer_Release(&view);
    with->width = width, with->inner = inner[0], with->heads = heads;
    if (level < LEVELS && heads > 0 && heads <= MOST_INPUTS && width > 0 && width <= MOST_INPUTS
        && width % (heads * STEP) == 0 && inner[0] > 0 && inner[0] <= MOST_INPUTS && inner[0] % STEP == 0)
        return 1;
    PyErr_SetString(PyExc_ValueError, "the core does not compute layers of this size here");
    return 0;
}

PyObject *core_run_layer(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *given, *p[16];
    Py_ssize_t heads, shape[2] = {-1, -1};
    Py_buffer views[17], *next = views + 1;
    layer with;
    const char *name;
    if (!PyArg_ParseTuple(arguments, "O((OOO)(OOO)(OOO)(OOO)(OO)(OO))nfs", &given, p, p + 1, p + 2, p + 3, p + 4, p + 5,
                          p + 6, p + 7, p + 8, p + 9, p + 10, p + 11, p + 12, p + 13, p + 14, p + 15, &heads, &with.eps,
                          &name)
        || take_array(given, views, 'f', 2, shape, 1) < 0)
        return NULL;
    Py_ssize_t width = shape[1];
    int done = take_sizes(level_of(name), &with, width, heads, p[8]) && take_matrix(p, &next, &with.looks, 3 * width, width)
               && take_matrix(p + 3, &next, &with.seen, width, width)
               && take_matrix(p + 6, &next, &with.within, with.inner, width)
               && take_matrix(p + 9, &next, &with.outer, width, with.inner);
    for (int k = 12; done && k < 16; k++)
        done = take(p[k], &next, 'f', 1, width, 0);
    if (done) {
        with.first_scale = next[-4].buf, with.first_bias = next[-3].buf;
        with.second_scale = next[-2].buf, with.second_bias = next[-1].buf;
        done = shape[0] == 0 || run(level_of(name), &with, views[0].buf, shape[0]);
    }
    while (next > views)
        PyBuffer_Release(--next);
    if (!done)
        return NULL;
    Py_RETURN_NONE;
}

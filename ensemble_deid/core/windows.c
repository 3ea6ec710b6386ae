/* The scores that a CRF's windows give the tags of each token: what `CrfTagger.emissions` does in numpy, bit for bit. */

#include "core.h"

EXACT_SUMS

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PARTS 8
#define MANY 12
#define UNKNOWN UINT64_MAX /* no window has so many values */
#define BLOCK 256 /* tokens whose scores stay in the processor's cache while all windows add to them */

typedef struct {
    Py_buffer keys, values[MOST_PARTS];
    int64_t sizes[MOST_PARTS], first;
    int parts; /* how many of `values` are held */
    int held;  /* whether `keys` is */
} Window;

typedef struct {
    Py_buffer begins, label, tag, weight;
    Py_ssize_t tags, attributes, labels, weights;
} Weights;

/* Find the keys of many tokens together: each step halves the range for all, so that no step waits for another's memory.
   Mapped arrays need not be aligned. */
#define FIND(name, type)                                                                                    \
    static void name(const char *keys, Py_ssize_t count, const uint64_t *wanted, Py_ssize_t n, int32_t *places) { \
        memset(places, 0, (size_t)n * sizeof *places);                                                        \
        for (Py_ssize_t half; count > 1; count -= half) {                                                     \
            half = count / 2;                                                                                 \
            for (Py_ssize_t k = 0; k < n; k++) {                                                              \
                type key;                                                                                     \
                memcpy(&key, keys + sizeof key * (size_t)(places[k] + half), sizeof key);                     \
                places[k] += (int32_t)half & -(int32_t)(key <= wanted[k]);                                    \
            }                                                                                                 \
        }                                                                                                     \
        for (Py_ssize_t k = 0; k < n; k++) {                                                                  \
            type key;                                                                                         \
            memcpy(&key, keys + sizeof key * (size_t)places[k], sizeof key);                                  \
            places[k] = key == wanted[k] ? places[k] : -1;                                                    \
        }                                                                                                     \
    }
FIND(find_2, uint16_t)
FIND(find_4, uint32_t)
FIND(find_8, uint64_t)

/* Fill the places of tokens' values among the window's keys, -1 where they have no weights; at most BLOCK tokens. */
static void find(const Window *window, Py_ssize_t from, Py_ssize_t n, int32_t *places) {
    uint64_t wanted[BLOCK];
    Py_ssize_t count = window->keys.len / window->keys.itemsize;
    memset(wanted, 0, sizeof wanted);
    for (int part = 0; part < window->parts; part++) {
        const int64_t *values = (const int64_t *)window->values[part].buf + from;
        for (Py_ssize_t k = 0; k < n; k++)
            wanted[k] = values[k] < 0 || wanted[k] == UNKNOWN ? UNKNOWN
                                                              : wanted[k] * (uint64_t)window->sizes[part] + (uint64_t)values[k];
    }
    if (!count)
        memset(places, -1, (size_t)n * sizeof *places);
    else
        (window->keys.itemsize == 2 ? find_2 : window->keys.itemsize == 4 ? find_4 : find_8)(window->keys.buf, count, wanted, n,
                                                                                           places);
}

/* Add an attribute's weights to the scores of a token's tags; false where the arrays do not fit each other. */
static int add(const Weights *all, int32_t low, int32_t high, double *scores) {
    for (Py_ssize_t k = low; k < high; k++) {
        uint16_t label = ((const uint8_t *)all->label.buf)[k * all->label.itemsize];
        if (all->label.itemsize == 2)
            memcpy(&label, (const char *)all->label.buf + 2 * k, 2);
        if (label >= all->labels)
            return 0;
        int64_t tag = ((const int64_t *)all->tag.buf)[label];
        if (tag < 0 || tag >= all->tags)
            return 0;
        if (all->weight.itemsize == 4) {
            float weight;
            memcpy(&weight, (const char *)all->weight.buf + 4 * k, 4);
            scores[tag] += weight;
        } else {
            double weight;
            memcpy(&weight, (const char *)all->weight.buf + 8 * k, 8);
            scores[tag] += weight;
        }
    }
    return 1;
}

/* The weights of attributes that have many, one a tag: adding a row of them is faster than one weight after the other. */
typedef struct {
    int32_t *place; /* of each attribute's row, counted from 1; 0 for none */
    double *rows;
    Py_ssize_t used, room;
} Rows;

/* Return the row of an attribute, NULL where the arrays do not fit each other or there is no memory. */
static const double *row_of(Rows *rows, const Weights *all, Py_ssize_t attribute, int32_t low, int32_t high) {
    if (!rows->place[attribute]) {
        if (rows->used == rows->room) {
            Py_ssize_t room = rows->room ? 2 * rows->room : 256;
            double *more = realloc(rows->rows, (size_t)(room * all->tags) * sizeof(double));
            if (!more)
                return NULL;
            rows->rows = more;
            rows->room = room;
        }
        double *row = rows->rows + rows->used * all->tags;
        memset(row, 0, (size_t)all->tags * sizeof(double));
        if (!add(all, low, high, row))
            return NULL;
        rows->place[attribute] = (int32_t)++rows->used;
    }
    return rows->rows + (rows->place[attribute] - 1) * all->tags;
}

/* Wider instructions where there are any: the bits stay the same. */
CLONES("avx2", "default")
static void add_row(double *RESTRICT scores, const double *RESTRICT row, Py_ssize_t tags) {
    for (Py_ssize_t tag = 0; tag < tags; tag++)
        scores[tag] += row[tag];
}

static int add_window(double *scores, Py_ssize_t from, Py_ssize_t to, const Weights *all, Rows *rows, const Window *window) {
    int32_t places[BLOCK];
    find(window, from, to - from, places);
    for (Py_ssize_t token = from; token < to; token++) {
        Py_ssize_t place = places[token - from];
        if (place < 0)
            continue;
        if (place >= all->attributes - window->first)
            return 0;
        int32_t bounds[2];
        double *own = scores + token * all->tags;
        memcpy(bounds, (const char *)all->begins.buf + 4 * (window->first + place), sizeof bounds);
        if (bounds[0] < 0 || bounds[1] < bounds[0] || bounds[1] > all->weights)
            return 0;
        if (bounds[1] - bounds[0] < MANY) {
            if (!add(all, bounds[0], bounds[1], own))
                return 0;
            continue;
        }
        const double *row = row_of(rows, all, window->first + place, bounds[0], bounds[1]);
        if (!row)
            return 0;
        add_row(own, row, all->tags);
    }
    return 1;
}

static int add_all(double *scores, Py_ssize_t tokens, const Weights *all, const Window *windows, Py_ssize_t count) {
    Rows rows = {calloc((size_t)all->attributes + 1, sizeof(int32_t)), NULL, 0, 0};
    int fits = rows.place != NULL;
    for (Py_ssize_t from = 0; fits && from < tokens; from += BLOCK)
        for (Py_ssize_t k = 0; fits && k < count; k++)
            fits = add_window(scores, from, from + BLOCK < tokens ? from + BLOCK : tokens, all, &rows, &windows[k]);
    free(rows.place);
    free(rows.rows);
    return fits;
}

/* Fill a window from (keys, first, values, sizes); false with an exception set. */
static int read_window(PyObject *given, Py_ssize_t tokens, Window *window) {
    PyObject *values, *sizes;
    long long first;
    if (!PyArg_ParseTuple(given, "y*LO!O!", &window->keys, &first, &PyTuple_Type, &values, &PyTuple_Type, &sizes))
        return 0;
    window->held = 1;
    window->first = first;
    Py_ssize_t parts = PyTuple_Size(values), width = window->keys.itemsize;
    if (parts < 1 || parts > MOST_PARTS || PyTuple_Size(sizes) != parts || first < 0 ||
        (width != 2 && width != 4 && width != 8) || window->keys.len / width > INT32_MAX || window->keys.len % width)
        return PyErr_SetString(PyExc_ValueError, "a window's arrays do not fit"), 0;
    for (Py_ssize_t part = 0; part < parts; part++) {
        window->sizes[part] = PyLong_AsLongLong(PyTuple_GetItem(sizes, part));
        if (PyErr_Occurred())
            return 0;
        if (PyObject_GetBuffer(PyTuple_GetItem(values, part), &window->values[part], PyBUF_SIMPLE))
            return 0;
        window->parts = (int)part + 1;
        if (window->values[part].len != tokens * 8)
            return PyErr_SetString(PyExc_ValueError, "a window has values for other tokens"), 0;
    }
    return 1;
}

PyObject *core_add_windows(PyObject *module, PyObject *args) {
    Py_buffer scores;
    Py_ssize_t tags, count = 0;
    Weights all;
    PyObject *given;
    (void)module;
    if (!PyArg_ParseTuple(args, "w*n(y*y*y*y*)O!", &scores, &tags, &all.begins, &all.label, &all.tag, &all.weight, &PyList_Type, &given))
        return NULL;
    Py_ssize_t wanted = PyList_Size(given);
    Window *windows = calloc((size_t)wanted + 1, sizeof(Window));
    int fits = windows != NULL;
    if (!windows)
        PyErr_NoMemory();
    else if (tags < 1 || tags > 0xFFFF || scores.len % (tags * 8) || all.begins.itemsize != 4 || all.begins.len < 4 || all.tag.itemsize != 8 ||
             (all.label.itemsize != 1 && all.label.itemsize != 2) || (all.weight.itemsize != 4 && all.weight.itemsize != 8) ||
             all.label.len / all.label.itemsize != all.weight.len / all.weight.itemsize) {
        PyErr_SetString(PyExc_ValueError, "the weights' arrays do not fit each other");
        fits = 0;
    }
    Py_ssize_t tokens = fits ? scores.len / (tags * 8) : 0;
    for (; fits && count < wanted; count++)
        fits = read_window(PyList_GetItem(given, count), tokens, &windows[count]);
    if (fits) {
        all.tags = tags;
        all.attributes = all.begins.len / 4 - 1;
        all.labels = all.tag.len / 8;
        all.weights = all.weight.len / all.weight.itemsize;
        Py_BEGIN_ALLOW_THREADS
        fits = add_all(scores.buf, tokens, &all, windows, count);
        Py_END_ALLOW_THREADS
        if (!fits)
            PyErr_SetString(PyExc_ValueError, "the weights' arrays do not fit each other");
    }
    for (Py_ssize_t k = 0; windows && k < wanted; k++) {
        for (int part = 0; part < windows[k].parts; part++)
            PyBuffer_Release(&windows[k].values[part]);
        if (windows[k].held)
            PyBuffer_Release(&windows[k].keys);
    }
    free(windows);
    PyBuffer_Release(&scores);
    PyBuffer_Release(&all.begins);
    PyBuffer_Release(&all.label);
    PyBuffer_Release(&all.tag);
    PyBuffer_Release(&all.weight);
    if (!fits)
        return NULL;
    Py_RETURN_NONE;
}

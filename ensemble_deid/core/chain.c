/* Inference in a chain, as `taggers/chain.py` has it in numpy: the n best taggings bit for bit but for ties, the passes
   forward and backward to the last digits. */

#include "core.h"

EXACT_SUMS

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Wider instructions where there are any, but none that multiplies and adds in one rounding: the bits stay the same. */
#define WIDE CLONES("avx2", "default")

static void release(Py_buffer *views, int count) {
    while (count)
        PyBuffer_Release(&views[--count]);
}

/* Take arrays of types 'd', 'i' and 'q', a capital for one to be written; 0 with an exception set. */
static int take_each(PyObject **arrays, Py_buffer *views, const char *types, int count) {
    for (int k = 0; k < count; k++)
        if (take_flat(arrays[k], &views[k], types[k] | 0x20, -1, !(types[k] & 0x20)) < 0)
            return release(views, k), 0;
    return 1;
}

/* Fill `places` with the places of the n largest of `values`, largest first, equal ones in their order. */
static void largest(const double *values, Py_ssize_t size, Py_ssize_t n, int32_t *places) {
    Py_ssize_t count = 0;
    for (Py_ssize_t k = 0; k < size; k++) {
        Py_ssize_t at = count;
        if (count == n) {
            if (!(values[k] > values[places[n - 1]]))
                continue;
            at = n - 1;
        } else
            count++;
        for (; at > 0 && values[k] > values[places[at - 1]]; at--)
            places[at] = places[at - 1];
        places[at] = (int32_t)k;
    }
}

/* likely_tags(values (rows, tags), found int64 (rows, n), tags, n): the n largest of each row, in ascending order. */
PyObject *core_likely_tags(PyObject *module, PyObject *args) {
    Py_buffer b[2];
    PyObject *arrays[2];
    Py_ssize_t tags, n;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOnn", &arrays[0], &arrays[1], &tags, &n) || !take_each(arrays, b, "dQ", 2))
        return NULL;
    Py_buffer values = b[0], found = b[1];
    int32_t *places = NULL;
    int fits = n > 0 && n <= tags && tags <= 0xFFFF && values.len % (tags * 8) == 0 && found.len == values.len / tags * n;
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "the arrays do not fit each other");
    else if (!(places = malloc((size_t)n * sizeof *places)))
        PyErr_NoMemory();
    if (places) {
        for (Py_ssize_t row = 0; row < values.len / (tags * 8); row++) {
            int64_t *out = (int64_t *)found.buf + row * n;
            largest((const double *)values.buf + row * tags, tags, n, places);
            for (Py_ssize_t k = 0; k < n; k++) {
                Py_ssize_t at = k;
                for (; at > 0 && out[at - 1] > places[k]; at--)
                    out[at] = out[at - 1];
                out[at] = places[k];
            }
        }
    }
    free(places);
    release(b, 2);
    if (!places)
        return NULL;
    Py_RETURN_NONE;
}

typedef struct {
    const double *transitions, *start, *end;
    Py_ssize_t tags, width, n;
    double *score, *next, *in; /* (width, n), and one to choose from */
    int32_t *chosen, *from;    /* (n,), and (time, width, n) */
} Search;

/* Fill the paths (n, time) and the scores (n,) of one sequence with emissions (time, tags) and likely (time, width). */
static void search(const Search *s, const double *emissions, const int64_t *likely, Py_ssize_t length, Py_ssize_t time,
                   int32_t *paths, double *scores) {
    Py_ssize_t width = s->width, n = s->n, states = width * n;
    double *score = s->score, *next = s->next;
    for (Py_ssize_t k = 0; k < states; k++)
        score[k] = -INFINITY;
    for (Py_ssize_t to = 0; to < width; to++)
        score[to * n] = s->start[likely[to]] + emissions[likely[to]];
    for (Py_ssize_t t = 1; t < length; t++) {
        const int64_t *before = likely + (t - 1) * width, *now = likely + t * width;
        for (Py_ssize_t to = 0; to < width; to++) {
            int32_t *chosen = s->from + (t * width + to) * n;
            for (Py_ssize_t from = 0; from < width; from++) {
                double move = s->transitions[before[from] * s->tags + now[to]];
                for (Py_ssize_t rank = 0; rank < n; rank++)
                    s->in[from * n + rank] = score[from * n + rank] + move;
            }
            largest(s->in, states, n, chosen);
            for (Py_ssize_t rank = 0; rank < n; rank++)
                next[to * n + rank] = s->in[chosen[rank]] + emissions[t * s->tags + now[to]];
        }
        double *other = score;
        score = next;
        next = other;
    }
    const int64_t *last = likely + (length - 1) * width;
    for (Py_ssize_t k = 0; k < states; k++)
        s->in[k] = score[k] + s->end[last[k / n]];
    largest(s->in, states, n, s->chosen);
    for (Py_ssize_t rank = 0; rank < n; rank++) {
        int32_t state = s->chosen[rank];
        scores[rank] = s->in[state];
        for (Py_ssize_t t = length - 1; t >= 0; t--) {
            paths[rank * time + t] = (int32_t)likely[t * width + state / n];
            if (t > 0)
                state = s->from[t * states + state];
        }
    }
}

/* n_best((transitions, start, end), (emissions, likely, lengths), (paths, scores), (time, tags, width, n)) */
PyObject *core_n_best(PyObject *module, PyObject *args) {
    enum { TRANSITIONS, START, END, EMISSIONS, LIKELY, LENGTHS, PATHS, SCORES, ALL };
    Py_buffer b[ALL];
    PyObject *a[ALL];
    Py_ssize_t time;
    Search s = {0};
    (void)module;
    if (!PyArg_ParseTuple(args, "(OOO)(OOO)(OO)(nnnn)", &a[TRANSITIONS], &a[START], &a[END], &a[EMISSIONS], &a[LIKELY], &a[LENGTHS],
                          &a[PATHS], &a[SCORES], &time, &s.tags, &s.width, &s.n)
        || !take_each(a, b, "ddddqiID", ALL))
        return NULL;
    Py_ssize_t size = b[LENGTHS].len / 4, most = 1 << 20, states = s.width * s.n;
    int fits = size < most && time > 0 && s.tags > 0 && s.width > 0 && s.n > 0 && time < most && s.tags <= 0xFFFF && s.width <= s.tags &&
               s.n <= 0xFFFF && b[TRANSITIONS].len == s.tags * s.tags * 8 && b[START].len == s.tags * 8 &&
               b[END].len == s.tags * 8 && b[EMISSIONS].len == size * time * s.tags * 8 &&
               b[LIKELY].len == size * time * s.width * 8 && b[PATHS].len == size * s.n * time * 4 &&
               b[SCORES].len == size * s.n * 8;
    const int64_t *likely = b[LIKELY].buf;
    const int32_t *lengths = b[LENGTHS].buf;
    for (Py_ssize_t k = 0; fits && k < size * time * s.width; k++)
        fits = likely[k] >= 0 && likely[k] < s.tags;
    for (Py_ssize_t k = 0; fits && k < size; k++)
        fits = lengths[k] > 0 && lengths[k] <= time;
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "the arrays do not fit each other");
    else {
        s.transitions = b[TRANSITIONS].buf, s.start = b[START].buf, s.end = b[END].buf;
        s.score = malloc((size_t)states * sizeof(double));
        s.next = malloc((size_t)states * sizeof(double));
        s.in = malloc((size_t)states * sizeof(double));
        s.chosen = malloc((size_t)s.n * sizeof(int32_t));
        s.from = malloc((size_t)(time * states) * sizeof(int32_t));
        if (!(fits = s.score && s.next && s.in && s.chosen && s.from))
            PyErr_NoMemory();
    }
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t k = 0; k < size; k++)
            search(&s, (const double *)b[EMISSIONS].buf + k * time * s.tags, likely + k * time * s.width, lengths[k], time,
                   (int32_t *)b[PATHS].buf + k * s.n * time, (double *)b[SCORES].buf + k * s.n);
        Py_END_ALLOW_THREADS
    }
    free(s.score), free(s.next), free(s.in), free(s.chosen), free(s.from);
    release(b, ALL);
    if (!fits)
        return NULL;
    Py_RETURN_NONE;
}

/* out[to] = the sum of row[from] * moves[from, to], in the order of `from`: `row_products` of one row. */
WIDE static void moved(const double *RESTRICT row, const double *RESTRICT moves, Py_ssize_t tags, double *RESTRICT out) {
    Py_ssize_t from = 0;
    memset(out, 0, (size_t)tags * sizeof *out);
    /* Four at a time: the sums are read and written less often. */
    for (; from + 4 <= tags; from += 4, moves += 4 * tags)
        for (Py_ssize_t to = 0; to < tags; to++)
            out[to] = out[to] + row[from] * moves[to] + row[from + 1] * moves[tags + to] +
                      row[from + 2] * moves[2 * tags + to] + row[from + 3] * moves[3 * tags + to];
    for (; from < tags; from++, moves += tags)
        for (Py_ssize_t to = 0; to < tags; to++)
            out[to] += row[from] * moves[to];
}

typedef struct {
    const double *moves, *turned, *start, *end; /* as chances; `turned` are the moves from each tag to the one before */
    Py_ssize_t tags;
} Chances;

/* The scaled passes over one sequence of `length` steps; `local` holds exp(emissions) and is divided by the scales. */
static void passes(const Chances *c, Py_ssize_t length, double *forward, double *backward, double *local, double *row) {
    Py_ssize_t tags = c->tags;
    for (Py_ssize_t t = 0; t < length; t++) {
        double *now = forward + t * tags, *own = local + t * tags, scale = 0;
        if (t)
            moved(now - tags, c->moves, tags, now);
        else
            memcpy(now, c->start, (size_t)tags * sizeof *now);
        for (Py_ssize_t tag = 0; tag < tags; tag++)
            scale += now[tag] *= own[tag];
        for (Py_ssize_t tag = 0; tag < tags; tag++)
            now[tag] /= scale, own[tag] /= scale;
    }
    const double *last = forward + (length - 1) * tags;
    double total = 0;
    for (Py_ssize_t tag = 0; tag < tags; tag++)
        total += last[tag] * c->end[tag];
    for (Py_ssize_t tag = 0; tag < tags; tag++)
        backward[(length - 1) * tags + tag] = c->end[tag] / total;
    for (Py_ssize_t t = length - 2; t >= 0; t--) {
        const double *after = backward + (t + 1) * tags, *own = local + (t + 1) * tags;
        for (Py_ssize_t tag = 0; tag < tags; tag++)
            row[tag] = after[tag] * own[tag];
        moved(row, c->turned, tags, backward + t * tags);
    }
}

/* forward_backward((moves, turned, start, end), lengths, (forward, backward, local), time) */
PyObject *core_forward_backward(PyObject *module, PyObject *args) {
    enum { MOVES, TURNED, START, END, LENGTHS, FORWARD, BACKWARD, LOCAL, ALL };
    Py_buffer b[ALL];
    PyObject *a[ALL];
    Py_ssize_t time;
    (void)module;
    if (!PyArg_ParseTuple(args, "(OOOO)O(OOO)n", &a[MOVES], &a[TURNED], &a[START], &a[END], &a[LENGTHS], &a[FORWARD], &a[BACKWARD],
                          &a[LOCAL], &time)
        || !take_each(a, b, "ddddiDDD", ALL))
        return NULL;
    Chances c = {b[MOVES].buf, b[TURNED].buf, b[START].buf, b[END].buf, b[START].len / 8};
    Py_ssize_t size = b[LENGTHS].len / 4, most = 1 << 20;
    int fits = time > 0 && time < most && size < most && c.tags > 0 && c.tags <= 0xFFFF && b[END].len == c.tags * 8 &&
               b[MOVES].len == c.tags * c.tags * 8 && b[TURNED].len == b[MOVES].len;
    for (int k = FORWARD; fits && k <= LOCAL; k++)
        fits = b[k].len == size * time * c.tags * 8;
    const int32_t *lengths = b[LENGTHS].buf;
    for (Py_ssize_t k = 0; fits && k < size; k++)
        fits = lengths[k] > 0 && lengths[k] <= time;
    double *row = NULL;
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "the arrays do not fit each other");
    else if (!(row = malloc((size_t)c.tags * sizeof *row)))
        PyErr_NoMemory();
    if (row) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t k = 0; k < size; k++) {
            Py_ssize_t at = k * time * c.tags;
            passes(&c, lengths[k], (double *)b[FORWARD].buf + at, (double *)b[BACKWARD].buf + at, (double *)b[LOCAL].buf + at, row);
        }
        Py_END_ALLOW_THREADS
    }
    free(row);
    release(b, ALL);
    if (!row)
        return NULL;
    Py_RETURN_NONE;
}

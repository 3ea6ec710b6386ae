/* Contexts of transformation rules: their keys at places, and the numbers of keys, as `taggers/tbed` has them in numpy. */

#include "core.h"

#define BUCKET 8 /* keys, as in `taggers/tbed/keyindex.py` */

typedef struct {
    const int32_t *cells;
    const int64_t *looks;
    const uint8_t *room;
    const char *fits;
    uint64_t n_cells, n_places, n_fits, n_instances;
    Py_ssize_t width, depth, row; /* cells in a key, pairs of cells that may not be equal, numbers an instance */
} Matrix;

enum { CELLS, ROOM, FITS, LOOKS, MATRIX };

/* Take what `ContextKeys` gives: cells, room, fits, looks and the width; 0 with an exception set. */
static int take_matrix(PyObject *given, Py_buffer *views, int *held, Matrix *m)
{
    static const char types[] = "iB?q";
    PyObject *arrays[MATRIX];
    Py_ssize_t shape[2] = {-1, -1};
    if (!PyArg_ParseTuple(given, "OOOOn", &arrays[CELLS], &arrays[ROOM], &arrays[FITS], &arrays[LOOKS], &m->width)
        || m->width < 0)
        return 0;
    for (int k = 0; k < MATRIX; k++, ++*held)
        if (k == LOOKS ? take_array(arrays[k], &views[k], types[k], 2, shape, 0) : take_flat(arrays[k], &views[k], types[k], -1, 0))
            return 0;
    m->cells = views[CELLS].buf, m->room = views[ROOM].buf, m->fits = views[FITS].buf, m->looks = views[LOOKS].buf;
    m->n_cells = views[CELLS].len / 4, m->n_places = views[ROOM].len, m->n_fits = views[FITS].len;
    m->n_instances = shape[0], m->row = shape[1], m->depth = shape[1] / 2 - m->width;
    if (m->row % 2 && m->depth >= 0)
        return 1;
    PyErr_SetString(PyExc_ValueError, "the arrays do not fit each other");
    return 0;
}

/* Set the key of an instance's context at a place, -1 where it has none; 0 where it lies outside the arrays. */
static inline int key_at(const Matrix *m, uint64_t place, uint64_t instance, int64_t *key)
{
    *key = -1;
    if (place >= m->n_places || instance >= m->n_instances)
        return 0;
    uint64_t fit = m->room[place] * m->n_instances + instance;
    if (fit >= m->n_fits)
        return 0;
    if (!m->fits[fit])
        return 1;
    const int64_t *look = m->looks + instance * m->row, *own = look + m->width, *weight = own + 2 * m->depth;
    /* The numbers that an instance does not use come last and are 0. */
    for (Py_ssize_t c = 0; c < m->depth && own[c]; c++) {
        uint64_t one = place + (uint64_t)own[c], other = place + (uint64_t)own[m->depth + c];
        if (one >= m->n_cells || other >= m->n_cells)
            return 0;
        if (m->cells[one] == m->cells[other])
            return 1;
    }
    uint64_t sum = (uint64_t)weight[m->width];
    for (Py_ssize_t c = 0; c < m->width && look[c]; c++) {
        uint64_t at = place + (uint64_t)look[c];
        if (at >= m->n_cells)
            return 0;
        sum += (uint64_t)m->cells[at] * (uint64_t)weight[c];
    }
    *key = (int64_t)sum;
    return 1;
}

static PyObject *ended(Py_buffer *views, int held, int fits)
{
    while (held)
        PyBuffer_Release(&views[--held]);
    if (fits)
        Py_RETURN_NONE;
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "the arrays do not fit each other");
    return NULL;
}

PyObject *core_context_keys(PyObject *module, PyObject *args)
{
    Py_buffer views[MATRIX + 3];
    PyObject *matrix, *pairs[3];
    Matrix m;
    int held = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOO", &matrix, &pairs[0], &pairs[1], &pairs[2]))
        return NULL;
    int fits = take_matrix(matrix, views, &held, &m);
    for (int k = 0; fits && k < 3; k++, held += fits)
        fits = !take_flat(pairs[k], &views[MATRIX + k], 'q', k ? views[MATRIX].len / 8 : -1, k == 2);
    const Py_buffer *of = views + MATRIX;
    for (Py_ssize_t k = 0; fits && k < of[0].len / 8; k++)
        fits = key_at(&m, ((uint64_t *)of[0].buf)[k], ((uint64_t *)of[1].buf)[k], (int64_t *)of[2].buf + k);
    return ended(views, held, fits);
}

PyObject *core_count_contexts(PyObject *module, PyObject *args)
{
    enum { PLACES = MATRIX, INSTANCES, COUNTS, ALL };
    Py_buffer views[ALL];
    PyObject *matrix, *arrays[ALL];
    Matrix m;
    int held = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOO", &matrix, &arrays[PLACES], &arrays[INSTANCES], &arrays[COUNTS]))
        return NULL;
    int fits = take_matrix(matrix, views, &held, &m);
    for (int k = PLACES; fits && k < ALL; k++, held += fits)
        fits = !take_flat(arrays[k], &views[k], k == COUNTS ? 'i' : 'q', -1, k == COUNTS);
    if (!fits)
        return ended(views, held, 0);
    const uint64_t *places = views[PLACES].buf, *instances = views[INSTANCES].buf;
    uint32_t *counts = views[COUNTS].buf;
    Py_ssize_t n_places = views[PLACES].len / 8, n_instances = views[INSTANCES].len / 8, size = views[COUNTS].len / 4;
    for (Py_ssize_t i = 0; fits && i < n_instances; i++)
        for (Py_ssize_t k = 0; fits && k < n_places; k++) {
            int64_t key;
            fits = key_at(&m, places[k], instances[i], &key) && key < size;
            if (fits && key >= 0)
                counts[key]++;
        }
    return ended(views, held, fits);
}

PyObject *core_count_matches(PyObject *module, PyObject *args)
{
    enum { RIGHT = MATRIX, PLACES, STARTS, LIST, OFFSET, INSTANCE, CONTEXT, KEYS, TAGS, COUNTS, ALL };
    static const char types[] = "?qqqqqqqqi";
    Py_buffer views[ALL];
    PyObject *matrix, *arrays[ALL];
    Matrix m;
    int held = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "O(OOO)(OOOO)(OO)O", &matrix, &arrays[RIGHT], &arrays[PLACES], &arrays[STARTS], &arrays[LIST],
                          &arrays[OFFSET], &arrays[INSTANCE], &arrays[CONTEXT], &arrays[KEYS],
                          &arrays[TAGS], &arrays[COUNTS]))
        return NULL;
    int fits = take_matrix(matrix, views, &held, &m);
    for (int k = RIGHT; fits && k < ALL; k++, held += fits) {
        Py_ssize_t items = k == RIGHT ? (Py_ssize_t)m.n_places : k > LIST && k < KEYS ? views[LIST].len / 8 : -1;
        fits = !take_flat(arrays[k], &views[k], types[k - MATRIX], k > KEYS ? views[KEYS].len / 8 : items, k == COUNTS);
    }
    if (!fits)
        return ended(views, held, 0);
    const uint64_t *listed = views[PLACES].buf, *starts = views[STARTS].buf, *tags = views[TAGS].buf;
    const char *right = views[RIGHT].buf;
    uint64_t n_listed = views[PLACES].len / 8, n_starts = views[STARTS].len / 8, n_contexts = views[KEYS].len / 8;
    for (Py_ssize_t k = 0; fits && k < views[LIST].len / 8; k++) {
        uint64_t list = ((uint64_t *)views[LIST].buf)[k], offset = ((uint64_t *)views[OFFSET].buf)[k];
        uint64_t instance = ((uint64_t *)views[INSTANCE].buf)[k], context = ((uint64_t *)views[CONTEXT].buf)[k];
        fits = list < n_starts && list + 1 < n_starts && instance < m.n_instances && context < n_contexts;
        if (!fits || !(fits = starts[list + 1] <= n_listed))
            break;
        uint64_t after = starts[list + 1], tag = tags[context] + 1, tag_row = (uint64_t)m.looks[instance * m.row];
        for (uint64_t at = starts[list]; fits && at < after; at++) {
            uint64_t place = listed[at] - offset;
            int64_t key;
            fits = place < m.n_places && place + tag_row < m.n_cells;
            /* Most places end here: one jump, for no processor foresees which. */
            if (!fits || !(right[place] & ((uint64_t)m.cells[place + tag_row] == tag)))
                continue;
            fits = key_at(&m, place, instance, &key);
            ((uint32_t *)views[COUNTS].buf)[context] += key == ((int64_t *)views[KEYS].buf)[context];
        }
    }
    return ended(views, held, fits);
}

enum { TABLE, NUMBERS, USED, INDEX };

typedef struct {
    int64_t *table, *used;
    int32_t *numbers;
    unsigned long long spread;
    int shift;
} Index;

/* Take what `KeyIndex` gives: table, numbers, used, spread and shift; 0 with an exception set. */
static int take_index(PyObject *given, Py_buffer *views, int *held, Index *index)
{
    PyObject *arrays[INDEX];
    if (!PyArg_ParseTuple(given, "OOOKi", &arrays[TABLE], &arrays[NUMBERS], &arrays[USED], &index->spread, &index->shift))
        return 0;
    for (int k = 0; k < INDEX; k++, ++*held)
        if (take_flat(arrays[k], &views[k], k == NUMBERS ? 'i' : 'q', k == NUMBERS ? views[TABLE].len / 8 : -1, 1))
            return 0;
    index->table = views[TABLE].buf, index->numbers = views[NUMBERS].buf, index->used = views[USED].buf;
    if (views[TABLE].len == views[USED].len * BUCKET && index->shift > 0 && index->shift < 64
        && (uint64_t)views[USED].len / 8 > UINT64_MAX >> index->shift)
        return 1;
    PyErr_SetString(PyExc_ValueError, "the arrays do not fit each other");
    return 0;
}

PyObject *core_find_keys(PyObject *module, PyObject *args)
{
    Py_buffer views[INDEX + 2];
    PyObject *given, *keys, *found;
    Index index;
    int held = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOO", &given, &keys, &found))
        return NULL;
    int fits = take_index(given, views, &held, &index) && !take_flat(keys, &views[INDEX], 'q', -1, 0) && ++held
               && !take_flat(found, &views[INDEX + 1], 'q', views[INDEX].len / 8, 1) && ++held;
    for (Py_ssize_t k = 0; fits && k < views[INDEX].len / 8; k++) {
        int64_t key = ((int64_t *)views[INDEX].buf)[k], number = -1;
        uint64_t at = ((uint64_t)key * index.spread >> index.shift) * BUCKET;
        for (int slot = 0; slot < BUCKET; slot++)
            if (index.table[at + slot] == key)
                number = index.numbers[at + slot];
        ((int64_t *)views[INDEX + 1].buf)[k] = number;
    }
    return ended(views, held, fits);
}

PyObject *core_place_keys(PyObject *module, PyObject *args)
{
    Py_buffer views[INDEX + 1];
    PyObject *given, *keys;
    Index index;
    int first, held = 0, room = 1;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOi", &given, &keys, &first))
        return NULL;
    int fits = take_index(given, views, &held, &index) && !take_flat(keys, &views[INDEX], 'q', -1, 0) && ++held;
    for (Py_ssize_t k = 0; fits && room && k < views[INDEX].len / 8; k++) {
        int64_t key = ((int64_t *)views[INDEX].buf)[k];
        uint64_t bucket = (uint64_t)key * index.spread >> index.shift, slot = (uint64_t)index.used[bucket];
        if ((room = slot < BUCKET)) {
            index.table[bucket * BUCKET + slot] = key;
            index.numbers[bucket * BUCKET + slot] = (int32_t)((uint32_t)first + (uint32_t)k);
            index.used[bucket]++;
        }
    }
    PyObject *none = ended(views, held, fits);
    Py_XDECREF(none);
    return none ? PyBool_FromLong(room) : NULL;
}

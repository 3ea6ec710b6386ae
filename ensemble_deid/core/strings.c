/* Sorted strings, searched in place: those of `mapped.py`. */
#include "core.h"

#include <string.h>

typedef struct {
    const char *text;
    const uint32_t *ends;
    Py_ssize_t size, count, gap;
} Strings;

/* Return the length of a string of the table, -1 where the table is damaged. */
static Py_ssize_t string_at(const Strings *table, Py_ssize_t place, const char **found)
{
    Py_ssize_t begin = place ? table->ends[place - 1] + table->gap : 0, end = table->ends[place];
    *found = table->text + begin;
    return begin < 0 || begin > end || end > table->size ? -1 : end - begin;
}

/* Compare two strings: less than, equal to or greater than 0. */
static int compare(const char *one, Py_ssize_t size, const char *other, Py_ssize_t length)
{
    int order = memcmp(one, other, size < length ? size : length);
    return order ? order : (size > length) - (size < length);
}

/* Return the place of a string, -1 less the number of smaller ones where it is not there; sets ValueError. */
static int64_t find(const Strings *table, const char *wanted, Py_ssize_t length)
{
    Py_ssize_t low = 0, high = table->count;
    while (low < high) {
        Py_ssize_t middle = low + (high - low) / 2;
        const char *own;
        Py_ssize_t size = string_at(table, middle, &own);
        if (size < 0) {
            PyErr_SetString(PyExc_ValueError, "the strings do not fit the text");
            return 0;
        }
        int order = compare(own, size, wanted, length);
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1 - (int64_t)low;
}

PyObject *core_find_strings(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *text_given, *ends_given, *wanted, *places_given;
    Py_buffer text, ends, places;
    Py_ssize_t gap, size[1] = {-1}, count[1] = {-1};
    if (!PyArg_ParseTuple(arguments, "OOnO!O", &text_given, &ends_given, &gap, &PyList_Type, &wanted, &places_given)
        || take_array(text_given, &text, 'B', 1, size, 0) < 0)
        return NULL;
    if (take_array(ends_given, &ends, 'I', 1, count, 0) < 0) {
        PyBuffer_Release(&text);
        return NULL;
    }
    Py_ssize_t n[1] = {PyList_Size(wanted)};
    if (take_array(places_given, &places, 'q', 1, n, 1) == 0) {
        Strings table = {text.buf, ends.buf, size[0], count[0], gap};
        for (Py_ssize_t k = 0; k < n[0] && !PyErr_Occurred(); k++) {
            char *bytes;
            Py_ssize_t length;
            if (PyBytes_AsStringAndSize(PyList_GetItem(wanted, k), &bytes, &length) == 0)
                ((int64_t *)places.buf)[k] = find(&table, bytes, length);
        }
        PyBuffer_Release(&places);
    }
    PyBuffer_Release(&ends);
    PyBuffer_Release(&text);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

PyObject *core_strings_in_order(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *text_given, *ends_given;
    Py_buffer text, ends;
    Py_ssize_t gap, size[1] = {-1}, count[1] = {-1};
    if (!PyArg_ParseTuple(arguments, "OOn", &text_given, &ends_given, &gap)
        || take_array(text_given, &text, 'B', 1, size, 0) < 0)
        return NULL;
    if (take_array(ends_given, &ends, 'I', 1, count, 0) < 0) {
        PyBuffer_Release(&text);
        return NULL;
    }
    Strings table = {text.buf, ends.buf, size[0], count[0], gap};
    const char *before = NULL;
    int in_order = 1;
    for (Py_ssize_t k = 0, length = 0; k < count[0] && in_order; k++) {
        const char *own;
        Py_ssize_t here = string_at(&table, k, &own);
        in_order = here >= 0 && (k == 0 || compare(before, length, own, here) < 0);
        before = own, length = here;
    }
    PyBuffer_Release(&ends);
    PyBuffer_Release(&text);
    return PyBool_FromLong(in_order);
}

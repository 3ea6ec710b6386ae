/* The module `ensemble_deid._core`: its functions, and how they take arrays. */
#include "core.h"

#include <string.h>

static Py_ssize_t item_size(char type)
{
    switch (type) {
    case 'b': case 'B': case '?': return 1;
    case 'h': case 'H': case 'e': return 2;
    case 'i': case 'I': case 'f': return 4;
    default: return 8;
    }
}

/* numpy writes int64 as 'l' or 'q', depending on the platform. */
static int same_type(const char *format, char wanted)
{
    static const char whole[] = "bhilq", natural[] = "BHILQ";
    if (format == NULL || format[0] == '\0' || format[1] != '\0')
        return 0;
    return format[0] == wanted || (strchr(whole, wanted) && strchr(whole, format[0]))
           || (strchr(natural, wanted) && strchr(natural, format[0]));
}

static int refuse(Py_buffer *view)
{
    PyBuffer_Release(view);
    PyErr_SetString(PyExc_ValueError, "an array has another type or shape than expected");
    return -1;
}

int take_flat(PyObject *object, Py_buffer *view, char type, Py_ssize_t items, int writable)
{
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, view, flags) < 0) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_SetString(PyExc_ValueError, "an array is not contiguous, or not writable");
        return -1;
    }
    int fits = view->itemsize == item_size(type) && same_type(view->format, type);
    return fits && (items < 0 || view->len / view->itemsize == items) ? 0 : refuse(view);
}

int take_array(PyObject *object, Py_buffer *view, char type, int dimensions, Py_ssize_t *shape, int writable)
{
    if (take_flat(object, view, type, -1, writable) < 0)
        return -1;
    int fits = view->ndim == dimensions;
    for (int k = 0; fits && k < dimensions; k++) {
        if (shape[k] < 0)
            shape[k] = view->shape[k];
        fits = shape[k] == view->shape[k];
    }
    return fits ? 0 : refuse(view);
}

static PyMethodDef methods[] = {
    {"add_windows", core_add_windows, METH_VARARGS, NULL},
    {"context_keys", core_context_keys, METH_VARARGS, NULL},
    {"count_contexts", core_count_contexts, METH_VARARGS, NULL},
    {"count_matches", core_count_matches, METH_VARARGS, NULL},
    {"find_keys", core_find_keys, METH_VARARGS, NULL},
    {"place_keys", core_place_keys, METH_VARARGS, NULL},
    {"forward_backward", core_forward_backward, METH_VARARGS, NULL},
    {"likely_tags", core_likely_tags, METH_VARARGS, NULL},
    {"n_best", core_n_best, METH_VARARGS, NULL},
    {"levels", core_levels, METH_NOARGS, NULL},
    {"run_layer", core_run_layer, METH_VARARGS, NULL},
    {"run_lstm", core_run_lstm, METH_VARARGS, NULL},
    {"find_strings", core_find_strings, METH_VARARGS, NULL},
    {"strings_in_order", core_strings_in_order, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "ensemble_deid._core", NULL, 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}

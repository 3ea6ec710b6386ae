#include "core.h"

static PyMethodDef methods[] = {
    {"add_windows", core_add_windows, METH_VARARGS, NULL},
    {"likely_tags", core_likely_tags, METH_VARARGS, NULL},
    {"n_best", core_n_best, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "ensemble_deid._core", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) {
    return PyModuleDef_Init(&definition);
}

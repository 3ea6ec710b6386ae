#ifndef ENSEMBLE_DEID_CORE_H
#define ENSEMBLE_DEID_CORE_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *core_add_windows(PyObject *module, PyObject *args);
PyObject *core_likely_tags(PyObject *module, PyObject *args);
PyObject *core_n_best(PyObject *module, PyObject *args);

#endif

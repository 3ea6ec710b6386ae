/* What the files of the core share: arrays from Python, checked. */
#ifndef ENSEMBLE_DEID_CORE_H
#define ENSEMBLE_DEID_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* Take a C-contiguous array of a struct-module type ('f', 'd', 'b', 'i', 'q' ...) and dimensions; -1 in `shape` takes
   any size and is set to the one found. Returns 0, or -1 with ValueError set; release with PyBuffer_Release. */
int take_array(PyObject *object, Py_buffer *view, char type, int dimensions, Py_ssize_t *shape, int writable);
/* The same for an array of any dimensions with so many items in all, of any number of them for -1. */
int take_flat(PyObject *object, Py_buffer *view, char type, Py_ssize_t items, int writable);

PyObject *core_add_windows(PyObject *module, PyObject *args);
/* contexts.c */
PyObject *core_context_keys(PyObject *module, PyObject *args);
PyObject *core_count_contexts(PyObject *module, PyObject *args);
PyObject *core_count_matches(PyObject *module, PyObject *args);
PyObject *core_find_keys(PyObject *module, PyObject *args);
PyObject *core_place_keys(PyObject *module, PyObject *args);
/* chain.c */
PyObject *core_forward_backward(PyObject *module, PyObject *args);
PyObject *core_likely_tags(PyObject *module, PyObject *args);
PyObject *core_n_best(PyObject *module, PyObject *args);
/* encoder.c */
PyObject *core_levels(PyObject *module, PyObject *unused);
PyObject *core_run_layer(PyObject *module, PyObject *arguments);
/* lstm.c */
PyObject *core_run_lstm(PyObject *module, PyObject *arguments);
/* strings.c */
PyObject *core_find_strings(PyObject *module, PyObject *arguments);
PyObject *core_strings_in_order(PyObject *module, PyObject *arguments);

/* No product is fused with a sum, as processors other than x86-64 would: numpy's bits come from two roundings. */
#if defined(__clang__)
#define EXACT_SUMS _Pragma("STDC FP_CONTRACT OFF")
#elif defined(__GNUC__)
#define EXACT_SUMS _Pragma("GCC optimize(\"fp-contract=off\")")
#else
#define EXACT_SUMS
#endif

/* The compiler makes a version for each of these instructions, and the loader takes the best one that is here. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES(...) __attribute__((target_clones(__VA_ARGS__)))
#else
#define CLONES(...)
#endif

#if defined(_MSC_VER)
#define RESTRICT __restrict
#else
#define RESTRICT restrict
#endif

#endif

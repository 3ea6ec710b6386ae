/* The encoder: which instructions it uses. */
#include "core.h"

PyObject *core_level(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
        && __builtin_cpu_supports("avx512vnni"))
        return PyUnicode_FromString("avx512vnni");
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return PyUnicode_FromString("avx2");
#endif
    return PyUnicode_FromString("plain");
}

"""Training that gives the same model on another machine, as far as possible.

Numerical libraries choose their code by the processor, and sums in another order differ in their last digits; after
some epochs that is another network. `pinned_environment` ties the libraries to AVX2. Its variables count only if set
before the libraries are loaded, so `train --reproducible` starts itself again with them.
"""

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from threadpoolctl import ThreadpoolController, threadpool_info

from ensemble_deid.errors import ConfigError

MARK = "ENSEMBLE_DEID_REPRODUCIBLE"
INSTRUCTION_SET = "AVX2"
_OPENBLAS = "Haswell"
_NUMPY_WITH_LEVELS = (2, 4)


def pinned_environment() -> dict[str, str]:
    """Return the variables that tie the libraries to one instruction set and one thread.

    Raises ConfigError on a processor that is not x86-64.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        raise ConfigError(
            f"--reproducible pins {INSTRUCTION_SET}, which a {platform.machine()} processor does not have"
        )
    levels = tuple(int(part) for part in version("numpy").split(".")[:2]) >= _NUMPY_WITH_LEVELS
    newer = "X86_V4 AVX512_ICL AVX512_SPR" if levels else "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"
    return {
        "ATEN_CPU_CAPABILITY": "avx2",
        # The one branch of MKL that gives the same on Intel and on other processors.
        "MKL_CBWR": "COMPATIBLE",
        "MKL_NUM_THREADS": "1",
        "NPY_DISABLE_CPU_FEATURES": newer,
        "OMP_NUM_THREADS": "1",
        "ONEDNN_MAX_CPU_ISA": INSTRUCTION_SET,
        "OPENBLAS_CORETYPE": _OPENBLAS,
        "OPENBLAS_NUM_THREADS": "1",
        MARK: "1",
    }


def is_pinned() -> bool:
    """True in a process that was started with the pinned variables."""
    return os.environ.get(MARK) == "1"


def check_pinned() -> None:
    """Raise ConfigError where OpenBLAS did not take the instruction set over, as on a processor without it."""
    for library in threadpool_info():
        if library.get("internal_api") == "openblas" and library.get("architecture") != _OPENBLAS:
            raise ConfigError(
                f"--reproducible: OpenBLAS uses {library.get('architecture')}, not {_OPENBLAS}: the processor has no "
                f"{INSTRUCTION_SET}, or the library was built for one processor alone"
            )


def record() -> dict[str, Any]:
    """Return what a model's manifest keeps of how it was trained: what was pinned, and what is left that differs."""
    libc = " ".join(part for part in platform.libc_ver() if part)
    return {
        "instruction_set": INSTRUCTION_SET,
        "environment": {name: value for name, value in sorted(pinned_environment().items()) if name != MARK},
        "deterministic_algorithms": True,
        "python": platform.python_version(),
        "c_library": libc or platform.system(),
    }


@contextmanager
def one_thread() -> Iterator[None]:
    """Let BLAS and OpenMP libraries use one thread within the block, so that results do not depend on the cores.

    Does what `threadpoolctl.threadpool_limits(1)` does, which searches the memory map of the process for libraries at
    every call: for a short note that takes longer than the model.
    """
    # A library is loaded with the module that needs it, so only a module imported since can have brought another one.
    with _libraries(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    return ThreadpoolController()

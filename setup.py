"""The list of packages, which setup.cfg cannot say, and the compiled core.

`rules/` and `data/` stand at the top of the checkout, where people read and edit them; a wheel carries them inside the
package (see `ensemble_deid/resources.py`). All else is in setup.cfg.
"""

import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup

CORE = Path("ensemble_deid/core")
ABI = "0x030B0000"

setup(
    packages=[*find_packages(include=["ensemble_deid*"]), "ensemble_deid._rules", "ensemble_deid._data"],
    ext_modules=[
        Extension(
            "ensemble_deid._core",
            sources=sorted(path.as_posix() for path in CORE.glob("*.c")),
            depends=sorted(path.as_posix() for path in CORE.glob("*.h")),
            define_macros=[("Py_LIMITED_API", ABI)],
            extra_compile_args=["/O2"] if sys.platform == "win32" else ["-O3", "-std=gnu11", "-Wall", "-Wno-psabi"],
            py_limited_api=True,
            # Without a compiler numpy computes the same (see `ensemble_deid/compiled.py`).
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)

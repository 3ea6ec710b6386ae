"""The list of packages and the compiled core, which setup.cfg cannot say. All else is in setup.cfg.

`rules/` and `data/` stand at the top of the checkout, where people read and edit them; a wheel carries them inside the
package (see `ensemble_deid/resources.py`). Where no compiler is at hand, the core is left out and numpy does its work.
"""

from setuptools import Extension, find_packages, setup

CORE = Extension(
    "ensemble_deid._core",
    [f"ensemble_deid/core/{name}.c" for name in ("module", "chain", "windows")],
    depends=["ensemble_deid/core/core.h"],
    py_limited_api=True,
    optional=True,
)

setup(
    packages=[*find_packages(include=["ensemble_deid*"]), "ensemble_deid._rules", "ensemble_deid._data"],
    ext_modules=[CORE],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)

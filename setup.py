"""The list of packages, which setup.cfg cannot say: those that are found, and two folders from beside the package.

`rules/` and `data/` stand at the top of the checkout, where people read and edit them; a wheel carries them inside the
package (see `ensemble_deid/resources.py`). All else is in setup.cfg.
"""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["ensemble_deid*"]), "ensemble_deid._rules", "ensemble_deid._data"])

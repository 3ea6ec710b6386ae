"""Whether the compiled core is used: where it is missing or turned off, numpy computes the same."""

import os

SWITCH = "ENSEMBLE_DEID_CORE"
"""The environment variable that turns the core off with the value `none`."""

try:
    import ensemble_deid._core  # noqa: F401

    _FOUND = True
except ImportError:
    _FOUND = False


def has_core() -> bool:
    """Return whether `ensemble_deid._core` can be imported and is wanted."""
    return _FOUND and os.environ.get(SWITCH) != "none"

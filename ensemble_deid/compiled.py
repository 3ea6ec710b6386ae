"""The compiled core, where the installation has it; `core` is None otherwise."""

from types import ModuleType

core: ModuleType | None
try:
    from ensemble_deid import _core as core
except ImportError:
    core = None

"""From a submodel's name to its class, imported on demand: a submodel that is not used costs nothing."""

from collections.abc import Iterable
from importlib import import_module

from ensemble_deid.errors import ConfigError
from ensemble_deid.submodels import BY_NAME
from ensemble_deid.taggers.base import TrainableTagger


def submodel_class(name: str) -> type[TrainableTagger]:
    """Return the class of a submodel. Raises KeyError for an unknown name (configurations are checked earlier).

    Raises ConfigError when the submodel needs an extra that is not installed.
    """
    row = BY_NAME[name]
    module, _, attribute = row.class_path.partition(":")
    try:
        found: type[TrainableTagger] = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if not row.extra:
            raise
        raise ConfigError(
            f"the submodel {name} needs {error.name}, which is not installed: pip install 'ensemble_deid[{row.extra}]'"
        ) from None
    return found


def refuse_unknown(name: str | None, known: Iterable[str]) -> None:
    """Raise ConfigError if a submodel is requested (not None) that the model does not have."""
    if name is not None and name not in known:
        raise ConfigError(f"this model has no submodel {name!r}; it has: {', '.join(known)}")

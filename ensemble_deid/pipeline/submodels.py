"""The closed set of submodels: name -> where its class is. Imported on demand: what is not asked for costs nothing."""

from collections.abc import Iterable
from importlib import import_module

from ensemble_deid.config import SUBMODELS
from ensemble_deid.errors import ConfigError
from ensemble_deid.taggers.base import TrainableTagger

CLASSES = {
    "regex": "ensemble_deid.taggers.regex.tagger:RegexTagger",
    "tbed": "ensemble_deid.taggers.tbed.tagger:TbedTagger",
    "crf": "ensemble_deid.taggers.crf.tagger:CrfTagger",
    "neural": "ensemble_deid.taggers.neural.tagger:NeuralTagger",
}


def submodel_class(name: str) -> type[TrainableTagger]:
    """Return the class of a submodel. Raises KeyError for a name that is none (configurations are checked before)."""
    if name not in CLASSES:
        raise KeyError(f"no submodel {name!r}; there are: {', '.join(SUBMODELS)}")
    module, _, attribute = CLASSES[name].partition(":")
    found: type[TrainableTagger] = getattr(import_module(module), attribute)
    return found


def refuse_unknown(name: str | None, known: Iterable[str]) -> None:
    """Raise ConfigError where a submodel is asked for (not None) that a model does not have."""
    if name is not None and name not in known:
        raise ConfigError(f"this model has no submodel {name!r}; it has: {', '.join(known)}")

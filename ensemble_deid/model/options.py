"""How a model is run over notes, as one object that is handed on unchanged from the caller to the ensemble."""

from dataclasses import dataclass
from typing import TypedDict

from ensemble_deid.errors import ConfigError
from ensemble_deid.model.combiners import SVM

BATCH_SIZE = 8
"""The same notes go through the model together whatever the number of processes: results do not depend on it."""


class PredictionChoices(TypedDict, total=False):
    """The fields of `PredictionOptions`, as keyword arguments."""

    submodel: str | None
    threshold: float | None
    combiner: str
    batch_size: int
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionOptions:
    """How notes are predicted.

    `submodel` asks for that submodel's own predictions instead of the ensemble's. `threshold` overrides the model's: 0
    returns every candidate that does not overlap a higher-scoring one. Below 0.05 single words that no candidate covers
    are returned, too, at 0 a quarter of a note's or 12 (only for models with `stack.tokens`). `combiner` is `svm`,
    `union`, `majority` or `per-type`. `batch_size` notes go through the model together, in each of `jobs` processes;
    results do not depend on `jobs`. Raises ConfigError for a number of notes or processes below 1; what a model cannot
    serve is refused by `ModelDescription.check_options`.
    """

    submodel: str | None = None
    threshold: float | None = None
    combiner: str = SVM
    batch_size: int = BATCH_SIZE
    jobs: int = 1

    def __post_init__(self) -> None:
        check_number("batch_size", self.batch_size)
        check_number("jobs", self.jobs)


def check_number(name: str, value: int) -> None:
    """Raise ConfigError unless the value is a whole number of at least 1."""
    if not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} must be a whole number of at least 1, not {value!r}")


AS_TRAINED = PredictionOptions()

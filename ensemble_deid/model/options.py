"""How a model is run over notes: its combiners by name, and the options handed unchanged from caller to ensemble."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.note.document import Document
from ensemble_deid.note.reading import Reading, read
from ensemble_deid.note.span import Span
from ensemble_deid.stacking.voting import BestMembers, claims_of_best_members, combine
from ensemble_deid.taggers.base import Proposals

SVM = "svm"
COMBINERS = (SVM, "union", "majority", "per-type")
"""The final estimator; what any submodel predicts; what more than half predict; for each label, what any of the
submodels predicts that are best at it.
"""
CHOICE = "best_members"
OUT_OF_FOLD, DEV = "the training notes, out of fold", "dev notes"
"""What the best submodels of a model were chosen on."""


def combine_named(
    combiner: str, proposals: Mapping[str, Proposals], *, labels: tuple[str, ...], members: BestMembers
) -> list[tuple[Span, ...]]:
    """Return the spans of each document by a combiner other than the final estimator, which was checked before."""
    if combiner == "per-type":
        return claims_of_best_members(proposals, labels=labels, members=members)
    return combine(proposals, labels=labels, method=combiner)


def members_record(members: BestMembers, *, chosen_on: str, notes: int) -> dict[str, Any]:
    """Return the entry of a manifest's `choices`: the submodels of each label, and what they were chosen on."""
    return {
        CHOICE: {
            "chosen_on": chosen_on,
            "notes": notes,
            "members": {label: list(names) for label, names in members.items()},
        }
    }


def best_members_of(manifest: Manifest, directory: Path) -> dict[str, tuple[str, ...]]:
    """Return the best submodels of each label, empty for a model that does not say. Raises ModelError if damaged."""
    record = manifest.choices.get(CHOICE)
    if record is None:
        return {}
    try:
        members = {str(label): tuple(names) for label, names in record["members"].items()}
    except (TypeError, KeyError, AttributeError):
        members = {}
    known = manifest.config["submodels"]
    if set(members) != set(manifest.labels) or not all(set(names) <= set(known) for names in members.values()):
        raise ModelError(f"{directory}: damaged: its best submodels are not those of its labels")
    return members


BATCH_SIZE = 32
BATCH_CHARACTERS = 16_000
"""At most so many notes, and none after the one that brings them to so many characters, go through the model together.

A batch costs some 30 ms beside its tokens: notes of 25 tokens take a third less time than by eight without an encoder,
and an eighth less with one. Results do not depend on it.
"""


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
    returns every candidate that does not overlap a higher-scoring one. In a note in a hard form any threshold is
    lowered (`LOWERED`). Below 0.05 single words that no candidate covers are returned, too, at 0 a quarter of a note's
    or 12 (only for models with `stack.tokens`). `combiner` is `svm`, `union`, `majority` or `per-type`. At most
    `batch_size` notes, and no more once they have 16,000 characters, go through the model together, in each of `jobs`
    processes; results depend on neither. Raises
    ConfigError for a number of notes or processes below 1; what a model cannot serve is refused by
    `ModelDescription.check_options`.
    """

    submodel: str | None = None
    threshold: float | None = None
    combiner: str = SVM
    batch_size: int = BATCH_SIZE
    jobs: int = 1

    def __post_init__(self) -> None:
        check_number("batch_size", self.batch_size)
        check_number("jobs", self.jobs)


LOWERED: Mapping[str, float] = {
    "letters apart": 0.15,
    "blanks in numbers": 0.33,
    "misread characters": 0.5,
    "one word a line": 0.6,
    "two columns": 0.3,
    "lower case": 0.2,
    "capitals": 0.2,
}
"""Hard form -> the factor for a note's threshold, because submodels find less in such notes.

Chosen with `en` 2.3.0 on 60 notes of demo dev, none of them in `benchmarks/forms.py --seed 0`, so that recall is at
most one point under that of plain notes, 96.5. Blanks in numbers were not measured there: their factor is older.
"""
_LEAST_SHARE = {"letters apart": 0.004}
"""Share of a note's characters; ordinary notes of demo dev have at most 0.003 (`T u e`)."""


def threshold_factor(reading: Reading) -> float:
    """Return the factor for a note's threshold, 1 for an ordinary note."""
    shown = (LOWERED.get(form, 1.0) for form, share in reading.forms.items() if share >= _LEAST_SHARE.get(form, 0.0))
    return min(shown, default=1.0)


def as_compared(note: Document) -> Document:
    """Return a prediction with its scores over the factor of the note's threshold, so that one threshold is for all."""
    factor = threshold_factor(read(note.text))
    return note if factor == 1 else note.with_spans(replace(s, score=min(1.0, s.score / factor)) for s in note.spans)


def check_number(name: str, value: int) -> None:
    if not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} must be a whole number of at least 1, not {value!r}")


AS_TRAINED = PredictionOptions()

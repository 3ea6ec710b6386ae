"""A submodel that reads every word in lower case."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ensemble_deid.features.batch import Batch
from ensemble_deid.features.knowledge import PLACES
from ensemble_deid.features.knowledge import PREFIX as KNOWLEDGE
from ensemble_deid.taggers.base import Proposals, Tagger

_CAPITAL, _LOWER = PLACES[1:3], PLACES[3:]


def uncased(batch: Batch) -> Batch:
    """Return the batch with words and their shapes in lower case, and nothing that depends on capitals."""
    table = batch.table
    columns = {name: table[name].map_values(str.lower) for name in ("word", "shape")}
    columns["short_shape"] = columns["shape"].map_values(_without_runs)
    columns["case"] = table["case"].map_values(lambda case: "none" if case == "none" else "lower")
    # It is filled for capitalised words only.
    columns["in_note"] = table["in_note"].map_values(lambda label: "-")
    places = (name for name in table.names if name.startswith(KNOWLEDGE) and set(table[name].values) <= set(PLACES))
    columns |= {name: table[name].map_values(_place_in_any_case) for name in places}
    return replace(batch, table=table.with_columns(columns))


def _without_runs(shape: str) -> str:
    return re.sub(r"(.)\1+", r"\1", shape, flags=re.S)


def _place_in_any_case(place: str) -> str:
    return _CAPITAL[_LOWER.index(place)] if place in _LOWER else place


@dataclass(frozen=True, slots=True, eq=False)
class UncasedTagger:
    """A trained submodel behind `uncased`."""

    tagger: Tagger = field(repr=False)

    @classmethod
    def fit(cls, fit_one: Callable[[Batch, Batch | None], Tagger], train: Batch, dev: Batch | None) -> "UncasedTagger":
        """Let `fit_one` train on the notes in lower case."""
        return cls(fit_one(uncased(train), None if dev is None else uncased(dev)))

    def propose(self, batch: Batch, *, n_best: int) -> Proposals:
        """Return what the submodel proposes for the notes in lower case; lower case moves no offsets."""
        return self.tagger.propose(uncased(batch), n_best=n_best)

    def save(self, directory: Path) -> None:
        """Write the submodel's own files."""
        self.tagger.save(directory)

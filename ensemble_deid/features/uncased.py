"""A batch as an uncased submodel reads it: no column tells how words are capitalised.

Murugadoss et al. 2021 keep a model for the notes as they are written and one for them in lower case. What the patterns
and stanza find stays as it is: they read the notes' text, which only the columns of the table stand for here.
"""

import re
from dataclasses import replace

from ensemble_deid.features.batch import Batch
from ensemble_deid.features.knowledge import PLACES
from ensemble_deid.features.knowledge import PREFIX as KNOWLEDGE

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

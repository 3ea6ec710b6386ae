"""A scalar function for DuckDB: `deidentify(text, patient)`, for tables on one machine."""

from collections import Counter
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from ensemble_deid.corpora.tables.arrow import pyarrow
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.known.site_lists import LEFT, SiteLists
from ensemble_deid.deidentify.replaced import remark_on
from ensemble_deid.deidentify.replacement import Key, Replacer
from ensemble_deid.deidentify.together import replaced_together
from ensemble_deid.errors import DeidError
from ensemble_deid.note.document import Document

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def register(
    connection: "DuckDBPyConnection",
    model: Deidentifier | str | Path,
    *,
    name: str = "deidentify",
    style: str | None = None,
    key: Key | str | Path | None = None,
    project: str = "",
    threshold: float | None = None,
    lists: SiteLists | None = None,
    counts: Counter[str] | None = None,
) -> None:
    """Register `name(text, patient)`, which returns a STRUCT of `text` and `problem`.

    Where a note cannot be processed whole, its `text` is NULL and `problem` says why; beside a text it says how many
    known identifiers are left in it. Each note is processed alone:
    what is found in one note of a patient is not searched in the others, as the command line does. Dates of a patient
    are shifted alike, and the same name, number or place mostly has the same surrogate in all of the patient's notes;
    but a part of a name, initials, and ambiguous dates (3/4/2014) are read by what their own note says. A note whose
    patient is NULL is a patient of its own. `style`, `key` and `project` are as in `Deidentifier.deidentify`; `lists`
    are what the site knows besides the model, and what they do is added to `counts` whenever the function is called,
    by the names in docs/known.md. `threshold` overrides the model's: below 0.05 single words are removed, too, at 0 a
    quarter of a note's or 12 (only for models with `stack.tokens`). Raises ConfigError, ModelError.
    """
    loaded = model if isinstance(model, Deidentifier) else Deidentifier.load(model)
    found = key if isinstance(key, Key) else Key.find(key)
    replacer = Replacer.from_options(style, key=found, project=project, labels=loaded.labels)
    pa, lock, known = pyarrow(), Lock(), lists or SiteLists()
    count: Counter[str] = Counter() if counts is None else counts
    kind = pa.struct([("text", pa.string()), ("problem", pa.string())])

    def run(texts: Any, patients: Any) -> Any:
        # DuckDB calls from several threads, and the numerical libraries' thread limits are one for the process.
        with lock:
            rows = list(_rows(texts.to_pylist(), patients.to_pylist(), loaded, replacer, threshold, known, count))
        return pa.array(rows, type=kind)

    # DuckDB's type hints know no kind of a function but by its enumeration, which the documented name stands for.
    untyped: Any = connection
    untyped.create_function(
        name,
        run,
        ["VARCHAR", "VARCHAR"],
        "STRUCT(text VARCHAR, problem VARCHAR)",
        type="arrow",
        null_handling="special",
    )


def _rows(
    texts: list[str | None],
    patients: list[str | None],
    model: Deidentifier,
    replacer: Replacer,
    threshold: float | None,
    lists: SiteLists,
    counts: Counter[str],
) -> Any:
    documents = (
        Document("the note", text or "", patient_id=patient) for text, patient in zip(texts, patients, strict=True)
    )
    notes = model.predict_each(documents, must_stay=lists.places, threshold=threshold)
    for text, note in zip(texts, notes, strict=True):
        before = counts[LEFT]
        (outcome,) = replaced_together([note], replacer, lists, counts=counts)
        if isinstance(outcome, DeidError):
            yield {"text": None, "problem": str(outcome).removeprefix("the note: ")}
        else:
            yield {"text": None if text is None else outcome.text, "problem": remark_on(counts[LEFT] - before)}

"""A scalar function for DuckDB: `deidentify(text, patient)`, for tables on one machine."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Unpack

from ensemble_deid.corpora.tables.arrow import pyarrow
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.options import RunChoices, RunOptions
from ensemble_deid.note.document import Document

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def register(
    connection: "DuckDBPyConnection",
    model: Deidentifier | str | Path,
    *,
    name: str = "deidentify",
    counts: Counter[str] | None = None,
    options: RunOptions | None = None,
    **choices: Unpack[RunChoices],
) -> None:
    """Register `name(text, patient)`, which returns a STRUCT of `text` and `problem`.

    Where a note cannot be processed whole, its `text` is NULL and `problem` says why; beside a text it says how many
    known identifiers are left in it. DuckDB hands over rows in no certain order, so each note is processed alone: what
    is found in one note of a patient is searched in all of it, and not in the others. Dates of a patient
    are shifted alike, and the same name, number or place mostly has the same surrogate in all of the patient's notes;
    but a part of a name, initials, and ambiguous dates (3/4/2014) are read by what their own note says. A note whose
    patient is NULL is a patient of its own. `options` and `choices` as in `Deidentifier.deidentify`. What was done is
    added to `counts` whenever the function is called, by the names in docs/known.md. Raises ConfigError, ModelError.
    """
    loaded = model if isinstance(model, Deidentifier) else Deidentifier.load(model)
    chosen = RunOptions.given(options, choices, loaded.labels)
    pa, lock = pyarrow(), Lock()
    count: Counter[str] = Counter() if counts is None else counts
    kind = pa.struct([("text", pa.string()), ("problem", pa.string())])

    def run(texts: Any, patients: Any) -> Any:
        # DuckDB calls from several threads, and the numerical libraries' thread limits are one for the process.
        with lock:
            rows = list(_rows(texts.to_pylist(), patients.to_pylist(), loaded, chosen, count))
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
    options: RunOptions,
    counts: Counter[str],
) -> Iterator[dict[str, str | None]]:
    documents = (
        Document("the note", text or "", patient_id=patient) for text, patient in zip(texts, patients, strict=True)
    )
    for text, result in zip(texts, model.process(documents, options), strict=True):
        counts.update(result.counts)
        problem = result.remark if result.error is None else result.error.removeprefix("the note: ")
        yield {"text": None if text is None else result.text, "problem": problem}

"""Columns of pandas and polars: a series of notes in, a series of the same type without PHI out."""

import logging
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, Unpack

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.gate import ACCEPTED, CHANGED
from ensemble_deid.deidentify.known.site_lists import LEFT
from ensemble_deid.deidentify.options import RunChoices, RunOptions
from ensemble_deid.deidentify.prediction import Report
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document, is_missing, patient_text

_LOG = logging.getLogger("ensemble_deid")
SeriesT = TypeVar("SeriesT")
"""A series of pandas or polars."""


@dataclass(frozen=True, slots=True)
class WithheldNote:
    """A note that could not be processed whole: its position in the series, from 0, and the reason.

    >>> from ensemble_deid import WithheldNote
    >>> WithheldNote(3, "processing failed (MemoryError)").position
    3
    """

    position: int
    reason: str


def deidentify_series(
    series: SeriesT,
    model: Deidentifier | str | Path,
    *,
    patients: Iterable[Hashable] | None = None,
    report: Report = lambda progress: None,
    withheld: list[WithheldNote] | None = None,
    counts: Counter[str] | None = None,
    options: RunOptions | None = None,
    **choices: Unpack[RunChoices],
) -> SeriesT:
    """Return a pandas or polars series with the notes' PHI replaced; name, index and missing values stay.

    `patients` is a series of the same length with the patient of each note, None or NaN for nobody: all notes of a
    patient are processed together, so a string believed to be PHI in one is searched in the others. `report` is told
    how many notes the model has read. `options` and `choices` as in `Deidentifier.deidentify`. What was done is added
    to `counts`, by the names in docs/known.md; without such a counter, the logger `ensemble_deid` is warned of known
    identifiers that are left, and of what the gate remarks. A note that cannot be processed whole is missing in the
    result. It is added to `withheld`; without such a list, a warning that names its position goes to the logger
    `ensemble_deid`. Raises ConfigError for what is no series, and CorpusError where lengths differ.

    >>> import pandas
    >>> from ensemble_deid import deidentify_series
    >>> notes = pandas.Series(["Date: 03/04/2019", None], index=["a", "b"])
    >>> deidentify_series(notes, "model").to_dict()
    {'a': 'Date: [DATE]', 'b': nan}
    """
    module = type(series).__module__.partition(".")[0]
    if module not in ("pandas", "polars") or type(series).__name__ != "Series":
        raise ConfigError(f"deidentify_series takes a series of pandas or polars, not {type(series).__name__}")
    rows: Any = series
    owners = None if patients is None else list(patients)
    if owners is not None and len(owners) != len(rows):
        raise CorpusError(f"there are {len(owners)} patients for {len(rows)} notes")
    jobs = choices.get("jobs", 1) if options is None else options.prediction.jobs
    loaded = model if isinstance(model, Deidentifier) else Deidentifier.load(model, jobs=jobs)
    chosen = RunOptions.given(options, choices, loaded.labels)
    documents: list[Document] = []
    for position, text in enumerate(rows):
        if not is_missing(text):
            owner = None if owners is None or is_missing(owners[position]) else patient_text(owners[position])
            documents.append(Document(str(position), text, patient_id=owner))
    acted: Counter[str] = Counter()
    new: list[str | None] = [None] * len(rows)
    problems: list[WithheldNote] = []
    results = loaded.process(documents, chosen, together=True, report=report)
    for document, result in zip(documents, results, strict=True):
        position = int(document.id)
        new[position] = result.text
        acted.update(result.counts)
        if result.error is not None:
            problems.append(WithheldNote(position, result.error.removeprefix(f"{position}: ")))
    _tell(problems, acted, withheld, counts)
    dtype = _text_type(rows, module)
    made: SeriesT
    if module == "polars":
        made = type(rows)(rows.name, new, dtype=dtype)
    else:
        made = type(rows)(new, index=rows.index, name=rows.name, dtype=dtype)
    return made


def _tell(
    problems: list[WithheldNote], acted: Counter[str], withheld: list[WithheldNote] | None, counts: Counter[str] | None
) -> None:
    """Hand over what was withheld and counted, or log it where nobody takes it."""
    if withheld is not None:
        withheld.extend(problems)
    else:
        for problem in problems:
            _LOG.warning("note at position %d is withheld: %s", problem.position, problem.reason)
    if counts is not None:
        counts.update(acted)
        return
    for name in acted:
        if name in (LEFT, CHANGED) or name.startswith(ACCEPTED):
            _LOG.warning("%d %s", acted[name], name)


def _text_type(series: Any, module: str) -> Any:
    """Return the type of the series; of one with fixed categories, which are texts as they were, that of its texts."""
    if module == "polars":
        import polars

        return polars.String if series.dtype in (polars.Categorical, polars.Enum) else series.dtype
    own = series.cat.categories.dtype if series.dtype.name == "category" else series.dtype
    # Numbers, of which every "note" is withheld: their type may have no missing value.
    return own if own.kind == "O" else object


class SeriesAccessor:
    """The accessor `series.deid`, once `ensemble_deid.integrations.pandas` (or `.polars`) is imported.

    >>> import pandas
    >>> import ensemble_deid.integrations.pandas
    >>> pandas.Series(["Date: 03/04/2019"]).deid.deidentify("model").to_list()
    ['Date: [DATE]']
    """

    def __init__(self, series: Any) -> None:
        self._series = series

    def deidentify(self, model: Deidentifier | str | Path, **options: Any) -> Any:
        """Return `deidentify_series` of this series; the options are the same."""
        return deidentify_series(self._series, model, **options)


class ExpressionAccessor:
    """The accessor `polars.col("text").deid`, once `ensemble_deid.integrations.polars` is imported."""

    def __init__(self, expression: Any) -> None:
        self._expression = expression

    def deidentify(self, model: Deidentifier | str | Path, *, patients: Any = None, **options: Any) -> Any:
        """Return an expression for `deidentify_series` of whole columns; `patients` is an expression, too."""
        import polars

        def run(columns: Any) -> Any:
            owners = columns[1] if patients is not None else None
            return deidentify_series(columns[0], model, patients=owners, **options)

        inputs = [self._expression] if patients is None else [self._expression, patients]
        return polars.map_batches(inputs, run, return_dtype=polars.String)

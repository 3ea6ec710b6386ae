"""Columns of pandas and polars: a series of notes in, a series of the same type without PHI out."""

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.gate import ACCEPTED, CHANGED
from ensemble_deid.deidentify.known.site_lists import LEFT
from ensemble_deid.deidentify.options import RunChoices, RunOptions
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document

_log = logging.getLogger("ensemble_deid")


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
    series: Any,
    model: Deidentifier | str | Path,
    *,
    patients: Any = None,
    withheld: list[WithheldNote] | None = None,
    counts: Counter[str] | None = None,
    options: RunOptions | None = None,
    **choices: Unpack[RunChoices],
) -> Any:
    """Return a pandas or polars series with the notes' PHI replaced; name, index and missing values stay.

    `patients` is a series of the same length with the patient of each note: all notes of a patient are processed
    together, so a string believed to be PHI in one is searched in the others. `options` and `choices` as in
    `Deidentifier.deidentify`. What was done is added to `counts`, by the names in docs/known.md; without such a
    counter, the logger `ensemble_deid` is warned of known identifiers that are left, and of what the gate remarks.
    A note that cannot be processed whole is missing in the result. It is added to `withheld`; without such a list,
    a warning that names its position goes to the logger `ensemble_deid`. Raises ConfigError for what is no series,
    and CorpusError where lengths differ.

    >>> import pandas
    >>> from ensemble_deid import deidentify_series
    >>> notes = pandas.Series(["Date: 03/04/2019", None], index=["a", "b"])
    >>> deidentify_series(notes, "model").to_dict()
    {'a': 'Date: [DATE]', 'b': nan}
    """
    module = type(series).__module__.partition(".")[0]
    if module not in ("pandas", "polars") or type(series).__name__ != "Series":
        raise ConfigError(f"deidentify_series takes a series of pandas or polars, not {type(series).__name__}")
    owners = None if patients is None else list(patients)
    if owners is not None and len(owners) != len(series):
        raise CorpusError(f"there are {len(owners)} patients for {len(series)} notes")
    jobs = choices.get("jobs", 1) if options is None else options.prediction.jobs
    loaded = model if isinstance(model, Deidentifier) else Deidentifier.load(model, jobs=jobs)
    chosen = RunOptions.given(options, choices, loaded.labels)
    texts = [None if _is_missing(text) else text for text in series]
    acted: Counter[str] = Counter()
    new: list[str | None] = [None] * len(texts)
    problems: list[WithheldNote] = []
    positions = (position for position, text in enumerate(texts) if text is not None)
    results = loaded.process(_documents(texts, owners), chosen, together=True)
    for position, result in zip(positions, results, strict=True):
        new[position] = result.text
        acted.update(result.counts)
        if result.error is not None:
            problems.append(WithheldNote(position, result.error.removeprefix(f"{position}: ")))
    _tell(problems, acted, withheld, counts)
    dtype = _text_type(series, module)
    if module == "polars":
        return type(series)(series.name, new, dtype=dtype)
    return type(series)(new, index=series.index, name=series.name, dtype=dtype)


def _tell(
    problems: list[WithheldNote], acted: Counter[str], withheld: list[WithheldNote] | None, counts: Counter[str] | None
) -> None:
    """Hand over what was withheld and counted, or log it where nobody takes it."""
    if withheld is not None:
        withheld.extend(problems)
    else:
        for problem in problems:
            _log.warning("note at position %d is withheld: %s", problem.position, problem.reason)
    if counts is not None:
        counts.update(acted)
        return
    for name in acted:
        if name in (LEFT, CHANGED) or name.startswith(ACCEPTED):
            _log.warning("%d %s", acted[name], name)


def _text_type(series: Any, module: str) -> Any:
    """Return the type of the series; of one with fixed categories, which are texts as they were, that of its texts."""
    if module == "polars":
        import polars

        return polars.String if series.dtype in (polars.Categorical, polars.Enum) else series.dtype
    return series.cat.categories.dtype if series.dtype.name == "category" else series.dtype


class SeriesAccessor:
    """What stands behind `series.deid`, once `ensemble_deid.integrations.pandas` (or `.polars`) is imported.

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


def _documents(texts: list[Any], owners: list[Any] | None) -> Iterator[Document]:
    for position, text in enumerate(texts):
        if text is not None:
            yield Document(str(position), text, patient_id=None if owners is None else _owner(owners[position]))


def _owner(value: Any) -> str | None:
    if _is_missing(value):
        return None
    # A column of integers with gaps is one of floats in pandas.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_missing(value: Any) -> bool:
    """Whether a cell is empty: None, NaN or NA."""
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")

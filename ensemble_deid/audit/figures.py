"""The figures of an audit: leak rates with bounds, by identifier and subgroup, what leaked, and what all missed.

How much all readers missed is told by capture and recapture of annotations by two people, and by the model as a third.
Two sources: Chapman 1951 (Univ Calif Publ Stat 1:131), unbiased where the sources are independent. Three: log-linear
models of the seven cells that are seen, with dependence of any pairs of sources (Fienberg 1972, Biometrika 59:591;
Bishop, Fienberg and Holland 1975, chapter 6), chosen by AIC.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, groupby

import numpy as np

from ensemble_deid.arrays import Floats
from ensemble_deid.audit.bounds import Units, betting_upper, notes_to_read, sequential_bounds, upper_bound
from ensemble_deid.audit.readings import AuditedNote, Readings, require_read
from ensemble_deid.deidentify.replacement.styles import COARSE, Styles
from ensemble_deid.deidentify.replacement.values import Values
from ensemble_deid.evaluation.leaks import cover, leaking_places
from ensemble_deid.model.additions import listed
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import DIRECT, QUASI, UNKNOWN, identifier_of, is_direct
from ensemble_deid.note.span import Span, SpanKey
from ensemble_deid.surrogates.patient import PatientSurrogates

Cell = tuple[bool, bool, bool]
"""Whether the first reader, the second and the model had marked an annotation."""
ASSUMPTIONS = (
    "Annotations are alike in how easily they are found; hard ones that everybody misses make the estimate too low.",
    "Nobody saw what the others marked, and adjudication removed every false mark.",
    "For Chapman's estimate the two readers are independent; the log-linear models allow any two sources to agree more "
    "or less often than by chance, but not all three together.",
)
_SOURCES = ("reader 1", "reader 2", "model")
_CELLS: tuple[Cell, ...] = tuple((bool(k & 4), bool(k & 2), bool(k & 1)) for k in range(1, 8))
_PAIRS = tuple(combinations(range(3), 2))
_WITHIN = 4.0
_STEPS = 100
_SAYS_LITTLE = 0.1
"""A subgroup is left out where not even a sample without a leak would show a rate of at most this."""
_LETTERS = re.compile(r"[^\W\d_]+")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Leak:
    """An annotation of which something is left in the release, without its text.

    `form` has `Aa` for a capitalised word, `A` and `a` for others and `9` for a number; `length` is in characters.
    """

    note: str
    label: str
    form: str
    length: int
    whole: bool


@dataclass(frozen=True, slots=True)
class LeakRate:
    """How many of `total` units, or notes, hold a leak; `rate` is weighted.

    `upper` is exact, or cluster-robust where the units differ in weight or size, or (sequential) valid at any time of
    stopping; None where none of these holds. Of the annotations, `missed` of `annotations` leak.
    """

    name: str
    of: str
    leaking: int
    total: int
    rate: float | None
    upper: float | None
    method: str
    missed: int
    annotations: int


@dataclass(frozen=True, slots=True)
class Hidden:
    """Annotations that nobody marked: by Chapman from two readers, and by log-linear models (None: no model fits).

    `highest` is the most that any model says whose AIC is within 4 of the best; `dependence` names the best one's.
    """

    marked: int
    chapman: float
    log_linear: float | None
    highest: float | None
    dependence: str


@dataclass(frozen=True, slots=True)
class AuditFigures:
    """What an audit found. `subgroups_left_out` gives the units of each subgroup that is too small (see `least`)."""

    plan: str
    run: str
    readings: str
    readers: tuple[str, ...]
    adjudicator: str
    units: int
    notes: int
    complete: bool
    later: int
    confidence: float
    rates: tuple[LeakRate, ...]
    direct: tuple[LeakRate, ...]
    quasi: tuple[LeakRate, ...]
    subgroups: tuple[LeakRate, ...]
    subgroups_left_out: Mapping[str, int]
    least: int
    sequential: tuple[tuple[int, float], ...]
    leaks: tuple[Leak, ...]
    agreement: float | None
    hidden: Hidden | None

    def to_json(self) -> str:
        assumptions = {} if self.hidden is None else {"assumptions": ASSUMPTIONS}
        return json.dumps({**asdict(self), **assumptions}, indent=1, ensure_ascii=False) + "\n"


def audit_figures(
    readings: Readings,
    released: Mapping[str, Sequence[Span]],
    *,
    adjudicator: str = "",
    styles: Styles | None = None,
) -> AuditFigures:
    """Measure what the readings show; `released` has what the run replaced in each note, on the side that was read.

    What the run's `styles` keep, such as a year alone or an age of at most 89, is not a leak. Raises
    EvaluationError where no unit has been read in full.
    """
    require_read(readings)
    plan = readings.plan
    shown = styles or Styles()
    leaks = [_leaks(note, released.get(note.gold.id, ()), shown) for note in readings.notes]
    pairs = zip(readings.notes, leaks, strict=True)
    table = _Table(readings, [list(unit) for _, unit in groupby(pairs, key=lambda pair: pair[0].drawn.unit)])
    counted: dict[str, Callable[[str], bool]] = {"any direct identifier": is_direct, "any PHI": lambda _: True}
    rates = [table.rate(name, counts) for name, counts in counted.items()]
    if plan.unit == "patient":
        rates += [table.by_note(name, counts) for name, counts in counted.items()]
    held = {identifier_of(span.label) for note in readings.notes for span in note.gold.spans}
    least = notes_to_read(_SAYS_LITTLE, confidence=plan.confidence)
    subgroups = {name: table.of_stratum(name) for name in plan.strata} if plan.by else {}
    largest = max(note.weight for note in plan.notes)
    return AuditFigures(
        plan=plan.digest,
        run=plan.run,
        readings=readings.digest,
        readers=readings.readers,
        adjudicator=adjudicator,
        units=readings.units,
        notes=len(readings.notes),
        complete=readings.complete,
        later=readings.later,
        confidence=plan.confidence,
        rates=tuple(rates),
        direct=tuple(table.identifier(name) for name in (*DIRECT, UNKNOWN) if name in held),
        quasi=tuple(table.identifier(name) for name in QUASI if name in held),
        subgroups=tuple(part.rate(name, is_direct) for name, part in subgroups.items() if part.count >= least),
        subgroups_left_out={name: part.count for name, part in subgroups.items() if part.count < least},
        least=least,
        sequential=tuple(sequential_bounds(table.units(is_direct), largest=largest, confidence=plan.confidence)),
        leaks=tuple(leak for note in leaks for leak in note),
        agreement=_agreement(readings.notes),
        hidden=_hidden(readings.notes) if plan.side == "original" else None,
    )


def kept_by_policy(labels: Sequence[str]) -> str:
    """Say what does not count as a leak, given the labels that the policy keeps."""
    return f"what the policy keeps{f', such as {listed(labels)}' if labels else ''}"


def form_of(text: str) -> str:
    """Return the form of a string, which tells nothing of the string itself.

    >>> from ensemble_deid.audit.figures import form_of
    >>> form_of("Ada GIL, 03/04/2019")
    'Aa A, 9/9/9'
    """

    def letters(match: re.Match[str]) -> str:
        word = match[0]
        return "a" if word.islower() else "A" if word.isupper() else "Aa"

    return _DIGITS.sub("9", _LETTERS.sub(letters, " ".join(text.split())))


def _leaks(note: AuditedNote, replaced: Sequence[Span], styles: Styles) -> list[Leak]:
    covered = cover(note.gold.with_spans(replaced))
    found = []
    for key in sorted({span.key for span in note.gold.spans}):
        counted, left = leaking_places(note.gold, covered, key)
        if left and not _stays(note.gold, key, styles):
            text = note.gold.text[key[0] : key[1]]
            found.append(Leak(note.gold.id, key[2], form_of(text), len(text), whole=len(left) == len(counted)))
    return found


def _stays(note: Document, key: SpanKey, styles: Styles) -> bool:
    """Whether a coarsening style leaves this value unchanged."""
    if styles.of(key[2]) not in COARSE:
        return False
    known = frozenset(note.text[span.start : span.end].casefold() for span in note.spans)
    values = Values(
        styles,
        lambda: PatientSurrogates(b"", ("", note.patient), styles.settings, known),
        note.text,
        note.spans,
        numbered_by_note=True,
    )
    surface = note.text[key[0] : key[1]]
    return values.of(Span(*key), surface) == surface


_Unit = Sequence[tuple[AuditedNote, Sequence[Leak]]]


class _Table:
    """The notes that were read with their leaks, unit by unit."""

    def __init__(self, readings: Readings, units: Sequence[_Unit]) -> None:
        self._readings = readings
        self._units = units
        self._strata = {name: float(number) for number, name in enumerate(readings.plan.strata)}

    @property
    def count(self) -> int:
        return len(self._units)

    def of_stratum(self, stratum: str) -> "_Table":
        return _Table(self._readings, [unit for unit in self._units if unit[0][0].drawn.stratum == stratum])

    def units(self, counts: Callable[[str], bool]) -> Units:
        """Return whether each unit has a leak of a label that `counts`."""
        return self._arranged([(float(_leaking(unit, counts) > 0), 1.0) for unit in self._units])

    def rate(self, name: str, counts: Callable[[str], bool]) -> LeakRate:
        return self._rate(name, f"{self._readings.plan.unit}s", self.units(counts), counts)

    def by_note(self, name: str, counts: Callable[[str], bool]) -> LeakRate:
        """Return the share of notes with a leak, the notes of a patient being alike."""
        found = [(float(_leaking(unit, counts)), float(len(unit))) for unit in self._units]
        return self._rate(name, "notes", self._arranged(found), counts)

    def identifier(self, identifier: str) -> LeakRate:
        return self.rate(identifier, lambda label: identifier_of(label) == identifier)

    def _arranged(self, found: Sequence[tuple[float, float]]) -> Units:
        leaks, sizes = np.array(found, dtype=np.float64).reshape(-1, 2).T
        drawn = [unit[0][0].drawn for unit in self._units]
        weights = np.array([note.weight for note in drawn])
        return Units(leaks, sizes, weights, np.array([self._strata[note.stratum] for note in drawn]))

    def _rate(self, name: str, of: str, units: Units, counts: Callable[[str], bool]) -> LeakRate:
        plan, method = self._readings.plan, "exact" if units.simple else "cluster-robust"
        upper = upper_bound(units, confidence=plan.confidence)
        if not self._readings.complete:
            once = bool(np.all(units.sizes == 1))
            largest = max(note.weight for note in plan.notes)
            upper = betting_upper(units, largest=largest, confidence=plan.confidence) if once else None
            method = "sequential" if once else "none"
        notes = [pair for unit in self._units for pair in unit]
        return LeakRate(
            name,
            of,
            leaking=int(units.leaks.sum()),
            total=int(units.sizes.sum()),
            rate=units.rate,
            upper=upper,
            method=method,
            missed=sum(counts(leak.label) for _, leaks in notes for leak in leaks),
            annotations=sum(len({s.key for s in note.gold.spans if counts(s.label)}) for note, _ in notes),
        )


def _leaking(unit: _Unit, counts: Callable[[str], bool]) -> int:
    """Return how many notes of a unit hold a leak."""
    return sum(any(counts(leak.label) for leak in leaks) for _, leaks in unit)


def _agreement(notes: Sequence[AuditedNote]) -> float | None:
    """Return the strict F1 of the two readers (Hripcsak and Rothschild 2005)."""
    total = Counts()
    for note in notes:
        first, second, _ = note.marked
        total += Counts(len(first & second), len(second - first), len(first - second))
    return total.f1


def _hidden(notes: Sequence[AuditedNote]) -> Hidden:
    """Estimate the PHI that nobody marked; a source has an annotation where it marked any character of it."""
    cells: Counter[Cell] = Counter()
    for note in notes:
        for start, end in {(span.start, span.end) for span in note.gold.spans}:
            first, second, model = (any(s < end and start < e for s, e, _ in source) for source in note.marked)
            if first or second or model:
                cells[first, second, model] += 1
    return estimate_hidden(cells)


def estimate_hidden(cells: Mapping[Cell, int]) -> Hidden:
    """Estimate the PHI that all sources missed, from the number of annotations by combination of sources."""
    seen = Counter(cells)
    a, b = (sum(n for cell, n in seen.items() if cell[k]) for k in (0, 1))
    both = sum(n for cell, n in seen.items() if cell[0] and cell[1])
    readers = a + b - both
    chapman = (a + 1) * (b + 1) / (both + 1) - 1 - readers
    counts = np.array([seen[cell] for cell in _CELLS], dtype=np.float64)
    fits = [fit for size in range(4) for pairs in combinations(_PAIRS, size) if (fit := _fit(counts, pairs))]
    if not fits:
        return Hidden(sum(seen.values()), max(0.0, chapman), None, None, "")
    aic, hidden, pairs = min(fits)
    near = [fit[1] for fit in fits if fit[0] <= aic + _WITHIN]
    named = ", ".join(f"{_SOURCES[i]} and {_SOURCES[j]}" for i, j in pairs) or "none"
    return Hidden(sum(seen.values()), max(0.0, chapman), hidden, max(near), named)


def _fit(counts: Floats, pairs: Sequence[tuple[int, int]]) -> tuple[float, float, tuple[tuple[int, int], ...]] | None:
    """Return AIC, the expected count of the unseen cell, and the pairs; None where the cells do not determine it."""
    design = np.array([[1.0, *map(float, cell), *(float(cell[i] and cell[j]) for i, j in pairs)] for cell in _CELLS])
    # Poisson regression by reweighted least squares; an empty cell would let a pair's term run to infinity.
    observed = counts + 0.5 * (counts == 0)
    weights = np.log(observed)
    coefficients = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        mean = np.exp(weights)
        working = weights + (observed - mean) / mean
        root = np.sqrt(mean)[:, None]
        new = np.linalg.lstsq(root * design, root[:, 0] * working, rcond=None)[0]
        weights = np.clip(design @ new, -30.0, 30.0)
        change = float(np.abs(new - coefficients).max())
        coefficients = new
        if change < 1e-10:
            break
    else:
        return None
    mean = np.exp(weights)
    likelihood = float((observed * weights - mean).sum())
    hidden = float(np.exp(min(30.0, coefficients[0])))
    return -2 * likelihood + 2 * design.shape[1], hidden, tuple(pairs)

"""The record of a model: its threshold, the recall measured at it, and the languages of its training notes.

Training leaves a curve: what it found in its training notes, out of fold, at every threshold. The notes of a patient,
or of a site where folds are by site, were scored by submodels and a final estimator that saw none of them. So a
threshold can be chosen, and its recall be told, without annotated notes of one's own.

Of tens of thousands of points some hundred are kept. What is read back answers for a threshold between two of them with
the lowest recall and the most false positives that any threshold there has, so that it never promises too much.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.errors import ModelError
from ensemble_deid.evaluation.curve import CURVE_VIEWS, Curve, OperatingPoint, just_below
from ensemble_deid.evaluation.operating_points import OUT_OF_FOLD, ChosenThreshold, chosen_threshold, target_text
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.model.additions import changes_since, changes_since_training, listed
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.digits import four_digits
from ensemble_deid.note.document import Document
from ensemble_deid.note.language import NAMES
from ensemble_deid.stacking.stacker import Stacker

# Between two kept points recall grows by less than a fifth of a per cent, and false positives by no more than one in
# ten thousand tokens, or a fiftieth of what they are: what is printed with one digit behind the point.
_RECALL_STEPS = 500
_TOKENS_A_STEP = 10_000
_SHARE_A_STEP = 50
_COUNTS, _COLUMNS = ("gold", "tokens"), ("thresholds", "tp", "fp")
_BETWEEN = "fp_between"
_KEYS = {"view", *_COUNTS, *_COLUMNS, _BETWEEN}


@dataclass(frozen=True, slots=True)
class StoredCurve(Curve):
    """Some points of a curve; `fp_between` are the most false positives of any threshold below each, above the next."""

    fp_between: Int64s

    def at(self, threshold: float) -> OperatingPoint:
        """Return the counts at a threshold: exact at a stored point and just below it, else no better than the true."""
        # Named, since super() needs a cell that a dataclass with slots replaces.
        exact = Curve.at(self, threshold)
        kept = int(np.searchsorted(-self.thresholds, -threshold, side="right"))
        if not kept or threshold >= just_below(float(self.thresholds[kept - 1])):
            return exact
        counts = Counts(exact.counts.tp, int(self.fp_between[kept - 1]), exact.counts.fn)
        return OperatingPoint(threshold, counts, self.tokens)


def curve_to_record(curve: Curve) -> dict[str, Any]:
    """Return a curve as JSON-ready data, thinned to the points at which recall or false positives have grown.

    Of equal recalls within a step of false positives, the highest threshold is kept, since it has the fewest.
    """
    kept = _kept(curve)
    last = np.append(kept[1:], len(curve))[: len(kept)] - 1
    return {
        "view": curve.view,
        "gold": curve.gold,
        "tokens": curve.tokens,
        "thresholds": curve.thresholds[kept].tolist(),
        "tp": curve.tp[kept].tolist(),
        "fp": curve.fp[kept].tolist(),
        _BETWEEN: curve.fp[last].tolist(),
    }


def _kept(curve: Curve) -> Int64s:
    """Return the indexes of the points to store: the first, each where a step is exceeded, and the first of all PHI."""
    steps = curve.tp * _RECALL_STEPS // max(1, curve.gold)
    kept: list[int] = []
    before = 0
    for index, (step, fp) in enumerate(zip(steps.tolist(), curve.fp.tolist(), strict=True)):
        more = fp - before
        if (
            not kept
            or step > steps[kept[-1]]
            or (more * _TOKENS_A_STEP > curve.tokens and more * _SHARE_A_STEP > before)
        ):
            kept.append(index)
            before = fp
    # The first point that reaches the highest recall.
    ends = np.flatnonzero(curve.tp == curve.tp.max(initial=0))[:1]
    return np.union1d(np.array(kept, dtype=np.int64), ends)


def curve_from_record(record: Any) -> StoredCurve:
    """Read back what `curve_to_record` gave. Raises EvaluationError where it is not such a record."""
    if not isinstance(record, Mapping) or set(record) != _KEYS or record["view"] not in CURVE_VIEWS:
        raise EvaluationError(f"a stored curve has the keys {sorted(_KEYS)} and one of the views {CURVE_VIEWS}")
    columns = [record[name] for name in (*_COLUMNS, _BETWEEN)]
    if not all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns):
        raise EvaluationError("the columns of a stored curve are lists of one length")
    numbers = [number for column in columns for number in column] + [record[name] for name in _COUNTS]
    if any(isinstance(number, bool) or not isinstance(number, int | float) for number in numbers):
        raise EvaluationError("a value of a stored curve is not a number")
    thresholds = np.array(columns[0], dtype=np.float64)
    tp, fp, between = (np.array(column, dtype=np.int64) for column in columns[1:])
    gold, tokens = (int(record[name]) for name in _COUNTS)
    falls = bool((np.diff(thresholds) < 0).all()) and bool(((thresholds >= 0) & (thresholds <= 1)).all())
    rises = all(bool((np.diff(column, prepend=0) >= 0).all()) for column in (tp, fp))
    lies_between = bool((between >= fp).all()) and bool((between[:-1] <= fp[1:]).all())
    if not (falls and rises and lies_between and tokens >= 0 and gold >= int(tp.max(initial=0))):
        raise EvaluationError("a stored curve falls from threshold to threshold, and its counts rise up to all PHI")
    return StoredCurve(record["view"], thresholds, tp, fp, gold=gold, tokens=tokens, fp_between=between)


CURVES = "out_of_fold_curves"
"""The figure of the manifest that has a curve for every final estimator."""


@dataclass(frozen=True, slots=True)
class OutOfFold:
    """A model's curve of PHI tokens, and in words which notes it was measured on."""

    curve: StoredCurve
    notes: str


def curves_record(curves: Mapping[tuple[str, ...], Curve], documents: Sequence[Document]) -> dict[str, Any]:
    """Return what a manifest keeps: the curves by their submodels, on how many notes, what the folds kept together."""
    by_site = any(document.group != document.patient for document in documents)
    return {
        "notes": len(documents),
        "groups": len({document.group for document in documents}),
        "held_out": "site" if by_site else "patient",
        "curves": {",".join(names): curve_to_record(curve) for names, curve in curves.items()},
    }


def out_of_fold(manifest: Manifest, submodels: Sequence[str]) -> OutOfFold | None:
    """Return the curve of the final estimator of some submodels, None where training left none.

    Raises ModelError where the record is damaged.
    """
    record = manifest.figures.get(CURVES)
    if record is None:
        return None
    try:
        found = record["curves"].get(",".join(submodels))
        notes, groups, held_out = record["notes"], record["groups"], str(record["held_out"])
        if found is None:
            return None
        text = f"its {notes:,} training notes of {groups:,} {held_out}s, out of fold"
        return OutOfFold(curve_from_record(found), text)
    except (EvaluationError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"the model's figure {CURVES} is damaged ({type(error).__name__})") from None


CHOSEN_WITH = "threshold_chosen_with"
"""The figure of the manifest that has the files, of those that can be changed, with which the threshold was chosen."""
SHIPPED = "shipped_threshold"
"""The figure of the manifest that has the threshold of an exported model, and its record, once another was chosen."""
LANGUAGES = "languages"
"""The choice of the manifest that has the languages of the training notes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Recall of PHI tokens and false positives in 1,000 tokens at a threshold, None where undefined; on which notes.

    `changes` are what was changed in the model since.
    """

    recall: float | None
    false_positives: float | None
    notes: str
    changes: Sequence[str]


def measured_at(manifest: Manifest, threshold: float, *, submodels: Sequence[str]) -> Measured | None:
    """Return what was measured of a model at a threshold, with these submodels; None for nothing.

    The notes that the threshold was chosen on come first, then the curve that training left in the model. Raises
    ModelError where the curve is damaged.
    """
    whole = set(submodels) == set(manifest.config.get("submodels", ()))
    chosen = chosen_threshold(manifest.figures) if whole else None
    if chosen is not None and chosen.notes != OUT_OF_FOLD and chosen.threshold == threshold and chosen.chosen_at:
        notes = f"the {chosen.notes.count} notes that this threshold was chosen on"
        changes = changes_since(manifest, manifest.figures.get(CHOSEN_WITH, {}), submodels)
        return _of_point(chosen.chosen_at, notes, changes)
    stored = out_of_fold(manifest, submodels)
    changes = changes_since_training(manifest, submodels)
    points: Mapping[str, Any] = manifest.choices.get("operating_point", {}).get("points", {}) if whole else {}
    for point in points.values():
        # Exact, where the stored curve has only some of its points.
        if point["threshold"] == threshold:
            notes = "its training notes, out of fold" if stored is None else stored.notes
            recall, wrong = point["token_recall"], point["false_positives_per_1000"]
            return Measured(recall=recall, false_positives=wrong, notes=notes, changes=changes)
    return None if stored is None else _of_point(stored.curve.at(threshold), stored.notes, changes)


def _of_point(point: OperatingPoint, notes: str, changes: Sequence[str]) -> Measured:
    return Measured(recall=point.counts.recall, false_positives=point.fp_per_1000, notes=notes, changes=changes)


def threshold_text(model: Path, manifest: Manifest) -> str:
    """Say what a model's threshold is and how it was chosen."""
    submodels = manifest.config.get("submodels", ())
    chosen = chosen_threshold(manifest.figures)
    if chosen is None or chosen.notes == OUT_OF_FOLD:
        changes = changes_since_training(manifest, submodels)
    else:
        changes = changes_since(manifest, manifest.figures.get(CHOSEN_WITH, {}), submodels)
    since = f"; the model's {listed(changes)} changed since" if changes else ""
    return f"{four_digits(Stacker.load(model).threshold)}{_choice(manifest, chosen)}{since}"


def _choice(manifest: Manifest, chosen: ChosenThreshold | None) -> str:
    if chosen is not None:
        notes = "the training notes, out of fold," if chosen.notes == OUT_OF_FOLD else f"{chosen.notes.count} notes"
        text = f", chosen on {notes} for {target_text(chosen.rule, chosen.wanted)}"
        overlap = manifest.choices.get("overlap_of_threshold")
        return f"{text}; {overlap} of these were training notes" if overlap else text
    choice = manifest.choices.get("operating_point")
    if not isinstance(choice, dict):
        return ", as training left it"
    how = {
        "f1": "the best strict F1 by cross-validation on the training notes",
        "recall": "the highest token recall at up to "
        f"{choice.get('max_false_positives_per_1000', 0):g} false positives in 1000 tokens, by cross-validation on the "
        "training notes",
        "given": "given in the configuration",
    }
    return f": {how.get(str(choice.get('frozen')), 'as training left it')}"


def languages_of_training(manifest: Manifest) -> tuple[str, ...]:
    """Return the languages of the notes that a model was trained on, none where there is no record of them."""
    return tuple(language for language in manifest.choices.get(LANGUAGES, ()) if language in NAMES)

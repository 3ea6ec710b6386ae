"""Thresholds that reach a wanted sensitivity or precision, chosen on one set of notes and reported on another.

Sources: Johnson et al. 2020 (CHIL), section 3.4 and table 5, for fixed sensitivities; Hartman et al. 2020 (BMC Med
Inform Decis Mak), "R@P", after Eban et al. 2017, for recall at precision.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from ensemble_deid.evaluation.curve import CURVE_VIEWS, Curve, OperatingPoint, has_scores, trace_curve
from ensemble_deid.evaluation.pairs import EvaluationError, select_labels
from ensemble_deid.evaluation.views import resolve_labels
from ensemble_deid.keys import salted_digest
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.document import Document

SENSITIVITIES: tuple[float, ...] = (0.990, 0.997, 0.999, 1.0)
PRECISION = 0.85
ThresholdRule = Literal["sensitivity", "precision", "false-positives", "certified"]
"""`false-positives`: the highest recall at so many false positives in 1000 tokens of the notes, or fewer.
`certified`: a promise about the missed share in other notes, which only `audit certify` makes."""
# Below this, a ratio of two counts is no longer told from the wanted one by rounding alone.
_ROUNDING = 1e-12


class NoScoresError(EvaluationError):
    """A system whose annotations do not differ in score, so that no threshold can be chosen."""


@dataclass(frozen=True, slots=True)
class KnownNotes:
    """How many notes a threshold was chosen on, and salted digests by which they are known again.

    Whoever guesses a note can still confirm the guess with the salt, so exported models keep the count only.
    """

    count: int
    salt: str = ""
    digests: frozenset[str] = frozenset()

    @classmethod
    def of(cls, documents: Sequence[Document]) -> "KnownNotes":
        """Take the digests of notes; the salt comes from their texts, so that the same notes give the same record."""
        texts = sorted(_words(document) for document in documents)
        salt = hashlib.sha256(f"salt of chosen notes\n{texts!r}".encode()).hexdigest()[:32]
        return cls(len(texts), salt, frozenset(salted_digest(salt, "note", text) for text in texts))

    def shared(self, documents: Sequence[Document]) -> int:
        """Count the notes that are among these; their white space may differ."""
        if not self.digests:
            return 0
        return sum(salted_digest(self.salt, "note", _words(document)) in self.digests for document in documents)


def _words(document: Document) -> str:
    return " ".join(document.text.split())


OUT_OF_FOLD = KnownNotes(0)
"""The `notes` of a threshold that was chosen on a curve measured out of fold in training."""


@dataclass(frozen=True, slots=True)
class ChosenThreshold:
    """A threshold and where it comes from, to be stored in a model.

    `rule` and `wanted` say what was asked for; `threshold` is None where no threshold achieves it. `chosen_at` is the
    operating point on the notes it was chosen on, and `notes` recognises these in a later report. It is `OUT_OF_FOLD`,
    and recognises none, where the threshold was chosen on training notes scored by models that had not seen them.
    """

    rule: ThresholdRule
    wanted: float
    view: str
    threshold: float | None
    chosen_at: OperatingPoint | None
    notes: KnownNotes


@dataclass(frozen=True, slots=True)
class ReportedPoint:
    """A chosen threshold and what it gives on the notes reported on; `point` is None where there is no threshold.

    `oracle` says that some of these notes are among those the threshold was chosen on.
    """

    chosen: ChosenThreshold
    point: OperatingPoint | None
    oracle: bool


@dataclass(frozen=True, slots=True)
class RecallAtPrecision:
    """Hartman et al.: the highest recall at a precision of at least `precision`.

    `adjusted` is False where the system does not reach the precision: then `reported` is the system as it is.
    """

    precision: float
    adjusted: bool
    reported: OperatingPoint
    oracle: bool


@dataclass(frozen=True, slots=True)
class OperatingPoints:
    view: str
    curve: Curve
    as_it_is: OperatingPoint
    sensitivities: tuple[ReportedPoint, ...]
    recall_at_precision: RecallAtPrecision
    oracle: bool


def choose_threshold(
    dev_gold: Sequence[Document],
    dev_system: Sequence[Document],
    *,
    rule: ThresholdRule = "sensitivity",
    wanted: float = 0.99,
    view: str = "token-binary",
) -> ChosenThreshold:
    """Choose a threshold on development notes: the highest that reaches the sensitivity (fewest false alarms), or
    the one with the highest recall among those that reach the precision, or that keep within the false positives.

    Johnson et al. speak of "the lowest threshold which has at least the specified sensitivity"; their figures are
    those of the one that only just has it. Raises NoScoresError when nothing carries different scores.
    """
    if rule not in get_args(ThresholdRule):
        raise EvaluationError(f"there is no rule {rule!r}; there are: {', '.join(get_args(ThresholdRule))}")
    check_target(rule, wanted)
    if not has_scores(dev_system):
        raise NoScoresError("a threshold needs a system that scores its annotations; all scores are the same")
    point = find_point(trace_curve(dev_gold, dev_system, view=view), rule=rule, wanted=wanted)
    threshold = None if point is None else point.threshold
    return ChosenThreshold(rule, wanted, view, threshold, chosen_at=point, notes=KnownNotes.of(dev_gold))


def check_target(rule: ThresholdRule, wanted: float) -> None:
    """Raise EvaluationError for a sensitivity or precision outside 0 to 1, or a number of false positives below 0."""
    if rule == "certified":
        raise EvaluationError("a certified threshold comes from an audit alone (ensemble-deid audit certify)")
    if rule == "false-positives":
        if not 0 <= wanted <= 1000:
            raise EvaluationError(f"false positives in 1000 tokens must be between 0 and 1000, not {wanted:g}")
    elif not 0 < wanted <= 1:
        raise EvaluationError(f"a wanted {rule} must be above 0 and at most 1, not {wanted:g}")


def target_text(rule: ThresholdRule, wanted: float) -> str:
    if rule == "false-positives":
        return f"the highest token recall at {wanted:g} false positives in 1000 tokens or fewer"
    if rule == "certified":
        return f"a missed share of at most {wanted:g} in other notes (audit certify)"
    return f"a token {rule} of {wanted:g}"


def find_point(curve: Curve, *, rule: ThresholdRule, wanted: float) -> OperatingPoint | None:
    """Return the operating point that `choose_threshold` describes; None where the curve has none."""
    if not curve.gold:
        return None
    if rule == "sensitivity":
        enough = np.flatnonzero(curve.tp / curve.gold >= wanted - _ROUNDING)
        return curve.point(int(enough[0])) if len(enough) else None
    if rule == "precision":
        allowed = np.flatnonzero(curve.tp / (curve.tp + curve.fp) >= wanted - _ROUNDING)
    else:
        allowed = np.flatnonzero(1000 * curve.fp <= wanted * curve.tokens)
    if not len(allowed):
        return None
    # Recall grows as the threshold falls, so the last is the highest; of equal recalls take the higher precision.
    best = allowed[curve.tp[allowed] == curve.tp[allowed[-1]]][0]
    return curve.point(int(best))


def report_threshold(
    gold: Sequence[Document], system: Sequence[Document], chosen: ChosenThreshold, *, oracle: bool = False
) -> ReportedPoint:
    """Apply a chosen threshold to other notes.

    Raises EvaluationError when it was chosen on some of them; with `oracle`, the result says so instead.
    """
    shared = chosen.notes.shared(gold)
    if shared and not oracle:
        raise EvaluationError(
            f"{shared} of the {len(gold)} notes reported on are among those the threshold was chosen on; "
            "choose it on other notes, or ask for an oracle and have the output say so"
        )
    point = None
    if chosen.threshold is not None:
        point = trace_curve(gold, system, view=chosen.view).at(chosen.threshold)
    return ReportedPoint(chosen, point, shared > 0)


def find_operating_points(
    gold: Sequence[Document],
    system: Sequence[Document],
    *,
    dev: tuple[Sequence[Document], Sequence[Document]] | None = None,
    oracle: bool = False,
    view: str = "token-binary",
    sensitivities: Sequence[float] = SENSITIVITIES,
    precision: float = PRECISION,
    threshold: float = 0.0,
    labels: Sequence[str] | None = None,
) -> OperatingPoints:
    """Choose thresholds on `dev` (its gold and system documents) and say what they give on `gold` and `system`.

    Without `dev` they are chosen on what is reported, which is refused unless `oracle`. `threshold` is the one that
    the system works with as it is. `labels` keeps only those labels, categories or groups everywhere. Raises
    EvaluationError (NoScoresError where no scores differ).
    """
    if dev is None and not oracle:
        raise EvaluationError(
            "a threshold is chosen on development notes, not on those it is reported on; "
            "give development notes, or ask for an oracle and have the output say so"
        )
    dev_gold, dev_system = (gold, system) if dev is None else dev
    if labels is not None:
        sides = (gold, system, dev_gold, dev_system)
        chosen_labels = resolve_labels(labels, {span.label for side in sides for note in side for span in note.spans})
        gold, system, dev_gold, dev_system = (select_labels(side, chosen_labels) for side in sides)
    choices = [choose_threshold(dev_gold, dev_system, wanted=wanted, view=view) for wanted in sensitivities]
    reported = tuple(report_threshold(gold, system, chosen, oracle=oracle) for chosen in choices)
    curve = trace_curve(gold, system, view=view)
    dev_as_it_is = trace_curve(dev_gold, dev_system, view=view).at(threshold)
    chosen = choose_threshold(dev_gold, dev_system, rule="precision", wanted=precision, view=view)
    at = report_threshold(gold, system, chosen, oracle=oracle)
    as_it_is = curve.at(threshold)
    # Hartman et al. leave a system alone whose own precision is below the cut-off.
    own = dev_as_it_is.counts.precision
    point = at.point if own is not None and own >= precision - _ROUNDING else None
    recall = RecallAtPrecision(precision, point is not None, point or as_it_is, at.oracle)
    oracle = any(point.oracle for point in reported) or at.oracle
    return OperatingPoints(view, curve, as_it_is, reported, recall_at_precision=recall, oracle=oracle)


CHOSEN = "threshold"
"""The figure of a model's manifest that holds this record."""


def threshold_to_record(chosen: ChosenThreshold) -> dict[str, Any]:
    """Return the choice as JSON-ready data; of the notes it was chosen on it has salted digests."""
    at = chosen.chosen_at
    return {
        "rule": chosen.rule,
        "wanted": chosen.wanted,
        "view": chosen.view,
        "threshold": chosen.threshold,
        "chosen_at": None if at is None else {**asdict(at.counts), "tokens": at.tokens},
        "notes": {
            "count": chosen.notes.count,
            "salt": chosen.notes.salt,
            "digests": " ".join(sorted(chosen.notes.digests)),
        },
    }


def chosen_threshold(figures: Mapping[str, Any]) -> ChosenThreshold | None:
    """Return the choice among the figures of a manifest, None where the threshold is as training left it."""
    record = figures.get(CHOSEN)
    return None if record is None else threshold_from_record(record)


def without_digests(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record as an exported model has it: it keeps only the number of notes."""
    chosen = threshold_from_record(record)
    return threshold_to_record(replace(chosen, notes=KnownNotes(chosen.notes.count)))


def threshold_from_record(record: Mapping[str, Any]) -> ChosenThreshold:
    """Read back what `threshold_to_record` gave. Raises EvaluationError for any other record."""
    keys = {"rule", "wanted", "view", "threshold", "chosen_at", "notes"}
    if set(record) != keys:
        raise EvaluationError(f"a stored threshold has the keys {sorted(keys)}, not {sorted(record)}")
    threshold, at = record["threshold"], record["chosen_at"]
    if record["rule"] not in get_args(ThresholdRule) or record["view"] not in CURVE_VIEWS:
        raise EvaluationError(f"a stored threshold cannot have rule {record['rule']!r} and view {record['view']!r}")
    rule, wanted = record["rule"], record["wanted"]
    most = 1000 if rule == "false-positives" else 1
    if not (_is_number(wanted, most=most) and (threshold is None or _is_number(threshold))):
        raise EvaluationError(
            f"a stored threshold is a number between 0 and 1, and what it was wanted for one up to {most}"
        )
    if (threshold is None) != (at is None):
        raise EvaluationError("a stored threshold comes with the operating point it was chosen at, or without both")
    point = None if threshold is None or at is None else _point(float(threshold), at)
    threshold = None if threshold is None else float(threshold)
    notes = _known_notes(record["notes"])
    return ChosenThreshold(rule, float(wanted), record["view"], threshold, chosen_at=point, notes=notes)


def _known_notes(notes: Any) -> KnownNotes:
    kinds = {"count": int, "salt": str, "digests": str}
    if not (isinstance(notes, Mapping) and {name: type(value) for name, value in notes.items()} == kinds):
        raise EvaluationError("the notes of a stored threshold are a count, a salt and digests")
    return KnownNotes(notes["count"], notes["salt"], frozenset(notes["digests"].split()))


def _point(threshold: float, at: Any) -> OperatingPoint:
    keys = ("tp", "fp", "fn", "tokens")
    if not (isinstance(at, Mapping) and set(at) == set(keys) and all(isinstance(at[key], int) for key in keys)):
        raise EvaluationError(f"the operating point of a stored threshold has the whole numbers {', '.join(keys)}")
    if min(at[key] for key in keys) < 0:
        raise EvaluationError("the operating point of a stored threshold has a negative count")
    return OperatingPoint(threshold, Counts(at["tp"], at["fp"], at["fn"]), at["tokens"])


def _is_number(value: Any, *, most: float = 1) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most

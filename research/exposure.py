"""How well PHI that a model missed hides among surrogates: how many of the misses an attacker picks out.

With tags in the place of PHI, whatever is left is a miss, and a reader sees all of it. Surrogates hide the misses "in
plain sight" (Carrell et al. 2013, JAMIA 20(2)) as far as nobody can tell them apart.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ensemble_deid.arrays import Flags, Floats, Int64s
from ensemble_deid.deidentify.replacement import Key, Replacer
from ensemble_deid.evaluation.bootstrap import RESAMPLES, Interval, percentile_interval, resample_totals
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.model.seen_notes import Overlap, SeenNotes
from ensemble_deid.note.document import Document
from research.exposure_crf import Suspicion, informed, parrot
from research.exposure_places import HiddenNote, hide
from research.exposure_rules import readers_rules

ALL = "all"
_STEPS = 1000
_TENTH = 0.1


@dataclass(frozen=True, slots=True)
class Figure:
    """A share between 0 and 1, None where it is undefined, with its interval by bootstrap over patients."""

    value: float | None
    interval: Interval


@dataclass(frozen=True, slots=True)
class Attack:
    """What an attacker achieves who ranks all places by suspicion.

    `picked` is the share of misses among as many of the most suspect places as there are misses (then precision and
    recall are the same), `tenth` the share of the misses in the most suspect tenth of the places, and `auc` the
    probability that a miss is more suspect than a surrogate. Guessing has `Exposure.chance`, 0.1 and 0.5.
    """

    picked: Figure
    tenth: Figure
    auc: Figure


@dataclass(frozen=True, slots=True)
class Exposure:
    """The places of a category of PHI (or of all): surrogates, misses among them, and each attack on them."""

    surrogates: int
    missed: int
    attacks: Mapping[str, Attack]

    @property
    def chance(self) -> float | None:
        """The share of misses among the places, which is what guessing picks out."""
        places = self.surrogates + self.missed
        return self.missed / places if places else None


def measure_exposure(
    gold: Sequence[Document],
    system: Sequence[Document],
    known: tuple[Sequence[Document], Sequence[Document]],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    allow_overlap: bool = False,
) -> dict[str, Exposure]:
    """Replace what a system found by surrogates, attack the notes, and return the exposure by category and of all.

    `known` are gold and system of other notes, of which the attacker knows what was missed. The key of the surrogates
    is made of `seed`. Raises EvaluationError where gold and system do not match, where there is no PHI, and, unless
    `allow_overlap`, where any of the notes or patients are among the known ones: their misses need no attack.
    """
    secret = hashlib.sha256(f"exposure {seed}".encode()).digest()
    replacer = Replacer.from_options("surrogate", key=Key(secret))
    notes = hide(gold, system, replacer)
    if not any(note.places for note in notes):
        raise EvaluationError("there is no PHI in the notes, neither found nor missed")
    refused_overlap(gold, known[0], allowed=allow_overlap)
    taught = hide(*known, replacer)
    rules, learned = readers_rules(notes), informed(taught, notes)
    attacks = {
        "reader's rules": rules,
        "parrot": parrot(notes),
        "CRF that knows other notes' misses": learned,
        "CRF and rules": _mean(rules, learned),
    }
    categories = sorted({place.category for note in notes for place in note.places})
    return {name: _exposure(notes, attacks, name, resamples, seed) for name in (ALL, *categories)}


def refused_overlap(gold: Sequence[Document], known: Sequence[Document], *, allowed: bool) -> Overlap:
    """Count the notes to attack, and their patients, that are among those that the attacker knows.

    Raises EvaluationError where there are any, unless `allowed`.
    """
    overlap = SeenNotes.of(known, seed=0).overlap(gold)
    if overlap and not allowed:
        raise EvaluationError(
            f"{overlap} are among the known notes, and an attacker who knows what was missed in a note need not guess: "
            "name other notes, or --allow-overlap if this is meant (two corpora may number different patients alike)"
        )
    return overlap


def _mean(one: Suspicion, other: Suspicion) -> Suspicion:
    pairs = zip(one, other, strict=True)
    return [[(a + b) / 2 for a, b in zip(*pair, strict=True)] for pair in pairs]


def _exposure(
    notes: Sequence[HiddenNote], attacks: Mapping[str, Suspicion], category: str, resamples: int, seed: int
) -> Exposure:
    places = [
        (number, k)
        for number, note in enumerate(notes)
        for k, place in enumerate(note.places)
        if category in (ALL, place.category)
    ]
    missed = np.array([notes[number].places[k].missed for number, k in places], dtype=bool)
    groups = [notes[number].document.group for number, _ in places]
    made = {}
    for name, suspicion in attacks.items():
        scores = np.array([suspicion[number][k] for number, k in places])
        made[name] = _attack(scores, missed, groups, resamples, seed)
    return Exposure(int((~missed).sum()), int(missed.sum()), made)


def _attack(scores: Floats, missed: Flags, groups: Sequence[str], resamples: int, seed: int) -> Attack:
    # Scores are compared to the third decimal, so that tables stay small; equal ones are in no order.
    values, step = np.unique(-np.round(scores * _STEPS).astype(np.int64), return_inverse=True)
    patients, patient = np.unique(np.asarray(groups, dtype=object), return_inverse=True)
    by_patient: Int64s = np.zeros((len(patients), 2 * len(values)), dtype=np.int64)
    np.add.at(by_patient, (patient, step + np.where(missed, 0, len(values))), 1)
    draws = resample_totals(by_patient, resamples=resamples, seed=seed)
    observed = by_patient.sum(axis=0, keepdims=True).astype(np.float64)
    figures = []
    for of, drawn in zip(_figures(observed), _figures(draws), strict=True):
        value = None if np.isnan(of[0]) else float(of[0])
        figures.append(Figure(value, percentile_interval(drawn, patients=len(by_patient))))
    return Attack(*figures)


def _figures(totals: Floats) -> tuple[Floats, Floats, Floats]:
    """Return `picked`, `tenth` and `auc` of rows of counts: misses by falling suspicion, then surrogates."""
    missed, surrogates = np.split(totals, 2, axis=1)
    all_missed, all_surrogates = missed.sum(axis=1), surrogates.sum(axis=1)
    before = np.cumsum(missed, axis=1) - missed
    with np.errstate(invalid="ignore", divide="ignore"):
        # Where a miss and a surrogate are equally suspect, either comes first.
        auc = (surrogates * (before + missed / 2)).sum(axis=1) / (all_missed * all_surrogates)
        picked = _among_first(all_missed, missed, surrogates) / all_missed
        tenth = _among_first(_TENTH * (all_missed + all_surrogates), missed, surrogates) / all_missed
    return picked, tenth, auc


def _among_first(number: Floats, missed: Floats, surrogates: Floats) -> Floats:
    """Return how many misses are to be expected among so many of the most suspect places."""
    every = missed + surrogates
    before = np.cumsum(every, axis=1) - every
    taken = np.clip(number[:, None] - before, 0, every)
    shares = np.divide(missed, every, out=np.zeros_like(missed), where=every > 0)
    found: Floats = (taken * shares).sum(axis=1)
    return found

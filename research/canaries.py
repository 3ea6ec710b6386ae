"""Canaries: invented names planted in one training patient's notes, to measure how far a model memorises them.

Exposure (Carlini et al. 2019, "The Secret Sharer") compares a planted name with names that were invented in the same
way and never planted: log2 of how many names there are, less log2 of the planted one's rank when they are sorted by how
certainly the model takes them for PHI. A model that has memorised the name ranks it first: its exposure is log2 of the
number of names, the most there is. A model that cannot tell it from the others ranks it anywhere: 1.44 bits on average,
or 1 where all scores are equal.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ensemble_deid.errors import CorpusError
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.seeds import generator
from ensemble_deid.submodels import BY_NAME

ENSEMBLE = "ensemble"
_BEFORE, _AFTER = "\nSeen together with ", " on the ward.\n"
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"
_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Exposure:
    """The rank of a planted name among all names (the mean rank of equal scores), and its exposure in bits."""

    rank: float
    names: int

    @property
    def bits(self) -> float:
        """The exposure: at most log2 of the number of names."""
        return math.log2(self.names) - math.log2(self.rank)


def invent_names(n: int, *, seed: int) -> tuple[str, ...]:
    """Return n different names of six and seven letters that nobody has, all of one form, in random order."""
    rng = generator(seed, "canaries")

    def word(pattern: str) -> str:
        letters = [_CONSONANTS if kind == "c" else _VOWELS for kind in pattern]
        return "".join(kind[int(rng.integers(len(kind)))] for kind in letters).title()

    names: dict[str, None] = {}
    while len(names) < n:
        names[f"{word('cvcvcv')} {word('cvcvccv')}"] = None
    return tuple(names)


def plant(
    documents: Sequence[Document], names: Sequence[str], *, patient: str, label: str, times: int = 1
) -> list[Document]:
    """Return the notes with a sentence for each name at the end of one patient's first notes, annotated as `label`.

    Each name is in `times` of the patient's notes, or in all where the patient has fewer. Raises CorpusError where no
    note is of that patient.
    """
    chosen = [number for number, document in enumerate(documents) if document.patient == patient][:times]
    if not chosen:
        raise CorpusError(f"there is no note of a patient {patient!r} to plant canaries in")
    planted = list(documents)
    for number in chosen:
        text, spans = documents[number].text, list(documents[number].spans)
        for name in names:
            start = len(text) + len(_BEFORE)
            spans.append(Span(start, start + len(name), label))
            text = f"{text}{_BEFORE}{name}{_AFTER}"
        planted[number] = replace(documents[number], text=text, spans=tuple(spans))
    return planted


def exposures(
    ensemble: Ensemble, planted: Sequence[str], others: Sequence[str], *, label: str
) -> dict[str, list[Exposure]]:
    """Return for the ensemble, and for each submodel with marginals, the exposure of each planted name.

    Each is ranked among itself and the others, which were never planted. Who has a model can ask its submodels, too.
    """
    scores = _scores(ensemble, [*planted, *others], label)
    result = {}
    for system, of_names in scores.items():
        mine, rest = of_names[: len(planted)], of_names[len(planted) :]
        ranks = [1 + sum(s > own for s in rest) + sum(s == own for s in rest) / 2 for own in mine]
        result[system] = [Exposure(rank, len(rest) + 1) for rank in ranks]
    return result


def _scores(ensemble: Ensemble, names: Sequence[str], label: str) -> dict[str, list[float]]:
    """Return the probability with which each system takes each name, in the planted sentence, for PHI of the label."""
    learners = [name for name in ensemble.taggers if BY_NAME[name].has_marginals]
    scores: dict[str, list[float]] = {name: [] for name in (ENSEMBLE, *learners)}
    for low in range(0, len(names), _AT_ONCE):
        part = names[low : low + _AT_ONCE]
        notes = [Document(f"{low + k}", f"{_BEFORE}{name}{_AFTER}") for k, name in enumerate(part)]
        batch = ensemble.feature_extractor.extract(notes)
        proposals = ensemble.propose(batch)
        found: dict[str, Sequence[Sequence[Span]]] = {name: proposals[name].candidates for name in learners}
        found[ENSEMBLE] = ensemble.stacker.predict_proba(proposals, batch)
        for system, candidates in found.items():
            for name, spans in zip(part, candidates, strict=True):
                wanted = (len(_BEFORE), len(_BEFORE) + len(name), label)
                # Rounded, since the order in which numbers are summed changes the last digits.
                scores[system].append(round(max((s.score for s in spans if s.key == wanted), default=0.0), 9))
    return scores

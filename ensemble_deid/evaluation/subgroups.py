"""Whether PHI is hidden equally well in every part of the notes: by kind of note, site, case, name list, seen string.

Counted are gold annotations; one is hidden when no letter or digit of it leaks (`leaks.py`). Whether a group fares
worse than the rest is tested by a cluster-robust score test: each patient contributes by how much the group's recall in
their notes differs from the recall over all; the signs of these contributions are drawn at random (a wild bootstrap:
Cameron, Gelbach and Miller 2008, Rev Econ Stat 90:414), since the annotations of one patient are not independent.
P values are one-sided and adjusted for the number of all groups tested (Holm 1979).
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from ensemble_deid.arrays import Int64s
from ensemble_deid.evaluation.bootstrap import sign_flip_p, sum_by_group
from ensemble_deid.evaluation.compare import holm
from ensemble_deid.evaluation.evaluate import Estimate, Resampling, estimate_ratio
from ensemble_deid.evaluation.leaks import KIND_KEY, cover, leaking_places
from ensemble_deid.evaluation.pairs import Pair
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import category_of
from ensemble_deid.note.span import SpanKey

LEVEL = 0.05
"""A group is flagged where its adjusted p value is at most this."""
MIN_PATIENTS = 5
"""Groups of fewer patients are measured, but not tested: so few cannot show a difference beyond chance."""
_UPPER_SHARE, _LOWER_SHARE = 0.9, 0.01


@dataclass(frozen=True, slots=True)
class Subgroup:
    """The gold annotations of one group: how many, of how many patients, and the share that is hidden.

    `rest` is the recall of all other annotations. `p` and `holm_p` are None where nothing was tested (no rest, too few
    patients, or no resamples).
    """

    dimension: str
    name: str
    annotations: int
    patients: int
    recall: Estimate
    rest: float | None
    p: float | None = None
    holm_p: float | None = None

    @property
    def worse(self) -> bool:
        return self.holm_p is not None and self.holm_p <= LEVEL


@dataclass(frozen=True, slots=True)
class Subgroups:
    """All groups, by dimension, and for each dimension without groups a sentence that says why."""

    groups: tuple[Subgroup, ...]
    without: Mapping[str, str]


def seen_key(text: str) -> str:
    """Return a string as it is looked up among those of training: lower case, without white space."""
    return "".join(text.split()).lower()


def measure_subgroups(
    pairs: Sequence[Pair],
    *,
    resampling: Resampling,
    kind_key: str = KIND_KEY,
    seen: Set[str] | None = None,
    name_lists: Mapping[str, Set[str]] | None = None,
) -> Subgroups:
    """Measure recall in every group of the gold annotations of `pairs`.

    `seen` has the strings annotated in training, as `seen_key` gives them; `name_lists` maps a name's origin to the
    lower-case names of that origin. Without these the dimension is left out, and said to be.
    """
    dimensions, without = _dimensions(kind_key, seen, name_lists)
    documents = np.array([k for k, pair in enumerate(pairs) for _ in _keys(pair)], dtype=np.int64)
    covered = [cover(pair.system) for pair in pairs]
    leaks = [leaking_places(p.gold, by, key)[1] for p, by in zip(pairs, covered, strict=True) for key in _keys(p)]
    hidden = np.array([not places for places in leaks], dtype=np.int64)
    patients = tuple(pair.group for pair in pairs)
    groups: list[Subgroup] = []
    for dimension, (name_of, absent) in dimensions.items():
        names = [name_of(pair.gold, key) for pair in pairs for key in _keys(pair)]
        found = sorted({name for name in names if name is not None})
        if not found:
            without[dimension] = absent
        for name in found:
            member = np.array([other == name for other in names], dtype=np.int64)
            groups.append(
                _measure(dimension, name, member, hidden, documents=documents, patients=patients, resampling=resampling)
            )
    p_values = {f"{g.dimension}\t{g.name}": g.p for g in groups if g.p is not None}
    adjusted = holm(p_values)
    return Subgroups(
        tuple(replace(g, holm_p=adjusted.get(f"{g.dimension}\t{g.name}")) for g in groups),
        {dimension: without[dimension] for dimension in _ORDER if dimension in without},
    )


_KIND, _SITE, _NOTE_CASE, _CASE = "Kind of note", "Site", "Case of the note", "Case of the annotation"
_ORIGIN, _SEEN = "Names, by list", "String in the training notes"
_ORDER = (_KIND, _SITE, _NOTE_CASE, _CASE, _ORIGIN, _SEEN)
_Name = Callable[[Document, SpanKey], str | None]


def _dimensions(
    kind_key: str, seen: Set[str] | None, name_lists: Mapping[str, Set[str]] | None
) -> tuple[dict[str, tuple[_Name, str]], dict[str, str]]:
    """Return each dimension's way to name an annotation's group, with what is said where none has one; and those left
    out.
    """
    found: dict[str, tuple[_Name, str]] = {
        _KIND: (lambda note, key: note.metadata.get(kind_key), "No note tells its kind."),
        _SITE: (lambda note, key: note.site, "No note tells its site."),
        _NOTE_CASE: (lambda note, key: _note_case(note.text), "No note has letters."),
        _CASE: (lambda note, key: _case(note.text[key[0] : key[1]]), "No annotation has letters."),
    }
    without: dict[str, str] = {}
    if name_lists:
        lists = name_lists
        found[_ORIGIN] = (lambda note, key: _origin(note, key, lists), "No annotation has a label that is for names.")
    else:
        without[_ORIGIN] = "No lists of names by origin were given, so origins of names are not compared."
    if seen is not None:
        strings = seen
        found[_SEEN] = (
            lambda note, key: "seen" if seen_key(note.text[key[0] : key[1]]) in strings else "unseen",
            "There are no annotations.",
        )
    else:
        without[_SEEN] = "The system is not a model: strings seen in its training are unknown."
    return found, without


def _keys(pair: Pair) -> list[SpanKey]:
    return sorted({span.key for span in pair.gold.spans})


def _note_case(text: str) -> str | None:
    letters = sum(map(str.isalpha, text))
    if not letters:
        return None
    share = sum(map(str.isupper, text)) / letters
    return "upper" if share >= _UPPER_SHARE else "lower" if share <= _LOWER_SHARE else "mixed"


def _case(text: str) -> str | None:
    letters = "".join(filter(str.isalpha, text))
    if not letters:
        return None
    return "upper" if letters.isupper() else "lower" if letters.islower() else "mixed"


def _origin(note: Document, key: SpanKey, name_lists: Mapping[str, Set[str]]) -> str | None:
    """Return the list that has a word of the name, `on several lists` or `on no list`; None if it is no name."""
    if category_of(key[2]) != "NAME":
        return None
    words = {word.strip(".,;:'’\"()").lower() for word in note.text[key[0] : key[1]].split()}
    lists = [origin for origin in sorted(name_lists) if words & name_lists[origin]]
    return lists[0] if len(lists) == 1 else "on several lists" if lists else "on no list"


def _measure(
    dimension: str,
    name: str,
    member: Int64s,
    hidden: Int64s,
    documents: Int64s,
    patients: Sequence[str],
    resampling: Resampling,
) -> Subgroup:
    """Measure one group; `member` and `hidden` are 0 or 1 for each annotation, `documents` the index of its note."""
    # (documents, 4): hidden and all annotations of the group, then of everything.
    counts = np.zeros((len(patients), 4), dtype=np.int64)
    np.add.at(counts, documents, np.stack([member * hidden, member, hidden, np.ones_like(hidden)], axis=1))
    recall = estimate_ratio(counts[:, 0], counts[:, 1], patients, resampling)
    by_patient = sum_by_group(counts, patients)
    in_hidden, in_all, all_hidden, everything = by_patient.sum(axis=0).tolist()
    others = everything - in_all
    in_patients = int((by_patient[:, 1] > 0).sum())
    p = None
    if others and in_patients >= MIN_PATIENTS and resampling.resamples:
        pooled = all_hidden / everything
        surplus = by_patient[:, 0] - pooled * by_patient[:, 1]
        overall = by_patient[:, 2] - pooled * by_patient[:, 3]
        p = sign_flip_p(surplus - in_all / everything * overall, resamples=resampling.resamples, seed=resampling.seed)
    rest = (all_hidden - in_hidden) / others if others else None
    return Subgroup(dimension, name, annotations=in_all, patients=in_patients, recall=recall, rest=rest, p=p)

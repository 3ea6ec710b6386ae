"""Every error of a system with its kind, and which labels are confused with which.

`worst_notes` sorts notes by their errors, as Murugadoss et al. 2021 choose what to annotate next ("Model fine-tuning
details").
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from ensemble_deid.evaluation.bootstrap import Share
from ensemble_deid.evaluation.leaks import KIND_KEY
from ensemble_deid.evaluation.pairs import Pair, pair_documents
from ensemble_deid.evaluation.views import Place, label_tokens, tokens_of
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span, SpanKey

ErrorKind = Literal["missed", "spurious", "wrong label", "wrong boundary", "wrong label and boundary"]
ERROR_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)


@dataclass(frozen=True, slots=True)
class Error:
    """One error: `gold` is None where it is spurious, `system` where it is missed.

    `near` tells, of a missed annotation, whether the token before or after it is correctly tagged PHI.
    """

    document_id: str
    note_kind: str | None
    kind: ErrorKind
    gold: Span | None
    system: Span | None
    near: bool | None


@dataclass(frozen=True, slots=True)
class ErrorList:
    """All errors in the order of the documents and the text.

    `confusion` maps (gold label, system label) to a number of annotations, None standing for nothing on that side;
    right annotations are on its diagonal. `tokens_near` is Johnson et al. 2020, section 4.2: of the gold PHI tokens
    that no system annotation covers, those directly before or after a token whose label is right.
    """

    errors: tuple[Error, ...]
    confusion: Mapping[tuple[str | None, str | None], int]
    tokens_near: Share

    def of_kind(self, kind: ErrorKind) -> tuple[Error, ...]:
        return tuple(error for error in self.errors if error.kind == kind)


def list_errors(gold: Sequence[Document], system: Sequence[Document], *, kind_key: str = KIND_KEY) -> ErrorList:
    """List what is missed, spurious, or has the wrong label or the wrong boundary.

    After exact matches are set aside, annotations at one place are paired, then those that overlap: of the same
    label first, then by the characters shared. Each takes part in one pair at most; what is left is missed or
    spurious. Raises EvaluationError when the documents do not match.
    """
    errors: list[Error] = []
    confusion: Counter[tuple[str | None, str | None]] = Counter()
    pairs = pair_documents(gold, system)
    for pair in pairs:
        tokens = _Tokens.from_pair(pair)
        note_kind = pair.gold.metadata.get(kind_key)
        for one, other in _match_up(pair):
            confusion[_label_of(one), _label_of(other)] += 1
            kind = _kind_of(one, other)
            if kind is not None:
                near = tokens.near(one) if kind == "missed" and one is not None else None
                errors.append(Error(pair.id, note_kind, kind, gold=one, system=other, near=near))
    return ErrorList(tuple(errors), MappingProxyType(confusion), missed_beside_right(pairs))


def missed_beside_right(pairs: Sequence[Pair]) -> Share:
    """Return how many of the gold PHI tokens that nothing covers stand directly before or after a right token.

    A right token is PHI that the system gave gold's label (Johnson et al. 2020, section 4.2).
    """
    missed = near = 0
    for pair in pairs:
        tokens = _Tokens.from_pair(pair)
        missed += len(tokens.missed)
        near += sum(tokens.is_right(i - 1) or tokens.is_right(i + 1) for i in tokens.missed)
    return Share(near, missed)


@dataclass(frozen=True, slots=True)
class _Tokens:
    """The tokens of a note with their gold and system labels; `missed` are those that are PHI and not covered."""

    places: Sequence[Place]
    right: Sequence[bool]
    missed: Sequence[int]

    @classmethod
    def from_pair(cls, pair: Pair) -> "_Tokens":
        places = tokens_of(pair.gold.text)
        golds, systems = label_tokens(pair.gold, places), label_tokens(pair.system, places)
        right = [one is not None and one == other for one, other in zip(golds, systems, strict=True)]
        missed = [i for i in range(len(places)) if golds[i] is not None and systems[i] is None]
        return cls(places, right, missed)

    def is_right(self, index: int) -> bool:
        return 0 <= index < len(self.right) and self.right[index]

    def near(self, span: Span) -> bool:
        before = bisect_right(self.places, span.start, key=lambda place: place[1]) - 1
        after = bisect_left(self.places, span.end, key=lambda place: place[0])
        return self.is_right(before) or self.is_right(after)


def _match_up(pair: Pair) -> list[tuple[Span | None, Span | None]]:
    golds, systems = _distinct(pair.gold), _distinct(pair.system)
    matched: list[tuple[Span | None, Span | None]] = [(golds[k], systems[k]) for k in golds.keys() & systems.keys()]
    left = {key: span for key, span in golds.items() if key not in systems}
    right = {key: span for key, span in systems.items() if key not in golds}
    for _, one, other in sorted(
        (_closeness(a, b), a.key, b.key) for a in left.values() for b in right.values() if a.overlaps(b)
    ):
        if one in left and other in right:
            matched.append((left.pop(one), right.pop(other)))
    matched += [(span, None) for span in left.values()]
    matched += [(None, span) for span in right.values()]
    # Where one side has no annotation, the other is used for both.
    return sorted(matched, key=lambda both: [s.key for s in (both[0] or both[1], both[1] or both[0]) if s is not None])


def _distinct(document: Document) -> dict[SpanKey, Span]:
    return {span.key: span for span in sorted(document.spans, key=lambda s: (s.score, s.source))}


def _closeness(a: Span, b: Span) -> tuple[bool, bool, int]:
    """Sort the closest pair first: same offsets, then same label, then most characters shared."""
    same_place = (a.start, a.end) == (b.start, b.end)
    return (not same_place, a.label != b.label, max(a.start, b.start) - min(a.end, b.end))


def _label_of(span: Span | None) -> str | None:
    return None if span is None else span.label


def _kind_of(gold: Span | None, system: Span | None) -> ErrorKind | None:
    if gold is None:
        return "spurious"
    if system is None:
        return "missed"
    same_place = (gold.start, gold.end) == (system.start, system.end)
    if gold.label == system.label:
        return None if same_place else "wrong boundary"
    return "wrong label" if same_place else "wrong label and boundary"


@dataclass(frozen=True, slots=True)
class NoteErrors:
    """The errors of one note: how many of each kind, and how many annotations it has in gold."""

    id: str
    site: str | None
    annotations: int
    kinds: Mapping[ErrorKind, int]

    @property
    def errors(self) -> int:
        return sum(self.kinds.values())

    @property
    def missed(self) -> int:
        """Annotations that nothing found overlaps."""
        return self.kinds.get("missed", 0)


def worst_notes(gold: Sequence[Document], system: Sequence[Document]) -> tuple[NoteErrors, ...]:
    """Return the notes with errors: most errors first, then most missed, then by id.

    Raises EvaluationError when the documents do not match.
    """
    kinds: defaultdict[str, Counter[ErrorKind]] = defaultdict(Counter)
    for error in list_errors(gold, system).errors:
        kinds[error.document_id][error.kind] += 1
    found = [NoteErrors(note.id, note.site, len(note.spans), kinds[note.id]) for note in gold if note.id in kinds]
    return tuple(sorted(found, key=lambda note: (-note.errors, -note.missed, note.id)))

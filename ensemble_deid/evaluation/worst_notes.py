"""The notes of a corpus in which a system makes most errors, for people to look at and to correct.

Murugadoss et al. 2021 choose what to annotate next from the errors of the model before ("Model fine-tuning details").
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ensemble_deid.evaluation.error_list import ErrorKind, list_errors
from ensemble_deid.note.document import Document


@dataclass(frozen=True, slots=True)
class NoteErrors:
    """The errors of one note: how many of each kind, and how many annotations it has in gold."""

    id: str
    site: str | None
    annotations: int
    kinds: Mapping[ErrorKind, int]

    @property
    def errors(self) -> int:
        """All errors of the note."""
        return sum(self.kinds.values())

    @property
    def missed(self) -> int:
        """Annotations that nothing found overlaps."""
        return self.kinds.get("missed", 0)


def worst_notes(gold: Sequence[Document], system: Sequence[Document]) -> tuple[NoteErrors, ...]:
    """Return the notes with errors, most errors first, of equals the one with more missed, then by id.

    Raises EvaluationError when the documents do not match.
    """
    kinds: defaultdict[str, Counter[ErrorKind]] = defaultdict(Counter)
    for error in list_errors(gold, system).errors:
        kinds[error.document_id][error.kind] += 1
    found = [NoteErrors(note.id, note.site, len(note.spans), kinds[note.id]) for note in gold if note.id in kinds]
    return tuple(sorted(found, key=lambda note: (-note.errors, -note.missed, note.id)))

"""Which notes and patients a model was trained on, so that nothing is chosen or measured on them unnoticed.

A model holds digests only. They are salted, so that tables computed for all models at once are of no use; whoever
already has a note or a patient's id can still find out that it was among the training notes, and ids can be guessed one
after the other. So exported and shareable models have digests of public notes at most, and none of patients.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ensemble_deid.errors import CorpusError, ModelError
from ensemble_deid.keys import salted_digest
from ensemble_deid.note.document import Document

_DIGITS = 16
_KEYS = ("salt", "notes", "patients", "dev")


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many of `total_notes` notes, and of the patients whom they name, were seen before."""

    notes: int
    total_notes: int
    patients: int
    total_patients: int

    def __bool__(self) -> bool:
        return bool(self.notes or self.patients)

    def __str__(self) -> str:
        notes = f"{self.notes} of {self.total_notes} notes"
        return f"{notes} and {self.patients} of {self.total_patients} patients" if self.total_patients else notes


@dataclass(frozen=True, slots=True)
class SeenNotes:
    """Digests of training notes' texts (whatever their white space) and patients' ids, and of dev notes' texts.

    Blank notes, and patients of notes that name none, are left out.
    """

    salt: str
    notes: frozenset[str]
    patients: frozenset[str]
    dev: frozenset[str] = frozenset()

    @classmethod
    def of(cls, documents: Iterable[Document], *, seed: int) -> "SeenNotes":
        """Take the digests of notes; the salt comes from the seed, so that the same training gives the same files."""
        salt = hashlib.sha256(f"{seed}:salt of seen notes".encode()).hexdigest()[:_DIGITS]
        notes, patients = _digests(documents, salt)
        return cls(salt, frozenset(notes) - {""}, frozenset(patients))

    def and_also(self, documents: Iterable[Document], *, seed: int) -> "SeenNotes":
        """Return these digests with those of further notes; all have the same salt."""
        if not self.salt:
            return SeenNotes.of(documents, seed=seed)
        notes, patients = _digests(documents, self.salt)
        return replace(self, notes=self.notes | (frozenset(notes) - {""}), patients=self.patients | patients)

    def with_dev(self, documents: Iterable[Document]) -> "SeenNotes":
        return replace(self, dev=self.dev | (frozenset(_digests(documents, self.salt)[0]) - {""}))

    def dev_notes(self, documents: Iterable[Document]) -> int:
        return sum(note in self.dev for note in _digests(documents, self.salt)[0])

    def overlap(self, documents: Sequence[Document]) -> Overlap:
        """Count the notes, and the patients, that are among those seen; no patients where none are known."""
        notes, patients = _digests(documents, self.salt)
        seen = sum(note in self.notes for note in notes)
        return Overlap(seen, len(notes), len(patients & self.patients), len(patients) if self.patients else 0)

    def refuse(self, documents: Sequence[Document], *, used_for: str) -> None:
        """Raise CorpusError where any of the notes or patients were seen; `used_for` says what they were meant for."""
        overlap = self.overlap(documents)
        if overlap:
            raise CorpusError(
                f"{overlap} {used_for} are among the training notes; what is chosen or measured on notes that were "
                "learned from does not hold for others. Use other notes, or --allow-overlap if this is meant (two "
                "corpora may also number different patients alike)"
            )

    def to_record(self) -> dict[str, str]:
        """Return the digests as JSON-ready data, a line for each kind."""
        lists = {name: " ".join(sorted(getattr(self, name))) for name in _KEYS[1:]}
        return {"salt": self.salt, **lists}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "SeenNotes":
        """Read back what `to_record` gave. Raises ModelError.

        Of an exported or shareable model, whose record is empty, no note is known.
        """
        if not record:
            return cls("", frozenset(), frozenset())
        # Models trained before dev notes were kept lack these.
        record = {"dev": "", **record}
        if set(record) != set(_KEYS) or not all(isinstance(record[key], str) for key in _KEYS):
            raise ModelError("damaged: the digests of the training notes are incomplete")
        return cls(record["salt"], *(frozenset(record[name].split()) for name in _KEYS[1:]))


def overlap_choice(used_for: str, overlap: Overlap) -> dict[str, Any]:
    """Return the entry of a manifest's `choices` for an overlap that was allowed; none where there is no overlap."""
    return {f"overlap_of_{used_for}": str(overlap)} if overlap else {}


def _digests(documents: Iterable[Document], salt: str) -> tuple[list[str], set[str]]:
    """Return the digest of each note in order, "" for a blank one, and those of the patients named."""
    notes: list[str] = []
    patients: set[str] = set()
    for document in documents:
        # Formats differ in the white space that they keep; a note is the same in each.
        words = " ".join(document.text.split())
        notes.append(salted_digest(salt, "note", words) if words else "")
        if document.patient_id is not None:
            patients.add(salted_digest(salt, "patient", document.patient_id))
    return notes, patients

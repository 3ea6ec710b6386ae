"""Enlarge a corpus with copies of its notes whose form is changed: layout, case, typing errors; gold offsets follow.

What is learned at one site holds at another only as far as it does not depend on the first site's form. Each change
takes something of that form away, or exchanges it for another site's. Meant for training only; whether a change helps
is to be decided on notes of other sites (`benchmarks/augmentation.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ensemble_deid.corpora import form
from ensemble_deid.corpora.edits import apply_edits
from ensemble_deid.errors import ConfigError
from ensemble_deid.seeding import generator
from ensemble_deid.text.document import Document


@dataclass(frozen=True, slots=True)
class Donors:
    """The notes of other sites than that of the note at hand, from which headers and formats are taken."""

    notes: Sequence[Document]

    def draw(self, note: Document, rng: np.random.Generator) -> Document | None:
        """Return a note of another site, None if there is none; unknown sites count as the patient's own."""
        others = [other for other in self.notes if (other.site or other.patient) != (note.site or note.patient)]
        return others[int(rng.integers(len(others)))] if others else None


def _headers(note: Document, donors: Donors, rng: np.random.Generator) -> Document:
    donor = donors.draw(note, rng)
    return note if donor is None else form.exchange_header(note, donor)


def _formats(note: Document, donors: Donors, rng: np.random.Generator) -> Document:
    shapes = form.number_formats(donors.notes, other_than=note)
    return apply_edits(note, form.reformatted(note, shapes, rng))


CHANGES: Mapping[str, Callable[[Document, Donors, np.random.Generator], Document]] = {
    "headers": _headers,
    "formats": _formats,
    "labels": lambda note, donors, rng: apply_edits(note, form.dropped_labels(note, rng)),
    "sentences": lambda note, donors, rng: apply_edits(note, form.dropped_sentences(note, rng)),
    "wrap": lambda note, donors, rng: apply_edits(note, form.rewrapped(note, rng)),
    "noise": lambda note, donors, rng: apply_edits(note, form.typing_errors(note, rng)),
    "case": lambda note, donors, rng: form.folded_case(note, rng),
}
"""The changes by name, in the order in which several of them are made."""


def augment_corpus(documents: Sequence[Document], *, changes: Sequence[str], copies: int, seed: int) -> list[Document]:
    """Return `copies` copies of the notes with all named changes made, copy by copy, without the originals.

    Copy c of note `101-01` is called `101-01-a<c>` and belongs to the same patient and site, so that folds keep them
    together. The result depends only on the notes, the changes and the seed. Raises ConfigError for an unknown change,
    none at all, or fewer than one copy.
    """
    unknown = sorted(set(changes) - set(CHANGES))
    if unknown or not changes:
        raise ConfigError(
            f"changes of the form must be some of {', '.join(CHANGES)}, not {', '.join(unknown) or 'none'}"
        )
    if copies < 1:
        raise ConfigError(f"copies must be at least 1, not {copies}")
    donors = Donors(documents)
    return [_copy(note, donors, changes, copy, seed=seed) for copy in range(1, copies + 1) for note in documents]


def _copy(note: Document, donors: Donors, changes: Sequence[str], copy: int, *, seed: int) -> Document:
    changed = note
    for name, change in CHANGES.items():
        if name in changes:
            changed = change(changed, donors, generator(seed, f"augment {name} {copy} {note.id}"))
    return replace(
        changed,
        id=f"{note.id}-a{copy}",
        patient_id=note.patient,
        metadata={**note.metadata, "copy": str(copy), "changes": ", ".join(n for n in CHANGES if n in changes)},
    )

"""Replacing PHI in notes that are all in memory, where what one note of a patient tells is known for the others."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from ensemble_deid.deidentify.known.site_lists import SiteLists
from ensemble_deid.deidentify.notes import Note
from ensemble_deid.deidentify.patient_strings import PatientStrings
from ensemble_deid.deidentify.replaced import replaced
from ensemble_deid.deidentify.replacement import Replacement, Replacer
from ensemble_deid.errors import DeidError
from ensemble_deid.note.document import Document


def strings_of(notes: Sequence[Note], replacer: Replacer, lists: SiteLists | None = None) -> PatientStrings:
    """Return what the notes, whose spans a model has found, tell of their patients."""
    strings = PatientStrings.of_run(replacer)
    for note in notes:
        if isinstance(note, Document):
            strings.add((lists or SiteLists()).apply(note, hides=replacer.styles.hides))
    return strings


def replaced_together(
    notes: Sequence[Note],
    replacer: Replacer,
    lists: SiteLists | None = None,
    *,
    strings: PatientStrings | None = None,
    taken: Sequence[Collection[str]] | None = None,
    counts: Counter[str] | None = None,
) -> Iterator[Replacement | DeidError]:
    """Yield what becomes of each note, whose spans a model has found, or why it is withheld.

    `strings` are those of the notes, where they are known already; `taken` has for each note what else is known of its
    patient, as in `Replacer.replace`. `counts` counts what the lists did, and what is left, up to the note that was
    yielded last.
    """
    lists = lists or SiteLists()
    count: Counter[str] = Counter() if counts is None else counts
    strings = strings_of(notes, replacer, lists) if strings is None else strings
    for number, note in enumerate(notes):
        if isinstance(note, DeidError):
            yield note
        else:
            known = strings.of(note)
            if taken is not None:
                known = known.and_taken(frozenset(taken[number]))
            listed = lists.apply(known.search(note), count, hides=replacer.styles.hides, by_model=note.spans)
            yield replaced(listed, replacer, lists, taken=known.taken, counts=count)

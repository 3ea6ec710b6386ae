"""Replacing PHI in notes that are all in memory, where what one note of a patient tells is known for the others."""

from collections.abc import Iterator, Sequence

from ensemble_deid.errors import CorpusError, DeidError
from ensemble_deid.pipeline.batch.patient_strings import PatientStrings
from ensemble_deid.pipeline.known.site_lists import LEFT, SiteLists
from ensemble_deid.pipeline.notes import Note
from ensemble_deid.pipeline.replacement import Replacement, Replacer
from ensemble_deid.text.document import Document


def replaced_together(
    notes: Sequence[Note], replacer: Replacer, lists: SiteLists | None = None
) -> Iterator[Replacement | DeidError]:
    """Yield what becomes of each note, whose spans a model has found, or why it is withheld."""
    lists = lists or SiteLists()
    strings = PatientStrings(replacer.normalise)
    for note in notes:
        if isinstance(note, Document):
            strings.add(lists.apply(note))
    for note in notes:
        if isinstance(note, DeidError):
            yield note
            continue
        known = strings.of(note)
        try:
            taken = known.taken | lists.taken(note.patient_id)
            replacement = replacer.replace(lists.apply(known.search(note)), taken=taken)
        except DeidError as error:
            yield error
        except ValueError as error:
            # The message is left out, since it might quote the note.
            yield CorpusError(f"{note.id}: replacing failed ({type(error).__name__})")
        else:
            left = lists.left(note, replacement, replacer)[LEFT] if lists.strict else 0
            problem = f"{note.id}: known identifiers are left in the output: {left}"
            yield CorpusError(problem) if left else replacement

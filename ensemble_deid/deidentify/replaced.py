"""The last step of every way to a note without PHI: replacing its spans, and looking for what the site knows."""

import hashlib
from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from ensemble_deid.deidentify.known.site_lists import LEFT, SiteLists
from ensemble_deid.deidentify.replacement import Replacement, Replacer
from ensemble_deid.errors import CorpusError, DeidError
from ensemble_deid.note.document import Document


def patient_of(patient: str | None, text: str) -> str:
    """Return the patient on whom the surrogates of a note depend.

    A note of nobody is a patient of its own, named by its text and not by its place: the same text has the same
    surrogates wherever it comes.
    """
    if patient is not None:
        return patient
    return f"sha256 {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def remark_on(left: int) -> str | None:
    """Return what is said beside a note in which so many known identifiers are left."""
    return f"{left} {LEFT}" if left else None


def replaced(
    note: Document,
    replacer: Replacer,
    lists: SiteLists,
    *,
    taken: Collection[str] = (),
    counts: Counter[str] | None = None,
) -> Replacement | DeidError:
    """Return the note with its spans replaced, to which `lists` are applied already, or why it is withheld.

    `taken` as in `Replacer.replace`; what the lists know of the patient is added, and the note's own PHI where nothing
    else of its patient, or no patient, is known. `counts` counts the known identifiers that are left, for which strict
    lists withhold the note: every way to a note has one that its caller can see.
    """
    known = lists.taken(note.patient_id).union(taken)
    if known and (note.patient_id is None or not taken):
        known |= {replacer.normalise(note.text[span.start : span.end]) for span in note.spans}
    try:
        owned = replace(note, patient_id=patient_of(note.patient_id, note.text))
        replacement = replacer.replace(owned, taken=known)
    except DeidError as error:
        return CorpusError(f"{note.id}: replacement failed: {error}")
    except ValueError as error:
        # The message is left out, since it might quote the note.
        return CorpusError(f"{note.id}: replacement failed ({type(error).__name__})")
    left = lists.left(note, replacement, replacer)
    if counts is not None:
        counts.update(left)
    if lists.strict and left[LEFT]:
        return CorpusError(f"{note.id}: known identifiers are left in the output: {left[LEFT]}")
    return replacement

"""The last step of every way to a note without PHI: replacing its spans, and looking for what the site knows."""

from collections import Counter
from collections.abc import Collection

from ensemble_deid.errors import CorpusError, DeidError
from ensemble_deid.pipeline.known.site_lists import LEFT, SiteLists
from ensemble_deid.pipeline.replacement import Replacement, Replacer
from ensemble_deid.text.document import Document


def replaced(
    note: Document,
    replacer: Replacer,
    lists: SiteLists,
    *,
    taken: Collection[str] = (),
    counts: Counter[str] | None = None,
) -> Replacement | DeidError:
    """Return the note with its spans replaced, to which `lists` are applied already, or why it is withheld.

    `taken` as in `Replacer.replace`; what the lists know of the patient is added, where it is empty together with the
    note's own PHI. `counts` counts the known identifiers that are left, for which strict lists withhold the note.
    """
    listed = lists.taken(note.patient_id)
    if listed and not taken:
        taken = {replacer.normalise(note.text[span.start : span.end]) for span in note.spans}
    try:
        replacement = replacer.replace(note, taken=listed.union(taken))
    except DeidError as error:
        return CorpusError(f"{note.id}: replacement failed: {error}")
    except ValueError as error:
        # The message is left out, since it might quote the note.
        return CorpusError(f"{note.id}: replacement failed ({type(error).__name__})")
    if counts is None and not lists.strict:
        return replacement
    left = lists.left(note, replacement, replacer)
    if counts is not None:
        counts.update(left)
    if lists.strict and left[LEFT]:
        return CorpusError(f"{note.id}: known identifiers are left in the output: {left[LEFT]}")
    return replacement

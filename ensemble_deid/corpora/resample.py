"""Enlarge a corpus with copies of its notes in which every PHI is replaced by a surrogate; gold offsets are adjusted.

Within a patient and copy the surrogates are consistent: a person has the same name in full, in part and as initials;
all dates are shifted by the same number of days; a number has one replacement however it is punctuated. No span keeps
its string. Meant for training only; whether it helps is to be decided on the development notes.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from ensemble_deid.errors import ConfigError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.surrogates.dates import is_day_first
from ensemble_deid.surrogates.patient import Origins, PatientSurrogates, kind_of, origins_of, values_by_label


def resample_corpus(
    documents: Sequence[Document], *, copies: int, seed: int, origins: Origins | None = None
) -> list[Document]:
    """Return `copies` resampled copies of the notes, copy by copy in the order given, without the originals.

    Copy c of note `101-01` is called `101-01-c<c>` and belongs to the same patient, so that folds keep them together.
    Without `origins`, a corpus with MEDDOCAN labels is taken to be Spanish, any other English. Overlapping spans are
    replaced as one, with the label of the longest. Values without a format of their own (the type OTHER, an age without
    a number) are replaced by another value of the same label from the corpus. The result depends only on the notes, the
    seed and the version of Faker. Raises ConfigError if `copies` is below one or Faker is missing.
    """
    if copies < 1:
        raise ConfigError(f"copies must be at least 1, not {copies}")
    notes = [document.with_spans(_merged(document.spans)) for document in documents]
    chosen = origins or origins_of(notes)
    day_first = is_day_first(
        note.text[span.start : span.end] for note in notes for span in note.spans if kind_of(span.label) == "DATE"
    )
    shared = values_by_label(notes)
    order = {id(note): index for index, note in enumerate(notes)}
    by_patient = sorted(notes, key=lambda note: (note.group, order[id(note)]))
    result: list[Document] = []
    for copy in range(1, copies + 1):
        fresh: dict[int, Document] = {}
        for patient, group in groupby(by_patient, key=lambda note: note.group):
            own = list(group)
            values = PatientSurrogates(
                own, chosen, shared, f"resample {patient} {copy}", seed=seed, day_first=day_first
            )
            for note in own:
                fresh[order[id(note)]] = _copy(values.rewrite(note), patient, copy)
        result += [fresh[index] for index in range(len(notes))]
    return result


def _copy(note: Document, patient: str, copy: int) -> Document:
    metadata = {**note.metadata, "copy": str(copy)}
    return replace(note, id=f"{note.id}-c{copy}", patient_id=patient, metadata=metadata)


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Return the spans with each run of overlapping ones merged into one."""
    merged: list[Span] = []
    longest: list[Span] = []
    for span in sorted(spans):
        if merged and span.start < merged[-1].end:
            longest[-1] = max(longest[-1], span, key=lambda s: s.end - s.start)
            end = max(merged[-1].end, span.end)
            merged[-1] = replace(merged[-1], end=end, label=longest[-1].label)
        else:
            merged.append(span)
            longest.append(span)
    return merged

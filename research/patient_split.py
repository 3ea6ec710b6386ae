"""Dividing a corpus by patient: a part to learn from, and a part to score."""

from collections.abc import Sequence

from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.seeds import generator


def split_by_patient(
    documents: Sequence[Document], *, test_share: float, seed: int, name: str
) -> tuple[list[Document], list[Document]]:
    """Return the notes of about `1 - test_share` of the patients, then those of the others, drawn by the seed.

    Two patients at least are on the first side and one is on the second. Raises ConfigError for a share that leaves
    nothing on one side, CorpusError where there are fewer than three patients.
    """
    if not 0 < test_share < 1:
        raise ConfigError(f"--test-share lies between 0 and 1, not {test_share:g}")
    patients = sorted({document.patient for document in documents})
    if len(patients) < 3:
        raise CorpusError(f"{name}: notes of {len(patients)} patients cannot be divided; give notes to score apart")
    size = min(max(1, round(len(patients) * test_share)), len(patients) - 2)
    order = generator(seed, "patient split").permutation(len(patients)).tolist()
    held_out = {patients[k] for k in order[:size]}
    return (
        [document for document in documents if document.patient not in held_out],
        [document for document in documents if document.patient in held_out],
    )

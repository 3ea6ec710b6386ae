"""What recall was measured at the threshold that notes are processed with: whoever hands them out should know."""

from collections.abc import Sequence

from ensemble_deid.model.changes import listed
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.model.measured import Measured, measured_at
from ensemble_deid.note.digits import four_digits


def measured_recall(manifest: Manifest, threshold: float, *, submodels: Sequence[str]) -> str:
    """Return one sentence about recall at the threshold in use, with the submodels in use.

    What was measured before the model was changed is said to be so. Raises ModelError where the curve is damaged.
    """
    measured = measured_at(manifest, threshold, submodels=submodels)
    if measured is None:
        whole = set(submodels) == set(manifest.config.get("submodels", ()))
        return (
            f"no recall was measured at the threshold {four_digits(threshold)}"
            f"{'' if whole else ' with these submodels'}: measure it on annotated notes of your own "
            "(ensemble-deid evaluate)"
        )
    recall, changes = measured.recall, measured.changes
    shares = "an undefined share" if recall is None else f"{100 * recall:.1f}%"
    found = f"at its threshold ({four_digits(threshold)}) the model found {shares} of the PHI tokens in "
    found += f"{measured.notes}{_wrong(measured)}"
    again = "measure it again on annotated notes (ensemble-deid evaluate)"
    if changes is None:
        return f"{found}; it is not on record whether the model was changed since: {again}"
    if changes:
        return f"{found}; this was measured before the model's {listed(changes)} changed: {again}"
    return f"{found}; in your notes it may miss more"


def _wrong(measured: Measured) -> str:
    if measured.false_positives is None:
        return ""
    least = "" if measured.exact else "at least "
    rest = "" if measured.exact else " (the model has no record of how many more below its stored curve)"
    return f", with {least}{measured.false_positives:.1f} false positives in 1000 tokens{rest}"

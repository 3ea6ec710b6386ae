"""The curve that training leaves in a model: what it found in its training notes, out of fold, at every threshold.

The notes of a patient, or of a site where folds are by site, were scored by submodels and a final estimator that saw
none of them. So a threshold can be chosen, and its recall be told, without annotated notes of one's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ensemble_deid.errors import ModelError
from ensemble_deid.evaluation.curve import Curve
from ensemble_deid.evaluation.curve_record import StoredCurve, curve_from_record, curve_to_record
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.pipeline.manifest import Manifest
from ensemble_deid.text.document import Document

CURVES = "out_of_fold_curves"
"""The figure of the manifest that has a curve for every final estimator."""


@dataclass(frozen=True, slots=True)
class OutOfFold:
    """A model's curve of PHI tokens, and in words which notes it was measured on."""

    curve: StoredCurve
    notes: str


def curves_record(curves: Mapping[tuple[str, ...], Curve], documents: Sequence[Document]) -> dict[str, Any]:
    """Return what a manifest keeps: the curves by their submodels, on how many notes, what the folds kept together."""
    by_site = any(document.group != document.patient for document in documents)
    return {
        "notes": len(documents),
        "groups": len({document.group for document in documents}),
        "held_out": "site" if by_site else "patient",
        "curves": {",".join(names): curve_to_record(curve) for names, curve in curves.items()},
    }


def out_of_fold(manifest: Manifest, submodels: Sequence[str]) -> OutOfFold | None:
    """Return the curve of the final estimator of some submodels, None where training left none.

    Raises ModelError where the record is damaged.
    """
    record = manifest.figures.get(CURVES)
    if record is None:
        return None
    try:
        found = record["curves"].get(",".join(submodels))
        notes, groups, held_out = record["notes"], record["groups"], str(record["held_out"])
        if found is None:
            return None
        text = f"its {notes:,} training notes of {groups:,} {held_out}s, out of fold"
        return OutOfFold(curve_from_record(found), text)
    except (EvaluationError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"the model's figure {CURVES} is damaged ({type(error).__name__})") from None

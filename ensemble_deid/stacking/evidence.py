"""The out-of-fold candidates with all that the judge learns from; kept with the model, so ablations need no notes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ensemble_deid.errors import ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.stacking.candidates import CandidateTable, collect
from ensemble_deid.stacking.surroundings import KINDS, Surroundings, look_around
from ensemble_deid.taggers.base import Proposals

ARRAYS, KEYS = "out_of_fold.safetensors", "out_of_fold.json"


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Candidates, their surroundings, which are right, and how many spans are annotated in all."""

    table: CandidateTable
    around: Surroundings = field(repr=False)
    right: NDArray[np.bool_]
    n_gold: int

    def __len__(self) -> int:
        return len(self.table)

    def without(self, submodels: Sequence[str], *, min_confidence: float) -> "Evidence":
        """Return what would have been seen without some submodels: only candidates that another one proposed."""
        kept = [k for k, name in enumerate(self.table.submodels) if name not in submodels]
        confidence, chosen = self.table.confidence[:, kept], self.table.chosen[:, kept]
        names = tuple(self.table.submodels[k] for k in kept)
        base = self.table
        narrowed = CandidateTable(
            base.labels, names, base.document, base.start, base.end, base.label, confidence, chosen
        )
        believed = confidence.max(axis=1, initial=0.0)
        rows = np.flatnonzero(chosen.any(axis=1) | ((believed >= min_confidence) & (believed > 0)))
        return Evidence(narrowed.select(rows), self.around.select(rows), self.right[rows], self.n_gold)

    def save(self, directory: Path) -> None:
        """Write arrays as safetensors and strings as JSON."""
        table = self.table
        arrays = {
            "document": table.document,
            "start": table.start,
            "end": table.end,
            "label": table.label,
            "confidence": table.confidence,
            "chosen": table.chosen,
            "form": self.around.form,
            "elsewhere": self.around.elsewhere,
            "right": self.right,
        }
        (directory / ARRAYS).write_bytes(save({name: np.ascontiguousarray(a) for name, a in arrays.items()}))
        content = {
            "labels": table.labels,
            "submodels": table.submodels,
            "n_gold": self.n_gold,
            "groups": self.around.groups,
            "keys": self.around.keys,
        }
        (directory / KEYS).write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> "Evidence":
        """Read what `save` wrote. Raises ModelError."""
        try:
            arrays = load((directory / ARRAYS).read_bytes())
            content = json.loads((directory / KEYS).read_text(encoding="utf-8"))
            table = CandidateTable(
                tuple(content["labels"]),
                tuple(content["submodels"]),
                arrays["document"],
                arrays["start"],
                arrays["end"],
                arrays["label"],
                arrays["confidence"],
                arrays["chosen"],
            )
            keys = {kind: list(content["keys"][kind]) for kind in KINDS}
            around = Surroundings(arrays["form"], keys, arrays["elsewhere"], list(content["groups"]))
            return cls(table, around, arrays["right"], int(content["n_gold"]))
        except (SafetensorError, KeyError, ValueError, TypeError, OverflowError) as error:
            raise ModelError(f"{directory / ARRAYS}: damaged ({type(error).__name__})") from None


def gather(
    proposals: Mapping[str, Proposals], batch: Batch, *, labels: tuple[str, ...], min_confidence: float
) -> Evidence:
    """Collect the candidates that out-of-fold proposals make on annotated documents."""
    table = collect(proposals, labels=labels, min_confidence=min_confidence)
    gold = [document.spans for document in batch.documents]
    n_gold = sum(len({span.key for span in spans}) for spans in gold)
    return Evidence(table, look_around(table, batch), table.is_gold(gold), n_gold)

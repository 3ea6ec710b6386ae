"""The stacker's training set (level-1 data; Wolpert 1992): out-of-fold candidates, their context and their targets.

It is saved among the model's private files, so that an ablation can refit the final estimator without the training
notes; nothing else reads it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ensemble_deid.arrays import Flags, Int64s
from ensemble_deid.errors import ModelError
from ensemble_deid.features.batch import Batch, training_view
from ensemble_deid.parsing import strict_json
from ensemble_deid.stacking.candidates import COLUMNS, CandidateTable, NamedColumns
from ensemble_deid.stacking.context import KINDS, CandidateContext, extract_candidates
from ensemble_deid.stacking.net import alone
from ensemble_deid.taggers.base import Proposals

_CONTEXT, _TARGETS = ("form", "string", "elsewhere"), ("correct", "phi")
FILES = ARRAYS, KEYS = "stacking_dataset.safetensors", "stacking_dataset.json"


@dataclass(frozen=True, slots=True, eq=False)
class StackingDataset:
    """Out-of-fold candidates, one a row, with what the final estimator learns from.

    `correct` bool (n,) is the target: whether a candidate is an annotated span. `phi` bool (n,) tells whether its text
    is PHI, whatever its borders and label. `n_gold` counts all annotated spans, including those that no submodel
    proposed. `unseen` are labels that the notes never have (a model that starts from another one keeps its labels):
    nothing can be learned about their candidates, which are here as rivals of others.
    """

    table: CandidateTable
    context: CandidateContext = field(repr=False)
    correct: Flags
    phi: Flags
    n_gold: int
    unseen: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.table)

    def select(self, rows: Int64s) -> "StackingDataset":
        """Return the dataset of some of the rows, by index; `n_gold` stays that of all notes."""
        return replace(
            self,
            table=self.table.select(rows),
            context=self.context.select(rows),
            correct=self.correct[rows],
            phi=self.phi[rows],
        )

    def without(self, submodels: Sequence[str], *, min_confidence: float) -> "StackingDataset":
        """Return the dataset as if some submodels had not taken part: their columns and sole candidates are dropped.

        Only the net's choice of candidates stays as it was, with what these submodels thought of single tokens.
        """
        kept = [k for k, name in enumerate(self.table.submodels) if name not in submodels]
        confidence, chosen = self.table.confidence[:, kept], self.table.chosen[:, kept]
        names = tuple(self.table.submodels[k] for k in kept)
        narrowed = replace(self.table, submodels=names, confidence=confidence, chosen=chosen)
        highest = confidence.max(axis=1, initial=0.0)
        proposed = chosen.any(axis=1) | ((highest >= min_confidence) & (highest > 0))
        rows = np.flatnonzero(proposed | alone(self.context.more))
        context = replace(self.context, more=self.context.more.without_submodels(submodels)).select(rows)
        whole = replace(self, table=narrowed.select(rows), context=context, correct=self.correct[rows])
        return replace(whole, phi=self.phi[rows])

    def save(self, directory: Path) -> None:
        table = self.table
        arrays = {
            **{name: getattr(table, name) for name in COLUMNS},
            **{name: getattr(self.context, name) for name in _CONTEXT},
            "more": self.context.more.values,
            **{name: getattr(self, name) for name in _TARGETS},
        }
        (directory / ARRAYS).write_bytes(save({name: np.ascontiguousarray(a) for name, a in arrays.items()}))
        content = {
            "labels": table.labels,
            "submodels": table.submodels,
            "n_gold": self.n_gold,
            "unseen": self.unseen,
            "groups": self.context.groups,
            "patients": self.context.patients,
            "more": self.context.more.names,
            "keys": self.context.keys,
        }
        (directory / KEYS).write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> "StackingDataset":
        """Read what `save` wrote. Raises ModelError where it is damaged."""
        try:
            arrays = load((directory / ARRAYS).read_bytes())
            content = strict_json((directory / KEYS).read_text(encoding="utf-8"))
            columns = {name: arrays[name] for name in COLUMNS}
            table = CandidateTable(tuple(content["labels"]), tuple(content["submodels"]), **columns)
            context = CandidateContext(
                **{name: arrays[name] for name in _CONTEXT},
                keys={kind: list(content["keys"][kind]) for kind in KINDS},
                groups=list(content["groups"]),
                patients=list(content["patients"]),
                more=NamedColumns(tuple(content["more"]), arrays["more"]),
            )
            targets = {name: arrays[name] for name in _TARGETS}
            unseen = tuple(content.get("unseen", ()))
            return cls(table, context, **targets, n_gold=int(content["n_gold"]), unseen=unseen)
        except (SafetensorError, KeyError, ValueError, TypeError, OverflowError) as error:
            raise ModelError(f"{directory / ARRAYS}: damaged ({type(error).__name__})") from None


def build_stacking_dataset(
    proposals: Mapping[str, Proposals],
    batch: Batch,
    *,
    labels: tuple[str, ...],
    min_confidence: float,
    net: bool = False,
    mentions: bool = False,
    density: bool = False,
    tables: bool = False,
    unseen: tuple[str, ...] = (),
) -> StackingDataset:
    """Build the training set from the submodels' out-of-fold proposals for annotated documents.

    Candidates with the labels `unseen` are not to be learned from.
    """
    table, context = extract_candidates(
        proposals,
        batch,
        labels=labels,
        min_confidence=min_confidence,
        net=net,
        mentions=mentions,
        density=density,
        tables=tables,
        lists=training_view(batch),
    )
    gold = [document.spans for document in batch.documents]
    n_gold = sum(len({span.key for span in spans}) for spans in gold)
    targets = {"correct": table.is_gold(gold), "phi": table.is_phi(gold)}
    return StackingDataset(table, context, **targets, n_gold=n_gold, unseen=unseen)

"""Ablation: every submodel switched off in turn, the judge trained again on the kept out-of-fold candidates.

As Zhao et al. 2020, table 6; no submodel is trained again, and the training notes are not needed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ensemble_deid.config import make_config
from ensemble_deid.evaluation.bootstrap import PairedDifference, paired_difference
from ensemble_deid.evaluation.counts import Counts
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.pipeline.directory import load_model
from ensemble_deid.stacking.evidence import Evidence
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.stacking.voting import METHODS, combine
from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span, drop_overlaps


@dataclass(frozen=True, slots=True)
class AblationRow:
    """One system: its strict counts on dev, and its difference to the full ensemble (None for the ensemble itself)."""

    name: str
    counts: Counts
    difference: PairedDifference | None


def ablate(
    model: Path, documents: Sequence[Document], *, jobs: int, progress: Callable[[str], None]
) -> list[AblationRow]:
    """Score the ensemble, the ensemble without each submodel, each submodel alone, and the simple votes.

    The judge's C, gamma and weights are searched anew for each set of submodels, as they were for the whole.
    """
    ensemble, _ = load_model(model)
    evidence = Evidence.load(model)
    config = make_config({**ensemble.config.model_dump(mode="json"), "jobs": jobs})
    batch = ensemble.preparation.batch(documents)
    proposals = ensemble.propose(batch)
    systems: dict[str, list[tuple[Span, ...]]] = {"ensemble": ensemble.stacker.judge(proposals, batch)}
    names = list(proposals)
    for name in names if len(names) > 1 else ():
        progress(f"without {name}")
        kept = evidence.without([name], min_confidence=config.stack.min_confidence)
        judge = Stacker.fit(kept, config=config, progress=progress)
        rest = {other: proposals[other] for other in names if other != name}
        systems[f"without {name}"] = judge.judge(rest, batch)
    for name in names:
        systems[f"{name} alone"] = [drop_overlaps(spans) for spans in proposals[name].best]
    for method in METHODS:
        systems[f"vote: {method}"] = combine(proposals, labels=ensemble.scheme.labels, method=method)
    return _rows(documents, systems)


def _rows(documents: Sequence[Document], systems: dict[str, list[tuple[Span, ...]]]) -> list[AblationRow]:
    tables = {}
    for name, spans in systems.items():
        system = [document.with_spans(found) for document, found in zip(documents, spans, strict=True)]
        tables[name] = count_view(documents, system, "strict")
    full = tables["ensemble"]
    rows = []
    for name, table in tables.items():
        difference = None
        if name != "ensemble":
            difference = paired_difference(table.per_document, full.per_document, table.groups)
        rows.append(AblationRow(name, table.total, difference))
    return rows

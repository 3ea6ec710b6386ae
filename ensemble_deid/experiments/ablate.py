"""Ablation: each submodel is left out in turn, and the final estimator refitted on the stored training set.

As Zhao et al. 2020, table 6; no submodel is trained again, and the training notes are not needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ensemble_deid.config import Config, make_config
from ensemble_deid.evaluation.bootstrap import PairedDifference, paired_difference
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.experiments.progress import Reporter, Step
from ensemble_deid.pipeline.directory import load_model
from ensemble_deid.stacking.dataset import StackingDataset
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.stacking.svm import SvmSettings
from ensemble_deid.stacking.voting import METHODS, combine
from ensemble_deid.text.counts import Counts
from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span, drop_overlaps


@dataclass(frozen=True, slots=True)
class AblationRow:
    """One system: its strict counts on dev, and its difference to the full ensemble (None for the ensemble itself)."""

    name: str
    counts: Counts
    difference: PairedDifference | None


def ablate(model: Path, documents: Sequence[Document], *, jobs: int, report: Reporter) -> list[AblationRow]:
    """Score the ensemble, the ensemble without each submodel, each submodel alone, and the simple votes.

    Each refitted final estimator has the C, gamma and class weights of the full one, and a threshold of its own.
    """
    ensemble, _ = load_model(model)
    stacking_dataset = StackingDataset.load(model)
    config = _with_settings(ensemble.config, ensemble.stacker.svm.settings, jobs=jobs)
    total = 1 + len(ensemble.taggers)
    report(Step(0, total, "the ensemble"))
    batch = ensemble.feature_extractor.extract(documents)
    proposals = ensemble.propose(batch)
    systems: dict[str, list[tuple[Span, ...]]] = {"ensemble": ensemble.stacker.predict(proposals, batch)}
    names = list(proposals)
    for done, name in enumerate(names if len(names) > 1 else (), 1):
        report(Step(done, total, f"without {name}"))
        kept = stacking_dataset.without([name], min_confidence=config.stack.min_confidence)
        stacker = Stacker.fit(kept, config=config, progress=_nothing)
        rest = {other: proposals[other] for other in names if other != name}
        systems[f"without {name}"] = stacker.predict(rest, batch)
    for name in names:
        systems[f"{name} alone"] = [drop_overlaps(spans) for spans in proposals[name].best]
    for method in METHODS:
        systems[f"vote: {method}"] = combine(proposals, labels=ensemble.scheme.labels, method=method)
    return _rows(documents, systems)


def _nothing(message: str) -> None:
    """Say nothing: the steps of an ablation are its systems."""


def _with_settings(config: Config, settings: SvmSettings, *, jobs: int) -> Config:
    """Return the configuration with a grid of these settings alone."""
    c, weight = max(settings.c_positive, settings.c_negative), settings.c_positive / settings.c_negative
    content = config.model_dump(mode="json")
    stack = {**content["stack"], "preset": "search", "threshold": None}
    stack |= {"c_grid": [c], "gamma_grid": [settings.gamma], "weight_grid": [weight]}
    return make_config({**content, "jobs": jobs, "stack": stack})


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

"""Warm start: a trained model whose submodels are trained further on other notes, as far as they can be."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ensemble_deid.config import Config
from ensemble_deid.errors import ConfigError
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.seen_notes import SeenNotes
from ensemble_deid.note.document import Document
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.submodels import BY_NAME
from ensemble_deid.taggers.base import Tagger


@dataclass(frozen=True, slots=True)
class WarmStart:
    """The submodels to start from, by name, and what the new model's manifest keeps of where they come from.

    `seen` are the notes and patients that they were trained on, `labels` what that model finds, in its order.
    """

    taggers: Mapping[str, Tagger] = field(default_factory=dict, repr=False)
    labels: tuple[str, ...] = ()
    seen: SeenNotes | None = field(default=None, repr=False)
    record: Mapping[str, Any] = field(default_factory=dict)

    def seen_with(self, documents: Sequence[Document], *, seed: int) -> SeenNotes:
        """Return digests of the notes, and of those that the submodels were trained on before."""
        return SeenNotes.of(documents, seed=seed) if self.seen is None else self.seen.and_also(documents, seed=seed)

    def scheme(
        self, documents: Sequence[Document], *, submodels: Sequence[str], notify: Callable[[str], None]
    ) -> TagScheme:
        """Return the tags of the labels of the notes and of the model to start from, and say what only that one knows.

        Submodels that begin with nothing never predict a label that the notes lack.
        """
        annotated = {span.label for document in documents for span in document.spans}
        kept = [label for label in self.labels if label not in annotated]
        if kept:
            new = [name for name in submodels if name not in self.taggers and not BY_NAME[name].feeds_others]
            without = f"; {', '.join(new)} cannot learn them" if new else ""
            notify(
                f"labels that only the model to start from has: {', '.join(kept)}: {', '.join(self.taggers)} can still "
                f"find them{without}; for these, the submodels' highest confidence stands for the final estimator's"
            )
        return TagScheme.from_labels({*annotated, *self.labels})


COLD = WarmStart()


def read_warm_start(model: Path, config: Config, *, notify: Callable[[str], None]) -> WarmStart:
    """Load a model to start from, and say which submodels begin with nothing all the same.

    Its final estimator and its lexicon are not kept: both are learned from the new notes. Raises ModelError for a
    damaged model, ConfigError where the new model is to be shareable (it would hold the other notes' words) or none of
    its submodels can start from this one.
    """
    if config.shareable:
        raise ConfigError("shareable: a model that starts from another one holds words of that one's notes")
    ensemble, manifest = load_model(model, device="cpu")
    taggers = {}
    for name in config.submodels:
        if name in ensemble.taggers and BY_NAME[name].starts_from_model:
            taggers[name] = ensemble.taggers[name]
        elif name not in ensemble.taggers:
            notify(f"{name}: {model} has none to start from, so it is trained from nothing")
        elif not BY_NAME[name].feeds_others:
            notify(f"{name}: cannot start from a trained model (its optimiser has no initial weights): from nothing")
    if not taggers:
        can = ", ".join(name for name, row in BY_NAME.items() if row.starts_from_model)
        raise ConfigError(f"{model}: no submodel to be trained can start from it; those that can are {can}")
    record = {"model": manifest.checksum, "submodels": list(taggers), "labels": list(manifest.labels)}
    seen = SeenNotes.from_record(manifest.seen_notes)
    return WarmStart(taggers, manifest.labels, seen, {"started_from": record})

"""Training the networks that Ahmed et al. 2021 compare, over several seeds; what is finished is not trained again.

Each run leaves a JSON file: what it was made from (settings, notes, versions) and the spans found, as offsets. A file
of the same name that was made from anything else is refused, so figures never mix two experiments.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from joblib import delayed

from ensemble_deid.atomic import remove_stale
from ensemble_deid.config import Config, NeuralConfig
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.features.batch import Batch, training_view, with_lexicon
from ensemble_deid.model.feature_extractor import fit_feature_extractor
from ensemble_deid.model.manifest import fingerprint, installed_packages
from ensemble_deid.model.submodels import submodel_class
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.parallel import Reporter, Step, in_processes
from ensemble_deid.reproducible import one_thread
from ensemble_deid.taggers.base import FitOptions
from ensemble_deid.training.run_folder import write_json
from research.stored_answers import read_stored, stored_spans

SYSTEMS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "BiLSTM": {"characters": "none", "encoder": "bilstm", "decoder": "softmax"},
        "BiLSTM-CRF": {"characters": "none", "encoder": "bilstm", "decoder": "crf"},
        "C2V-BiLSTM-CRF": {"characters": "names", "encoder": "bilstm", "decoder": "crf"},
        "Transformer": {"characters": "none", "encoder": "transformer", "decoder": "softmax"},
        "Transformer-CRF": {"characters": "none", "encoder": "transformer", "decoder": "crf"},
        "Transformer-BiLSTM": {"characters": "none", "encoder": "transformer-bilstm", "decoder": "softmax"},
        "CharBiLSTM-BiLSTM-CRF": {"characters": "bilstm", "encoder": "bilstm", "decoder": "crf"},
        "CNN-BiLSTM-CRF": {"characters": "cnn", "encoder": "bilstm", "decoder": "crf"},
    }
)
"""The parts of each network: the paper's six (its table 1), then two with character encoders that are trained along."""

RUNS = "runs"
Answer = tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Which networks are trained, with which seeds, under which settings, and the folder of the runs."""

    folder: Path
    config: Config
    systems: tuple[str, ...]
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in self.systems:
            if name not in SYSTEMS:
                raise ConfigError(f"there is no network {name!r}; there are: {', '.join(SYSTEMS)}")
        if not self.systems or not self.seeds:
            raise ConfigError("at least one network and one seed are needed")
        if len(set(self.systems)) < len(self.systems) or len(set(self.seeds)) < len(self.seeds):
            raise ConfigError("a network or a seed is named twice")

    def section(self, system: str) -> NeuralConfig:
        """Return the network's settings. Raises ConfigError where its parts do not go with them."""
        return NeuralConfig(**{**self.config.neural.model_dump(), **SYSTEMS[system]})


@dataclass(frozen=True, slots=True)
class _Run:
    system: str
    seed: int
    path: Path
    origin: Mapping[str, Any] = field(repr=False)


def run_encoders(
    train: Sequence[Document], dev: Sequence[Document], plan: Plan, *, report: Reporter
) -> dict[str, tuple[Answer, ...]]:
    """Train each network with each seed and return its answers on the dev notes, one for each seed.

    Nothing is chosen on dev: the weights are those of the last epoch. Raises CorpusError where there is nothing to
    learn from or to score, or a finished run's file is damaged, and ConfigError where such a file was made from other
    notes or settings.
    """
    labels = {span.label for document in train for span in document.spans}
    if not labels or not any(document.spans for document in dev):
        raise CorpusError("the training notes or the notes to score have no annotated PHI")
    runs = _runs(train, dev, plan)
    remove_stale(plan.folder / RUNS)
    answers: dict[tuple[str, int], Answer] = {}
    for run in runs:
        found = _read(run, dev)
        if found is not None:
            answers[run.system, run.seed] = found
    waiting = [run for run in runs if (run.system, run.seed) not in answers]
    report(Step(len(answers), len(runs), "preparing the notes"))
    for run, content in _train_all(waiting, train, dev, plan, labels) if waiting else ():
        write_json(run.path, {"origin": run.origin, "spans": content})
        answers[run.system, run.seed] = stored_spans({"spans": content}, dev)
        report(Step(len(answers), len(runs), f"{run.system}, seed {run.seed}"))
    return {system: tuple(answers[system, seed] for seed in plan.seeds) for system in plan.systems}


def _runs(train: Sequence[Document], dev: Sequence[Document], plan: Plan) -> list[_Run]:
    notes = {"train": fingerprint(train), "dev": fingerprint(dev)}
    packages = installed_packages()
    runs = []
    for seed in plan.seeds:
        for system in plan.systems:
            sections = {"neural": plan.section(system).model_dump(mode="json")}
            sections |= {name: plan.config.model_dump(mode="json")[name] for name in ("text", "regex", "device")}
            origin = {"system": system, "seed": seed, "notes": notes, "config": sections, "packages": packages}
            runs.append(_Run(system, seed, plan.folder / RUNS / f"{system}-seed{seed}.json", origin))
    return runs


def _train_all(
    runs: Sequence[_Run], train: Sequence[Document], dev: Sequence[Document], plan: Plan, labels: set[str]
) -> Iterator[tuple[_Run, dict[str, Any]]]:
    """Yield each run as it is done, with the spans found in each note."""
    scheme = TagScheme.from_labels(labels)
    plain, extractor = fit_feature_extractor(train, scheme.labels, config=plan.config)
    seen = training_view(with_lexicon(plain, extractor.lexicon, leave_own_patient_out=True))
    unseen = extractor.extract(dev)
    calls = (
        delayed(_train)(
            k,
            train=seen,
            dev=unseen,
            scheme=scheme,
            section=plan.section(run.system),
            seed=run.seed,
            device=plan.config.device,
        )
        for k, run in enumerate(runs)
    )
    for k, spans in in_processes(calls, jobs=plan.config.jobs, ordered=False):
        found = (sorted(span.key for span in spans_of_note) for spans_of_note in spans)
        yield runs[k], {document.id: list(keys) for document, keys in zip(dev, found, strict=True)}


def _train(
    k: int, train: Batch, dev: Batch, scheme: TagScheme, section: NeuralConfig, seed: int, device: str
) -> tuple[int, tuple[tuple[Span, ...], ...]]:
    with one_thread():
        tagger = submodel_class("neural").fit(train, None, FitOptions(scheme, section, seed=seed, device=device))
        return k, tagger.propose(dev, n_best=1).best


def _read(run: _Run, dev: Sequence[Document]) -> Answer | None:
    """Read a run that is finished; None for one that is not. Raises what `read_stored` does."""
    return read_stored(run.path, run.origin, lambda content: stored_spans(content, dev))

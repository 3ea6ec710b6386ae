"""Customising a system to another site (Hartman et al. 2020): how much of the site's annotation is needed?

A system trained on corpus A is used on notes of corpus B as it is (off the shelf), or with n annotated PHI instances of
B: trained on these alone (`only B`), trained further on them (`A then B`), or trained anew on both (`A mix B`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ensemble_deid.atomic import remove_stale
from ensemble_deid.config import Config
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import fingerprint, installed_packages, read_manifest
from ensemble_deid.note.document import Document
from ensemble_deid.parallel import Reporter, Step
from ensemble_deid.seeds import generator
from ensemble_deid.submodels import BY_NAME
from ensemble_deid.training.train import train
from ensemble_deid.training.training_notes import training_notes
from research.stored_answers import ScoredAnswer, stored_answer

OFF_THE_SHELF, ONLY_B, THEN_B, MIX_B = "off the shelf", "only B", "A then B", "A mix B"
WAYS = (ONLY_B, THEN_B, MIX_B)
BUDGETS = (0, 20, 40, 80, 160, 500, 1000)


@dataclass(frozen=True, slots=True)
class CustomizePlan:
    """Where the runs are kept, how systems are trained, the budgets in PHI instances of B, and the ways of using them.

    Budget 0 is the system off the shelf. `allow_overlap` accepts notes or patients that A and B share.
    """

    folder: Path
    config: Config
    budgets: tuple[int, ...] = BUDGETS
    ways: tuple[str, ...] = WAYS
    allow_overlap: bool = False

    def __post_init__(self) -> None:
        if not self.budgets or min(self.budgets) < 0:
            raise ConfigError("a budget is a number of PHI instances, 0 or more")
        for way in self.ways:
            if way not in WAYS:
                raise ConfigError(f"there is no way {way!r} of using annotations; there are: {', '.join(WAYS)}")
        able = [name for name, row in BY_NAME.items() if row.starts_from_model]
        if THEN_B in self.ways and not set(able) & set(self.config.submodels):
            raise ConfigError(
                f"{THEN_B!r} needs a submodel that can start from a trained model ({', '.join(able)}); leave it out of "
                "--ways, or name other --submodels"
            )


@dataclass(frozen=True, slots=True)
class CustomizedSystem:
    """A system's answer on the scored notes of B, after `phi` annotated instances in `notes` notes of B were used.

    `budget` is how many were asked for: whole notes are drawn until they hold as many, or none is left.
    """

    way: str
    budget: int
    phi: int
    notes: int
    answer: ScoredAnswer = field(repr=False)


def run_customize(
    a: Sequence[Document],
    pool: Sequence[Document],
    test: Sequence[Document],
    plan: CustomizePlan,
    *,
    report: Reporter,
    notify: Callable[[str], None],
) -> list[CustomizedSystem]:
    """Train each system that has no stored answer yet, and return all answers on `test`, off the shelf first.

    `pool` are the notes of B that annotations are drawn from. Nothing is chosen on `test`. Raises CorpusError where
    there is too little to learn from, ConfigError where the folder has runs of other notes or settings.
    """
    a, pool = training_notes(a), training_notes(pool)
    if not any(document.spans for document in test):
        raise CorpusError("the notes to score have no annotated PHI")
    remove_stale(plan.folder / "runs")
    base = {"config": _settings(plan.config), "packages": installed_packages(), "A": fingerprint(a)}
    scored = {"scored notes": fingerprint(test)}
    draws = _draws(pool, plan)
    steps = [(way, budget, drawn) for budget, drawn in draws for way in plan.ways]
    progress = _Progress(report, len(steps) + 1)
    model = plan.folder / "models" / "A"

    def off_the_shelf() -> ScoredAnswer:
        return ScoredAnswer.of(_model_of_a(model, a, plan, notify), test)

    path = plan.folder / "runs" / "off-the-shelf.json"
    answer = stored_answer(path, {**base, **scored}, test, off_the_shelf)
    systems = [CustomizedSystem(OFF_THE_SHELF, 0, 0, 0, answer)]
    progress.step(OFF_THE_SHELF)
    for way, budget, drawn in steps:

        def customized(way: str = way, drawn: Sequence[Document] = drawn) -> ScoredAnswer:
            return ScoredAnswer.of(_customize(way, a, drawn, model, plan=plan, notify=notify), test)

        origin = {**base, **scored, "notes of B": fingerprint(drawn), "way": way}
        path = plan.folder / "runs" / f"{way.replace(' ', '-')}-{budget}.json"
        answer = stored_answer(path, origin, test, customized)
        systems.append(CustomizedSystem(way, budget, count_phi(drawn), len(drawn), answer))
        progress.step(f"{way}, {budget} instances")
    return systems


def count_phi(documents: Sequence[Document]) -> int:
    """Return how many PHI instances are annotated."""
    return sum(len(document.spans) for document in documents)


def draw_notes(pool: Sequence[Document], budget: int, *, seed: int) -> list[Document]:
    """Draw notes until they hold `budget` PHI instances, of two patients at least, or all are drawn.

    A smaller budget's notes are among those of a larger one. Raises CorpusError where fewer than two patients have PHI.
    """
    drawn: list[Document] = []
    patients: set[str] = set()
    phi = 0
    for k in generator(seed, "customize").permutation(len(pool)).tolist():
        if phi >= budget and len(patients) >= 2:
            break
        drawn.append(pool[k])
        phi += len(pool[k].spans)
        patients |= {pool[k].group} if pool[k].spans else set()
    if len(patients) < 2:
        raise CorpusError("the notes of B to learn from need annotated PHI of at least two patients (or sites)")
    return drawn


def mix(a: Sequence[Document], b: Sequence[Document]) -> list[Document]:
    """Return an even mixture: the notes of both, those of the smaller side repeated to about as many as the other's.

    The copies of a note belong to its patient, so that folds keep them together; patients of A and B are told apart.
    """
    largest = max(len(a), len(b))
    mixed = []
    for side, documents in (("A", a), ("B", b)):
        for copy in range(max(1, round(largest / len(documents)))):
            for document in documents:
                patient = f"{side} {document.patient}"
                mixed.append(replace(document, id=f"{side} {copy} {document.id}", patient_id=patient))
    return mixed


def _draws(pool: Sequence[Document], plan: CustomizePlan) -> list[tuple[int, list[Document]]]:
    """Return the notes of each budget above 0; once all notes are drawn, larger budgets are left out."""
    draws: list[tuple[int, list[Document]]] = []
    for budget in sorted(set(plan.budgets) - {0}):
        drawn = draw_notes(pool, budget, seed=plan.config.seed)
        if not draws or len(drawn) > len(draws[-1][1]):
            draws.append((budget, drawn))
    return draws


def _customize(
    way: str,
    a: Sequence[Document],
    drawn: Sequence[Document],
    model: Path,
    plan: CustomizePlan,
    notify: Callable[[str], None],
) -> Ensemble:
    if way == THEN_B:
        _model_of_a(model, a, plan, notify)
    documents = mix(a, drawn) if way == MIX_B else drawn
    return train(
        documents,
        config=plan.config,
        notify=notify,
        allow_overlap=plan.allow_overlap,
        start_from=model if way == THEN_B else None,
    ).ensemble


def _model_of_a(model: Path, a: Sequence[Document], plan: CustomizePlan, notify: Callable[[str], None]) -> Ensemble:
    """Return the system trained on A, which is kept on disk. Raises ConfigError where another one is kept there."""
    if not model.exists():
        train(a, config=plan.config, notify=notify).save(model)
    manifest = read_manifest(model)
    if manifest.fingerprint != fingerprint(a) or manifest.config != _settings(plan.config):
        raise ConfigError(f"{model}: trained on other notes or with other settings; give another folder as --out")
    return load_model(model)[0]


def _settings(config: Config) -> Mapping[str, Any]:
    return config.model_dump(mode="json", exclude={"jobs"})


@dataclass(slots=True)
class _Progress:
    report: Reporter
    total: int
    done: int = 0

    def step(self, message: str) -> None:
        self.done += 1
        self.report(Step(self.done, self.total, message))

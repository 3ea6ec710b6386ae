"""Searching named settings on dev notes within a budget of time, by optuna's tree-structured Parzen estimator.

Bergstra et al. 2011. The first trial is the configuration as it was given, so that the result is never worse on the dev
notes than what one began with. Trials are drawn by a seeded sampler, one after the other: which settings the n-th trial
has depends on the seed and the results before it, and how many trials there are on the time alone.
"""

import json
import re
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.config import Config, config_to_toml
from ensemble_deid.errors import ConfigError, CorpusError, needs_extra
from ensemble_deid.model.manifest import fingerprint
from ensemble_deid.note.document import Document
from ensemble_deid.parallel import Reporter, Step
from ensemble_deid.parsing import strict_toml
from ensemble_deid.training.run_folder import RunFolder, damaged, read_part, write_json
from ensemble_deid.training.train import train
from ensemble_deid.training.training_notes import UselessModelError

if TYPE_CHECKING:
    import optuna

TRIALS, BEST = "trials.json", "best.toml"
_RANGE = re.compile(r"([^.|:]+(?:\.\d+)?)\.\.([^|:]+?)(:log)?")


@dataclass(frozen=True, slots=True)
class SettingRange:
    """The values of one setting to try: numbers from `low` to `high`, whole ones where both are, or `choices`."""

    key: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Any, ...] = ()

    @property
    def ends(self) -> tuple[Any, ...]:
        return self.choices or (self.low, self.high)


@dataclass(frozen=True, slots=True)
class Trial:
    """The settings of a trial, none where they are as given, and the strict entity F1 on dev."""

    settings: dict[str, Any]
    f1: float


@dataclass(frozen=True, slots=True)
class Tuned:
    """All trials in their order (the first has the settings as they were given), and the best configuration."""

    trials: tuple[Trial, ...]
    config: Config

    @property
    def best(self) -> Trial:
        return max(self.trials, key=lambda trial: trial.f1)


def parse_range(text: str) -> SettingRange:
    """Read `section.key=low..high`, `section.key=low..high:log` or `section.key=a|b|c`. Raises ConfigError."""
    key, sign, values = (part.strip() for part in text.partition("="))
    expected = f"--set-range {text}: expected section.key=low..high, ...:log, or a|b|c"
    if not key or not sign:
        raise ConfigError(expected)
    numbers = _RANGE.fullmatch(values)
    if numbers is None:
        choices = tuple(_value(part) for part in values.split("|"))
        if len(choices) < 2:
            raise ConfigError(expected)
        return SettingRange(key, choices=choices)
    low, high = _value(numbers[1]), _value(numbers[2])
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in (low, high)) or not low < high:
        raise ConfigError(f"--set-range {text}: the ends must be two numbers, the smaller one first")
    if numbers[3] and low <= 0:
        raise ConfigError(f"--set-range {text}: a logarithmic range begins above 0")
    return SettingRange(key, low, high, bool(numbers[3]))


def _value(text: str) -> Any:
    try:
        return strict_toml(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def as_override(key: str, value: Any) -> str:
    return f"{key}={json.dumps(value)}"


def tune(
    documents: Sequence[Document],
    dev: Sequence[Document],
    out: Path,
    *,
    ranges: Sequence[SettingRange],
    configure: Callable[[Sequence[str]], Config],
    minutes: float,
    max_trials: int | None = None,
    resume: bool = False,
    allow_overlap: bool = False,
    report: Reporter,
    clock: Callable[[], float] = time.monotonic,
) -> Tuned:
    """Train with different settings and keep those with the best strict F1 of the ensemble on dev.

    `configure` makes a configuration from further overrides. No trial begins that would, at the pace of the slowest so
    far, end after `minutes`; the first always runs. Raises ConfigError where optuna is missing, a range is impossible,
    or `out` cannot be used, and CorpusError where dev has no PHI.
    """
    base = configure([])
    _check_ranges(ranges, configure)
    if not any(note.spans for note in dev):
        raise CorpusError("the dev notes have no PHI, so nothing tells which settings are better")
    study = _study(base.seed)
    settings = {
        "experiment": "tune",
        "ranges": [asdict(entry) for entry in ranges],
        "config": base.model_dump(mode="json", exclude={"jobs"}),
        "corpus": {"notes": len(documents), "fingerprint": fingerprint(documents)},
        "dev": {"notes": len(dev), "fingerprint": fingerprint(dev)},
    }
    run = RunFolder.begin(out, settings, resume=resume)
    trials = _replayed(study, ranges, out / TRIALS)
    begun, slowest = clock(), 0.0
    while not trials or ((clock() - begun + slowest) / 60 <= minutes and len(trials) < (max_trials or sys.maxsize)):
        start = clock()
        # The first is not the sampler's: a setting may be given with a value outside its range.
        asked = study.ask() if trials else None
        chosen = {} if asked is None else _suggest(asked, ranges)
        report(Step(clock() - begun, minutes * 60, f"trial {len(trials) + 1}"))
        config = configure([as_override(key, value) for key, value in chosen.items()])
        f1: float | None = 0.0
        try:
            trained = train(documents, dev, config=config, notify=lambda message: None, allow_overlap=allow_overlap)
            f1 = trained.dev_counts["ensemble"].f1
        except UselessModelError:
            # The sampler learns to keep away; the settings as they are given must be of some use.
            if asked is None:
                raise
        if f1 is None:
            raise CorpusError("the dev notes have nothing to find, and nothing was found: F1 is undefined")
        if asked is not None:
            study.tell(asked, f1)
        trials.append(Trial(chosen, f1))
        slowest = max(slowest, clock() - start)
        _write(out, trials, configure)
        run.log(f"trial {len(trials)}: dev F1 {100 * f1:.2f}")
    return _write(out, trials, configure)


def _write(out: Path, trials: Sequence[Trial], configure: Callable[[Sequence[str]], Config]) -> Tuned:
    tuned = Tuned(tuple(trials), configure([]))
    best = [as_override(key, value) for key, value in tuned.best.settings.items()]
    tuned = replace(tuned, config=configure(best))
    write_json(out / TRIALS, [asdict(trial) for trial in trials])
    write_text_atomically(out / BEST, config_to_toml(tuned.config))
    return tuned


def _study(seed: int) -> "optuna.Study":
    with needs_extra("tune", "a search of settings"):
        # Imported here: it is an extra.
        import optuna
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))


def _suggest(trial: "optuna.Trial", ranges: Sequence[SettingRange]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in ranges:
        low, high = entry.low, entry.high
        if low is None or high is None:
            # A list is no value for optuna, its text is.
            texts = [json.dumps(choice) for choice in entry.choices]
            found[entry.key] = json.loads(trial.suggest_categorical(entry.key, texts))
        elif isinstance(low, int) and isinstance(high, int):
            found[entry.key] = trial.suggest_int(entry.key, low, high, log=entry.log)
        else:
            found[entry.key] = trial.suggest_float(entry.key, low, high, log=entry.log)
    return found


def _check_ranges(ranges: Sequence[SettingRange], configure: Callable[[Sequence[str]], Config]) -> None:
    """Raise ConfigError for an unknown key, a value that it cannot have, and a key that is named twice."""
    keys = [entry.key for entry in ranges]
    if not keys or len(set(keys)) < len(keys):
        raise ConfigError("--set-range: name at least one setting, each once")
    for entry in ranges:
        for value in entry.ends:
            configure([as_override(entry.key, value)])


def _replayed(study: "optuna.Study", ranges: Sequence[SettingRange], path: Path) -> list[Trial]:
    """Return the trials of a run that was broken off, and bring the sampler to where it was."""
    recorded = read_part(path) if path.is_file() else []
    try:
        trials = [Trial(dict(entry["settings"]), float(entry["f1"])) for entry in recorded]
    except (TypeError, KeyError, ValueError) as error:
        raise damaged(path, type(error).__name__) from None
    for number, trial in enumerate(trials[1:], 2):
        asked = study.ask()
        if _suggest(asked, ranges) != trial.settings:
            raise ConfigError(f"{path}: trial {number} is not what the sampler draws: optuna is another version")
        study.tell(asked, trial.f1)
    return trials

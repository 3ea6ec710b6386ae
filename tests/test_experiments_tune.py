"""Searching settings: ranges, the budget, the same draws for the same seed, and what a broken run leaves."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny_stack

from ensemble_deid.cli.main import main
from ensemble_deid.config import Config, config_to_toml, load_config
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.counts import Counts
from ensemble_deid.parallel import Step
from ensemble_deid.training import tune as module
from ensemble_deid.training.training_notes import UselessModelError
from ensemble_deid.training.tune import SettingRange, Tuned, parse_range, tune

RANGES = [parse_range("crf.c1=0.01..1:log"), parse_range("tbed.max_rules=10..90"), parse_range("stack.n_best=1|3|5")]


def configure(more: Sequence[str]) -> Config:
    return load_config(None, overrides=["tbed.max_rules=100", *more])


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """Replace training by a score that is best at few rules; return the configurations asked for."""
    asked: list[Config] = []

    def train(documents: Any, dev: Any, *, config: Config, **_: Any) -> Any:
        asked.append(config)
        return SimpleNamespace(
            dev_counts={"ensemble": Counts(tp=200 - config.tbed.max_rules, fp=config.tbed.max_rules)}
        )

    monkeypatch.setattr(module, "train", train)
    return asked


def run(out: Path, *, minutes: float = 1, clock: Callable[[], float] = lambda: 0.0, **options: Any) -> Tuned:
    def quiet(step: Step) -> None:
        """Report nothing."""

    notes, dev = tiny_stack.notes(300), tiny_stack.notes(400, patients=1)
    return tune(
        notes, dev, out, ranges=RANGES, configure=configure, minutes=minutes, report=quiet, clock=clock, **options
    )


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != "log.txt"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("crf.c1=0.01..1:log", SettingRange("crf.c1", 0.01, 1, True)),
        ("neural.epochs=8..24", SettingRange("neural.epochs", 8, 24)),
        ("neural.learning_rate=1e-4..5e-3", SettingRange("neural.learning_rate", 1e-4, 5e-3)),
        ("tbed.initial=regex|none", SettingRange("tbed.initial", choices=("regex", "none"))),
        ("stack.c_grid=[1.0]|[2.0]", SettingRange("stack.c_grid", choices=([1.0], [2.0]))),
    ],
)
def test_ranges_are_read(text: str, expected: SettingRange) -> None:
    assert parse_range(text) == expected


@pytest.mark.parametrize("text", ["crf.c1", "crf.c1=1", "crf.c1=2..1", "crf.c1=0..1:log", "crf.c1=a..b", "=1..2"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--set-range"):
        parse_range(text)


def test_the_first_trial_is_as_given_and_the_best_is_kept(tmp_path: Path, trained: list[Config]) -> None:
    tuned = run(tmp_path / "run", max_trials=8)
    assert len(tuned.trials) == 8
    assert tuned.trials[0].settings == {}
    assert trained[0] == configure([])
    assert all(10 <= trial.settings["tbed.max_rules"] <= 90 for trial in tuned.trials[1:])
    assert all(isinstance(trial.settings["stack.n_best"], int) for trial in tuned.trials[1:])
    assert tuned.best.f1 == max(trial.f1 for trial in tuned.trials)
    assert tuned.config.tbed.max_rules == min(config.tbed.max_rules for config in trained)
    assert load_config(tmp_path / "run" / "best.toml") == tuned.config


def test_the_same_seed_draws_the_same_and_a_broken_run_continues(tmp_path: Path, trained: list[Config]) -> None:
    run(tmp_path / "whole", max_trials=14)
    run(tmp_path / "broken", max_trials=11)
    run(tmp_path / "broken", max_trials=14, resume=True)
    assert files_of(tmp_path / "broken") == files_of(tmp_path / "whole")
    assert trained[:14] == trained[14:28]
    content = json.loads((tmp_path / "broken" / "trials.json").read_text())
    content[3]["settings"]["tbed.max_rules"] += 1
    (tmp_path / "broken" / "trials.json").write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="trial 4 is not what the sampler draws"):
        run(tmp_path / "broken", max_trials=15, resume=True)
    (tmp_path / "broken" / "trials.json").write_text('[{"settings": {}}]')
    with pytest.raises(ConfigError, match=r"trials\.json: damaged \(KeyError\)"):
        run(tmp_path / "broken", max_trials=15, resume=True)


def test_a_useless_trial_does_not_end_the_search(
    tmp_path: Path, trained: list[Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    useful = module.train

    def train(*notes: Any, config: Config, **options: Any) -> Any:
        if config.tbed.max_rules > 40:
            raise UselessModelError("finds nothing")
        return useful(*notes, config=config, **options)

    monkeypatch.setattr(module, "train", train)
    with pytest.raises(UselessModelError):
        run(tmp_path / "no", max_trials=3)
    # The settings as given are of some use here.
    monkeypatch.setattr(module, "train", lambda *notes, **more: (train if trained else useful)(*notes, **more))
    tuned = run(tmp_path / "run", max_trials=12)
    assert {trial.f1 == 0 for trial in tuned.trials if trial.settings.get("tbed.max_rules", 0) > 40} == {True}
    assert tuned.best.settings["tbed.max_rules"] <= 40


def test_dev_notes_without_phi_choose_nothing(tmp_path: Path, trained: list[Config]) -> None:
    """F1 is undefined there where nothing is found, and 0 for every settings that find something."""
    common: dict[str, Any] = {"configure": configure, "minutes": 1, "report": lambda step: None, "ranges": RANGES}
    blank = [note.with_spans(()) for note in tiny_stack.notes(400, patients=1)]
    for dev in (blank, []):
        with pytest.raises(CorpusError, match="the dev notes have no PHI"):
            tune(tiny_stack.notes(300), dev, tmp_path / "x", **common)
    assert not trained
    assert not (tmp_path / "x").exists()


def test_no_trial_begins_that_would_end_after_the_budget(tmp_path: Path, trained: list[Config]) -> None:
    """Each look at the clock takes ten seconds, so a trial takes ten to thirty; one always runs."""
    times = iter(range(0, 100_000, 10))
    many = run(tmp_path / "many", minutes=5, clock=lambda: float(next(times)))
    assert 3 < len(many.trials) < 11
    assert len(run(tmp_path / "one", minutes=0.001, clock=lambda: float(next(times))).trials) == 1


def test_impossible_values_are_refused_before_anything_is_trained(tmp_path: Path, trained: list[Config]) -> None:
    common: dict[str, Any] = {"configure": configure, "minutes": 1, "report": lambda step: None}
    for text, message in [
        ("crf.c=0..1", "unknown key crf.c"),
        ("tbed.min_accuracy=0.5..1.5", "tbed.min_accuracy"),
        ("tbed.initial=regex|nothing", "tbed.initial"),
    ]:
        with pytest.raises(ConfigError, match=message):
            tune([], [], tmp_path / "x", ranges=[parse_range(text)], **common)
    with pytest.raises(ConfigError, match="each once"):
        tune([], [], tmp_path / "x", ranges=RANGES[:1] * 2, **common)
    assert not trained
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", [None, "best", "small", "zhao2020", "johnson2020"])
def test_a_configuration_survives_being_written(name: str | None, tmp_path: Path) -> None:
    config = load_config(name, overrides=['regex.patterns="a \\"quoted\\" \\u00e9"', "stack.threshold=0.3"])
    (tmp_path / "written.toml").write_text(config_to_toml(config), encoding="utf-8")
    assert load_config(tmp_path / "written.toml") == config


def test_the_command_trains_and_prints_the_trials(
    tmp_path: Path, tiny_train: Path, tiny_dev: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [part for part in tiny_stack.settings(tmp_path, folds="2") if part != "--folds=2"]
    arguments = ["research", "tune", str(tiny_train), "--dev", str(tiny_dev), "--out", str(tmp_path / "run"), *settings]
    ranges = ["--set-range", "tbed.min_score=1..3", "--minutes", "60", "--trials", "2", "--submodels", "regex,tbed"]
    assert main([*arguments, *ranges]) == 0
    printed = capsys.readouterr().out
    assert "as given" in printed
    assert "tbed.min_score=" in printed
    assert len(json.loads((tmp_path / "run" / "trials.json").read_text())) == 2
    for form in ("txt", "csv", "tex", "svg"):
        assert "trial" in (tmp_path / "run" / f"trials.{form}").read_text()
    for minutes in ("0", "nan"):
        assert main([*arguments, "--set-range", "tbed.min_score=1..3", "--minutes", minutes]) == 2

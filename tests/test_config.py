"""Configuration: what is unknown or bad is refused with its key, and the nearest known one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ensemble_deid.config import Config, CrfConfig, NeuralConfig, load_config, make_config, named_configurations
from ensemble_deid.errors import ConfigError
from ensemble_deid.seeds import derive_seed, generator
from ensemble_deid.submodels import DEFAULT, NAMES


def refusal(content: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        make_config(content)
    return str(caught.value)


def test_nothing_given_is_the_default() -> None:
    assert load_config() == Config() == make_config({})
    assert make_config(Config().model_dump(mode="json")) == Config()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"sede": 1}, "unknown key sede; did you mean seed?"),
        ({"crf": {"max_iteration": 1}}, "unknown key crf.max_iteration; did you mean max_iterations?"),
        ({"neural": {"epoch": 3}}, "unknown key neural.epoch; did you mean epochs?"),
        ({"zzz": 1}, "unknown key zzz; known: seed, folds"),
        ({"crf": 3}, "crf is a section, not a value"),
        ({"submodels": ["crf", "newral"]}, "unknown submodel 'newral'; did you mean neural?"),
        ({"submodels": []}, "at least one of regex, tbed, crf, neural"),
        ({"submodels": "crf"}, "must be a list"),
    ],
)
def test_what_is_unknown_is_named_with_the_nearest_known(content: dict[str, Any], message: str) -> None:
    assert message in refusal(content)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        (None, "seed", -1),
        (None, "folds", 1),
        (None, "folds", 2.5),
        (None, "jobs", "many"),
        (None, "device", "gpu"),
        ("text", "bpe_vocabulary", -5),
        ("crf", "c1", float("nan")),
        ("crf", "c2", float("inf")),
        ("crf", "windows", "lower[0]"),
        ("neural", "dropout", 1.0),
        ("neural", "hidden", 7),
        ("neural", "kernel_sizes", []),
        ("neural", "kernel_sizes", [0]),
        ("stack", "preset", "zhao"),
        ("stack", "c_grid", []),
        ("stack", "gamma_grid", [-1.0]),
        ("stack", "weight_grid", [0.0]),
        ("stack", "threshold", 1.5),
        ("tbed", "min_score", 0),
    ],
)
def test_bad_values_are_refused_with_their_key(section: str | None, key: str, value: Any) -> None:
    content = {key: value} if section is None else {section: {key: value}}
    assert f"configuration: {key if section is None else f'{section}.{key}'}" in refusal(content)


def test_submodels_come_in_the_order_of_the_table_and_once_however_a_configuration_is_made() -> None:
    assert Config(submodels=("crf", "regex")).submodels == ("regex", "crf")
    assert Config.model_validate({"submodels": ["crf", "regex"]}).submodels == ("regex", "crf")
    assert Config(submodels=("crf", "regex")) == make_config({"submodels": ["regex", "crf"]})
    assert make_config({"submodels": ["neural", "regex", "neural"]}).submodels == ("regex", "neural")
    assert make_config({}).submodels == DEFAULT


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CrfConfig(max_iterations=-1), r"^crf\.max_iterations: .* greater than or equal to 1, not -1$"),
        (lambda: Config(crf={"max_iterations": -1}), r"^crf\.max_iterations: "),
        (lambda: Config.model_validate({"crf": {"c1": -1}}), r"^crf\.c1: "),
        (lambda: NeuralConfig(kernel_sizes=[0]), r"^neural\.kernel_sizes\.0: "),
        (lambda: CrfConfig(max_iteration=1), r"^unknown key crf\.max_iteration; did you mean max_iterations\?$"),
        (lambda: Config(sede=1), r"^unknown key sede; did you mean seed\?$"),
        (lambda: Config(submodels=["crf", "newral"]), r"^unknown submodel 'newral'; did you mean neural\?$"),
        (lambda: Config(neural=CrfConfig()), r"^neural is a section, not a value$"),
    ],
)
def test_a_wrong_value_is_a_configuration_error_in_python_too(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_every_submodel_has_a_section() -> None:
    for name in NAMES:
        assert Config().of_submodel(name).prefix == f"{name}."


def test_a_configuration_can_be_hashed_and_serialised() -> None:
    config = Config(submodels=("crf", "regex"), crf=CrfConfig(c1=2))
    assert hash(config) == hash(make_config({"submodels": ["crf", "regex"], "crf": {"c1": 2}}))
    assert Config.model_validate_json(config.model_dump_json()) == config


def test_a_configuration_is_frozen() -> None:
    with pytest.raises(ValidationError):
        Config().crf.c1 = 1.0  # type: ignore[misc]


def test_file_then_overrides_then_options(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("seed = 1\nfolds = 3\n[crf]\nc1 = 0.5\nc2 = 0.25\n")
    config = load_config(path, overrides=["crf.c1=0.75", "folds = 4", "text.split_lines=false"], seed=9, jobs=None)
    assert (config.seed, config.folds, config.jobs) == (9, 4, 2)
    assert (config.crf.c1, config.crf.c2, config.text.split_lines) == (0.75, 0.25, False)


def test_an_override_that_is_no_toml_value_is_text() -> None:
    assert load_config(overrides=["regex.patterns=en-i2b2"]).regex.patterns == "en-i2b2"
    assert load_config(overrides=['regex.patterns="a=b"']).regex.patterns == "a=b"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed", "expected section.key=value"),
        ("=3", "expected section.key=value"),
        ("seed.x=3", "seed is a value, not a section"),
        ("crf.c9=3", "unknown key crf.c9; did you mean c"),
        ("seed=abc", "seed: "),
    ],
)
def test_bad_overrides(tmp_path: Path, override: str, message: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text("seed = 1\n")
    with pytest.raises(ConfigError, match=r"^(--set|.*c\.toml)") as caught:
        load_config(path, overrides=[override])
    assert message in str(caught.value)


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_config(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path)
    path = tmp_path / "c.toml"
    path.write_bytes(b"seed = \xff")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 7"):
        load_config(path)
    path.write_text("seed = \n")
    with pytest.raises(ConfigError, match=r"c\.toml: .*line 1"):
        load_config(path)


def test_streams_depend_on_seed_and_name_alone() -> None:
    assert derive_seed(13, "folds") == derive_seed(13, "folds")
    assert len({derive_seed(13, "folds"), derive_seed(14, "folds"), derive_seed(13, "other")}) == 3
    assert 0 <= derive_seed(13, "folds") < 2**32
    assert generator(13, "a").integers(1 << 60) == generator(13, "a").integers(1 << 60)


def test_named_configurations_are_valid_and_travel_by_name() -> None:
    names = named_configurations()
    assert {"best", "small", "johnson2020"} <= set(names)
    for name in names:
        assert load_config(name) == load_config(names[name])
    assert load_config("best").submodels == NAMES
    assert load_config("small").submodels == DEFAULT
    assert load_config("small", overrides=["folds=4"]).folds == 4
    with pytest.raises(ConfigError, match="best, hartman2020, johnson2020, small"):
        load_config("bset")

"""A shareable model: no file of it has a rare name, and it predicts the same after the disk and after an export."""

from dataclasses import replace
from pathlib import Path

import pytest
import tiny_shareable
import tiny_stack

from ensemble_deid.cli.main import main
from ensemble_deid.config import make_config
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.model.directory import save_model
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.model.scan import file_text
from ensemble_deid.resources import rules_directory
from ensemble_deid.submodels import BY_NAME
from ensemble_deid.training.train import Trained

SECRETS = tuple(word for name in tiny_shareable.NAMES for word in name.split())


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return tiny_shareable.trained(tmp_path_factory.mktemp("settings"))


@pytest.fixture(scope="module")
def model(result: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shareable model. Read it only."""
    place = tmp_path_factory.mktemp("shareable") / "model"
    save_model(result.ensemble, result.stacking_dataset, result.manifest, place)
    return place


def files_with(folder: Path, *words: str) -> set[str]:
    """Return the files in which any of the words stands, in upper or lower case."""
    found = set()
    for path in folder.rglob("*"):
        text = file_text(path) if path.is_file() else ""
        if any(word.lower() in text for word in words):
            found.add(path.relative_to(folder).as_posix())
    return found


def test_no_file_has_a_name_of_a_patient(model: Path) -> None:
    assert files_with(model, *SECRETS) == set()
    assert files_with(model, tiny_shareable.DOCTOR) == set()
    # What enough patients have outside PHI is there.
    assert "crf.safetensors" in files_with(model, "fever")
    assert not (model / "private").exists()


def test_a_plain_model_of_the_same_notes_has_them(tmp_path: Path) -> None:
    """Otherwise the test above could not fail."""
    plain = tiny_shareable.trained(tmp_path, shareable=False)
    save_model(plain.ensemble, plain.stacking_dataset, plain.manifest, tmp_path / "model")
    expected = {"lexicon.json", "crf.safetensors", "network.json", "stacker_statistics.safetensors"}
    assert files_with(tmp_path / "model", *SECRETS) >= {*expected, "private/stacking_dataset.json"}


def test_english_words_that_are_one_patients_name_do_not_appear_with_it(model: Path) -> None:
    ensemble, _ = load_model(model)
    lexicon = ensemble.feature_extractor.lexicon
    assert "grace" in lexicon.vocabulary.values["lower"]
    assert "hunt" not in lexicon.vocabulary.values["lower"]
    assert "PATIENT" not in lexicon.words.get("grace", {})
    assert files_with(model, "hunt") == set()


def test_it_predicts_the_same_after_the_disk(result: Trained, model: Path) -> None:
    notes = [*tiny_shareable.notes(), *tiny_stack.notes()]
    found = load_model(model)[0].predict(notes)
    assert found == result.ensemble.predict(notes)
    assert any(found)


def test_no_digest_tells_a_patients_number(model: Path) -> None:
    assert read_manifest(model).seen_notes == {}


def test_the_same_training_gives_the_same_bytes(model: Path, tmp_path: Path) -> None:
    again = tiny_shareable.trained(tmp_path)
    save_model(again.ensemble, again.stacking_dataset, again.manifest, tmp_path / "model")
    first, second = (
        {path.name: path.read_bytes() for path in place.iterdir()} for place in (model, tmp_path / "model")
    )
    assert set(first) == set(second)
    assert {name for name, data in first.items() if second[name] != data} <= {"manifest.json"}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"submodels": ["crf", "transformer"]}, "the submodel transformer reads the words"),
        ({"text": {"bpe_vocabulary": 300}}, "text.bpe_vocabulary"),
        ({"text": {"word_lists": ["staff=staff.txt"]}}, "text.word_lists"),
        ({"tbed": {"initial": "frequent"}}, "tbed.initial"),
    ],
)
def test_what_no_closed_vocabulary_covers_is_refused(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError, match=f"shareable.*{reason}"):
        make_config({"shareable": True, **settings})
    make_config(settings)


def test_a_submodel_of_which_the_table_does_not_say_that_it_is_covered_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_config({"shareable": True, "submodels": ["regex", "crf"]})
    monkeypatch.setitem(BY_NAME, "crf", replace(BY_NAME["crf"], reads_only_table=False))
    with pytest.raises(ConfigError, match=r"shareable.*the submodel crf reads the words"):
        make_config({"shareable": True, "submodels": ["regex", "crf"]})


def test_learners_ask_for_enough_patients() -> None:
    config = make_config({"shareable": True, "min_patients_outside": 4, "tbed": {"min_patients": 6}})
    assert config.of_submodel("crf").model_dump()["min_patients"] == 4
    assert config.of_submodel("tbed").model_dump()["min_patients"] == 6
    assert make_config({}).of_submodel("crf").model_dump()["min_patients"] == 1


def test_too_few_patients_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="at least 3 patients"):
        tiny_shareable.trained(tmp_path, documents=tiny_shareable.notes()[:4])


# Exporting it


def test_it_can_be_exported_as_shareable(model: Path, tmp_path: Path) -> None:
    assert main(["model", "export", str(model), "--out", str(tmp_path / "out"), "--require-shareable"]) == 0
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == {
        p.name: p.read_bytes() for p in model.iterdir()
    }


def test_it_can_be_exported_as_shareable_and_compact(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["model", "export", str(model), "--out", str(out), "--require-shareable", "--compact"]) == 0
    assert files_with(out, *SECRETS, tiny_shareable.DOCTOR) == set()
    assert "crf.safetensors" in files_with(out, "fever")
    assert any(load_model(out)[0].predict(tiny_shareable.notes()))


def test_a_plain_model_cannot(tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "export", str(tiny_model), "--out", str(tmp_path / "out"), "--require-shareable"]) == 2
    assert "its weights cannot be made to forget them: train it again with --shareable" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('change O to B-PATIENT if the lower is "qorvax" (fixed 1, broken 0)', "rule 1 has a value outside"),
        ("# Qorvax is a patient", "has remarks"),
        ('# change O to B-PATIENT if the lower is "qorvax" (fixed 1, broken 0)', "rule 1 has a value outside"),
        ('# change O to B-PATIENT if the lower is "fever" (fixed 1, broken 0)', ""),
        ('change O to B-PATIENT if the lower is "fever" (fixed 1, broken 0)', ""),
    ],
)
def test_reviewed_rules_must_be_within_the_vocabulary(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    copy, rules = tmp_path / "copy", tmp_path / "my.rules"
    assert main(["model", "export", str(model), "--out", str(copy)]) == 0
    head = 'ensemble-deid rule list, version 1\ncorpus: "notes"\ntemplates: "default"\ninitial tagger: "regex"\n\n'
    rules.write_text(head + line + "\n", encoding="utf-8")
    assert main(["rules", "replace", str(copy), str(rules), "--remark", "for Qorvax"]) == 0
    capsys.readouterr()
    status = main(["model", "export", str(copy), "--out", str(tmp_path / "out"), "--require-shareable"])
    if said:
        assert (status, said in capsys.readouterr().err) == (2, True)
        return
    assert status == 0
    assert files_with(copy, "qorvax") == {"manifest.json"}
    assert files_with(tmp_path / "out", "qorvax") == set()
    load_model(tmp_path / "out")


def test_the_command_line_trains_shareable(tmp_path: Path) -> None:
    write_corpus(tiny_shareable.notes(), tmp_path / "train", "i2b2")
    arguments = [
        "train",
        str(tmp_path / "train"),
        "--out",
        str(tmp_path / "model"),
        "--shareable",
        "--submodels",
        "regex,crf",
    ]
    assert main([*arguments, *tiny_stack.settings(tmp_path, **{"text.knowledge": "en"})]) == 0
    assert files_with(tmp_path / "model", *SECRETS) == set()
    # Nor does a model say where it was trained.
    assert files_with(tmp_path / "model", str(rules_directory())) == set()
    assert load_model(tmp_path / "model")[0].config.shareable

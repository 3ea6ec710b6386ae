"""A corpus gets the patterns of its language and its labels, and `train` says which and why."""

import json
from pathlib import Path

import pytest
import tiny_stack
from test_text_language import TEXTS

from ensemble_deid.cli.main import main
from ensemble_deid.config import Config, load_config
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import ConfigError, RuleError
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.model.options import PredictionOptions
from ensemble_deid.model.pattern_choice import PatternChoice, choose_patterns
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

I2B2, MEDDOCAN, OWN = ["DATE", "PATIENT"], ["FECHAS", "CALLE"], ["Person", "Tag"]


def notes(language: str) -> list[Document]:
    return [Document("a", TEXTS[language] * 2)]


def settings(**keys: str) -> Config:
    return load_config(overrides=[f"regex.{key}={json.dumps(value)}" for key, value in keys.items()])


def choose(written_in: str, labels: list[str], **keys: str) -> PatternChoice:
    return choose_patterns(settings(**keys), labels, notes(written_in))


def map_file(folder: Path, content: str) -> str:
    path = folder / "map.toml"
    path.write_text(content, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("language", "labels", "keys", "name", "why"),
    [
        ("en", I2B2, {}, "en-i2b2", "the notes look English"),
        ("es", MEDDOCAN, {}, "es-meddocan", "the notes look Spanish"),
        # The English patterns know the labels, but not the language.
        ("fr", I2B2, {}, "none", "French .* there is no pattern set for French; --language en or es takes"),
        ("es", I2B2, {}, "none", "es-meddocan knows none of the corpus's labels .*--label-map"),
        ("en", OWN, {}, "none", r"en-i2b2 knows none of the corpus's labels \(Person, Tag\)"),
        ("fr", I2B2, {"language": "en"}, "en-i2b2", "the configured language is en"),
        ("en", I2B2, {"language": "none"}, "none", "the configuration asks for none"),
        ("en", I2B2, {"patterns": "none"}, "none", "the configuration asks for none"),
        ("es", I2B2, {"patterns": "en-i2b2"}, "en-i2b2", "names this set, and the notes look Spanish"),
        ("es", I2B2, {"map": "i2b2"}, "es-meddocan", "the notes look Spanish"),
    ],
)
def test_language_and_labels_choose_the_set(
    language: str, labels: list[str], keys: dict[str, str], name: str, why: str
) -> None:
    choice = choose(language, labels, **keys)
    assert choice.patterns.name == name
    assert bool(choice.patterns.patterns) == (name != "none")
    assert choice.patterns.labels | set(choice.missing) == set(labels)
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(choice.notice)


def test_where_the_language_cannot_be_told_the_labels_choose() -> None:
    choice = choose_patterns(Config(), MEDDOCAN, [Document("a", "Na 140 K 4")])
    assert (choice.patterns.name, choice.language) == ("es-meddocan", "")
    assert "could not be told" in choice.notice


def test_labels_that_no_pattern_finds_are_named() -> None:
    choice = choose("en", [*I2B2, "Person", "Anderes"])
    assert choice.missing == ("Anderes", "Person")
    assert "finds 2 of 4 labels, and nothing for Anderes, Person; the notes" in choice.notice


def test_a_map_gives_patterns_the_labels_of_the_corpus(tmp_path: Path) -> None:
    content = 'unlisted = "drop"\n[labels]\nPATIENT = "Person"\nDOCTOR = "Person"\nDATE = "Tag"\nCITY = "Ort"\n'
    choice = choose("en", OWN, map=map_file(tmp_path, content))
    assert choice.patterns.labels == set(OWN)
    assert choice.labels == {"PATIENT": "Person", "DOCTOR": "Person", "DATE": "Tag"}
    same = {pattern.name: pattern.label for pattern in choose("en", ["PATIENT", "DOCTOR", "DATE"]).patterns.patterns}
    assert {p.name: p.label for p in choice.patterns.patterns} == {n: choice.labels[k] for n, k in same.items()}


def test_built_in_maps_serve_coarser_labels() -> None:
    assert choose("en", ["NAME", "DATE"], map="category").patterns.labels == {"NAME", "DATE"}
    assert choose("es", ["PHI"], map="binary").patterns.labels == {"PHI"}


@pytest.mark.parametrize(
    ("keys", "error", "said"),
    [
        ({"patterns": "en-i2b2", "language": "es"}, ConfigError, "not for regex.language es"),
        ({"patterns": "xx"}, RuleError, "there is no pattern set 'xx'; there are: en-i2b2, es-meddocan"),
        ({"language": "fr"}, ConfigError, "regex.language"),
        ({"map": "nowhere.toml"}, ConfigError, "nowhere.toml: cannot be read"),
    ],
)
def test_what_does_not_fit_is_refused(keys: dict[str, str], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        choose("en", I2B2, **keys)


def test_a_map_that_lists_too_little_names_all_that_it_lacks(tmp_path: Path) -> None:
    # Written for `corpus convert`, from the corpus's labels to those of i2b2: the wrong way round.
    path = map_file(tmp_path, '[labels]\nPerson = "PATIENT"\nTag = "DATE"\n')
    with pytest.raises(ConfigError, match=r"not listed: ACCOUNT, .*, ZIP; the map translates the patterns' labels"):
        choose("en", OWN, map=path)


def test_a_model_keeps_the_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = {"DATE": "Datum", "PATIENT": "Person", "DOCTOR": "Person", "CITY": "Ort"}
    corpus, model = tmp_path / "train.jsonl", tmp_path / "model"
    renamed = [
        note.with_spans(Span(span.start, span.end, own[span.label]) for span in note.spans)
        for note in tiny_stack.notes()
    ]
    write_corpus(renamed, corpus, "jsonl")
    path = map_file(tmp_path, '[labels]\nDATE = "Datum"\n')
    arguments = [*tiny_stack.settings(tmp_path), "--submodels=regex", "--label-map", path, "--language=none"]
    # A file of patterns that is named is used in any language, but `none` means none, and so a model without any part.
    assert main(["train", str(corpus), "--out", str(tmp_path / "none"), *arguments]) == 2
    said = capsys.readouterr().err
    assert "patterns: none are used: the configuration asks for none" in said
    assert "finds 0 of the 80 PHI tokens" in said
    assert main(["train", str(corpus), "--out", str(model), *arguments[:-1]]) == 0
    assert "patterns: tiny finds 1 of 3 labels, and nothing for Ort, Person; " in capsys.readouterr().err
    Path(path).unlink()
    loaded, _ = load_model(model)
    assert loaded.feature_extractor.patterns.labels == {"Datum"}
    record = read_manifest(model).choices["patterns"]
    assert (record["set"], record["labels"], record["language"]) == ("tiny", {"DATE": "Datum"}, "")
    found = loaded.predict([Document("a", "Seen on 03/04/2020.")], PredictionOptions(submodel="regex"))
    assert [span.key for span in found[0]] == [(8, 18, "Datum")]

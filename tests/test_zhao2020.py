"""The configuration `zhao2020`: the paper's values, its features, and a stack that trains, saves and predicts."""

from pathlib import Path

import pytest
import tiny_stack

from ensemble_deid.config import Config, load_config, make_config
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import ConfigError
from ensemble_deid.features.columns import load_stemmer
from ensemble_deid.features.table import Column
from ensemble_deid.model.loading import load_model
from ensemble_deid.taggers.crf.tagger import CrfTagger
from ensemble_deid.taggers.crf.windows import read_windows
from ensemble_deid.taggers.tbed.tagger import find_templates
from ensemble_deid.training.train import train

# What the paper has no word for.
OURS = {"lexicon", "known_word", "field", "line_prefix", "in_note", "initial", "pattern", "spaced", "position_in_line"}


def test_it_has_the_values_of_table_3() -> None:
    config = load_config("zhao2020")
    neural = config.neural
    assert config.submodels == ("tbed", "crf", "neural")
    assert (config.folds, config.tbed.max_rules, config.crf.c2, config.stack.preset) == (10, 43, 0.0003, "zhao2020")
    assert (neural.kernel_sizes, neural.channels, neural.hidden // 2) == ((2, 3, 4, 5), 8, 128)
    assert (neural.character_dimension, neural.word_dimension, neural.feature_dimension) == (16, 128, 4)
    assert (neural.gradient_clip, neural.learning_rate) == (10.0, 0.0002)
    assert config.text.bpe_vocabulary > 0


def test_the_three_members_share_the_papers_features_and_none_of_ours() -> None:
    config = load_config("zhao2020")
    windows = [window for _, joined in read_windows(config.crf.windows) for window in joined]
    crosses = [name for name, joined in read_windows(config.crf.windows) if len(joined) > 1]
    assert len(crosses) == len(set(crosses)) == 49
    rules = [window for template in find_templates("zhao2020").templates for window in template.windows]
    for columns in ({w.column for w in windows}, {w.column for w in rules}, set(config.neural.features)):
        assert {"stem", "length", "digits", "case", "suffix3", "prefix3", "sentence_length", "section"} <= columns
        assert not columns & OURS


def test_words_are_stemmed_once_each_in_the_language_asked_for() -> None:
    words = Column.from_strings(["Admitted", "admits", "Admitted", "2019"])
    assert words.map_values(load_stemmer("english")).strings() == ["admit", "admit", "admit", "2019"]
    assert load_stemmer("spanish")("hospitales") == load_stemmer("spanish")("hospital")
    with pytest.raises(ConfigError, match=r"text\.stem: there is no Snowball stemmer 'english_'"):
        load_stemmer("english_")


def test_a_missing_stemmer_is_an_error_and_a_shareable_model_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"shareable: .* text\.stem gives stems of all words"):
        make_config({"shareable": True, "text": {"stem": "english"}})
    monkeypatch.setitem(__import__("sys").modules, "nltk.stem.snowball", None)
    with pytest.raises(ConfigError, match=r"text.stem needs nltk.*, which is not installed: .*\[nlp\]"):
        load_stemmer("english")


def tiny(folder: Path) -> Config:
    patterns = folder / "tiny.toml"
    patterns.write_text(tiny_stack.PATTERNS, encoding="utf-8")
    smaller = {
        "text.bpe_vocabulary": 90,
        "regex.patterns": patterns,
        "crf.max_iterations": 8,
        "neural.epochs": 1,
        "neural.hidden": 8,
        "neural.word_dimension": 8,
    }
    return load_config("zhao2020", overrides=[f"{key}={value}" for key, value in smaller.items()], folds=2, jobs=1)


def test_it_trains_saves_and_predicts_the_same_from_disk(tmp_path: Path) -> None:
    trained = train(tiny_stack.notes(), config=tiny(tmp_path), notify=lambda line: None)
    assert list(trained.ensemble.taggers) == ["tbed", "crf", "neural"]
    tbed, crf = trained.ensemble.taggers["tbed"], trained.ensemble.taggers["crf"]
    assert isinstance(crf, CrfTagger)
    assert any(name.startswith("stem[-1]&stem[0]=") for name in crf.weights.attributes())
    others = tiny_stack.notes(400, patients=2)
    batch = trained.ensemble.feature_extractor.extract(others)
    assert set(batch.table["initial"].strings()) > {"O"}
    dates = {span.key for spans in tbed.propose(batch, n_best=1).best for span in spans if span.label == "DATE"}
    assert dates, "the patterns' dates reach the ensemble through TBED"
    trained.save(tmp_path / "model")
    assert load_model(tmp_path / "model")[0].feature_extractor.stem is not None
    again = Deidentifier.load(tmp_path / "model")
    assert list(again.predict(others)) == list(trained.deidentifier.predict(others))

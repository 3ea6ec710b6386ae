"""Another system as a member of the stack: its spans are given by a file or a recognizer."""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_stack

from ensemble_deid import ConfigError, CorpusError, Deidentifier, Document, ModelError, Span, train
from ensemble_deid.cli.main import main
from ensemble_deid.config import make_config
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.deidentify.members import member_sources, parse_members
from ensemble_deid.features.batch import plain_batch
from ensemble_deid.features.patterns import parse_patterns
from ensemble_deid.model.loading import load_model, model_source
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.model.portions import portions
from ensemble_deid.note.reading import as_read
from ensemble_deid.taggers.given import GivenTagger, with_given
from ensemble_deid.training.ablate import ablate
from ensemble_deid.training.explain import explain

NOTES, OTHERS = tiny_stack.notes(), tiny_stack.notes(400, patients=2)
HERE = f"recognizer:{Path(__file__).stem}:names"


def names(text: str) -> Iterable[tuple[int, int, str, float]]:
    """Return what looks like a name, under a label that the corpus does not have."""
    return [(*match.span(), "PERSON", 0.8) for match in re.finditer("[A-Z][a-z]+ [A-Z][a-z]+(?=\n)", text)]


def write_spans(notes: Iterable[Document], path: Path, *, text: bool = False) -> Path:
    lines = []
    for note in notes:
        spans = [dict(zip(("start", "end", "label", "score"), found, strict=True)) for found in names(note.text)]
        lines.append(json.dumps({"id": note.id, "spans": spans, **({"text": note.text} if text else {})}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_spans([*NOTES, *OTHERS], tmp_path_factory.mktemp("spans") / "spans.jsonl")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, spans: Path) -> Path:
    folder = tmp_path_factory.mktemp("member")
    write_corpus(NOTES, folder / "train", "i2b2")
    write_corpus(OTHERS, folder / "dev", "i2b2")
    arguments = ["train", str(folder / "train"), "--dev", str(folder / "dev"), "--out", str(folder / "model")]
    tiny = tiny_stack.settings(folder, **{"stack.also_without": '["other"]'})
    assert main([*arguments, "--submodels", "regex,tbed", "--member", f"other={spans}", *tiny]) == 0
    return folder / "model"


def test_a_members_spans_are_candidates_and_its_labels_are_learned(model: Path, spans: Path) -> None:
    manifest = read_manifest(model)
    assert manifest.config["submodels"] == ["regex", "tbed", "other"]
    assert manifest.choices["members"]["other"]["file"] == spans.name
    assert json.loads((model / "member_other.json").read_text(encoding="utf-8"))["PERSON"] == {"PATIENT": 1.0}
    loaded = Deidentifier.load(model, members={"other": spans})
    (alone,) = loaded.predict(OTHERS[:1], submodel="other")
    assert [(span.label, span.score) for span in alone.spans] == [("PATIENT", 0.8)]
    assert "other" in {part for span in loaded.predict(OTHERS)[0].spans for part in span.source.split("+")}


def test_a_recognizer_stands_for_a_file(model: Path, spans: Path) -> None:
    by_file = Deidentifier.load(model, members={"other": spans}).predict(OTHERS)
    by_recognizer = Deidentifier.load(model, members={"other": HERE}, jobs=1)
    assert by_recognizer.predict(OTHERS) == by_file
    new = [replace(note, id=f"new-{note.id}") for note in OTHERS]
    assert [note.spans for note in by_recognizer.predict(new)] == [note.spans for note in by_file]


def test_an_installed_system_is_a_member(
    model: Path, spans: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    info = tmp_path / "other_system-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-system\nVersion: 1.2\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[ensemble_deid.submodels]\nother = test_member:names\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    installed = Deidentifier.load(model, members=parse_members(["other"]))
    assert list(installed.predict(OTHERS)) == list(Deidentifier.load(model, members={"other": spans}).predict(OTHERS))
    assert dict(installed.source.members)["other"].to_json()["version"] == "other-system 1.2"


def test_a_model_refuses_to_predict_without_its_member(model: Path, spans: Path) -> None:
    with pytest.raises(ConfigError, match=r"trained with the member other.*--submodels regex,tbed"):
        Deidentifier.load(model)
    with pytest.raises(ConfigError, match="not trained with a member third"):
        Deidentifier.load(model, members={"other": spans, "third": spans})
    with pytest.raises(ConfigError, match="must be given"):
        load_model(model)[0].predict(OTHERS)
    without = Deidentifier.load(model, submodels=["regex", "tbed"])
    assert without.predict(OTHERS)[0].spans


def test_a_note_that_the_file_lacks_is_withheld(model: Path, spans: Path) -> None:
    loaded = Deidentifier.load(model, members={"other": spans})
    unknown = replace(OTHERS[0], id="unknown")
    withheld, found = loaded.predict_each([unknown, OTHERS[1]])
    assert isinstance(withheld, CorpusError)
    assert "no line with the id unknown" in str(withheld)
    assert isinstance(found, Document)


@pytest.mark.parametrize("part", ["train", "dev"])
def test_training_names_the_notes_without_spans_once(part: str, tmp_path: Path) -> None:
    kept = [*NOTES[2 if part == "train" else 0 :], *OTHERS[2 if part == "dev" else 0 :]]
    members = member_sources({"other": write_spans(kept, tmp_path / "few.jsonl")})
    config = make_config({"submodels": ["regex"], "folds": 2, "jobs": 1})
    with pytest.raises(CorpusError, match=r"no line with the id .00-01 \(2 of \d notes"):
        train(NOTES, OTHERS, config=config, members=members)
    with pytest.raises(ConfigError, match="spans of other must be given"):
        train(NOTES, config=make_config({"submodels": ["regex"], "members": ["other"]}))


def test_explain_and_ablate_know_the_member(model: Path, spans: Path) -> None:
    members = member_sources({"other": spans})
    explained = explain(load_model(model, members=members)[0], OTHERS[0])
    proposers = {part.submodel for place in explained.places for found in place.candidates for part in found.proposals}
    assert "other" in proposers
    rows = ablate(model, OTHERS, jobs=1, report=lambda step: None, members=members)
    assert {"without other", "other alone"} <= {row.name for row in rows}
    with pytest.raises(ConfigError, match="trained with the member"):
        ablate(model, OTHERS, jobs=1, report=lambda step: None)


def test_commands_take_the_member(model: Path, spans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dev, member = str(model.parent / "dev"), ["--member", f"other={spans}"]
    assert main(["predict", str(model), dev, "--out", str(tmp_path / "found"), "--quiet", *member]) == 0
    assert main(["deidentify", str(model), dev, "--out", str(tmp_path / "clean"), "--quiet", *member]) == 0
    assert "other" in (tmp_path / "clean.run" / "manifest.jsonl").read_text(encoding="utf-8")
    assert main(["evaluate", dev, str(model), "--resamples=0", *member]) == 0
    assert main(["model", "explain", str(model), f"{dev}/{OTHERS[0].id}.xml", *member]) == 0
    capsys.readouterr()
    assert main(["evaluate", dev, str(model), "--resamples=0"]) == 2
    assert "--member other=FILE.jsonl" in capsys.readouterr().err
    before = spans.read_bytes()
    for line in (["predict", str(model), dev], ["deidentify", str(model), dev], ["evaluate", dev, str(model)]):
        assert main([*line, "--out", str(spans), *member]) == 2
    assert main(["train", dev, "--out", str(spans), *member]) == 2
    assert spans.read_bytes() == before


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("other=", "expected NAME=FILE"),
        ("nowhere", "name module:function, or an installed one"),
        ("crf=a.jsonl", "cannot be called 'crf'"),
        ("Other=a.jsonl", "cannot be called 'Other'"),
        ("other=missing.jsonl", "there is no file"),
        ("other=recognizer:nowhere:at_all", "cannot be imported"),
    ],
)
def test_a_wrong_member_is_one_clear_error(given: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        member_sources(parse_members([given]))


def test_a_wrong_line_names_its_place(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    line = json.dumps({"id": NOTES[0].id, "spans": []})
    for content, problem in (
        (f"{line}\n{line}\n", "spans.jsonl:2: another line"),
        ('{"id": "a"}\n', "spans.jsonl:1.*spans"),
        ("{\n", "spans.jsonl:1"),
    ):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(CorpusError, match=problem):
            member_sources({"other": path})
    far = {"id": NOTES[0].id, "spans": [{"start": 0, "end": 99999, "label": "NAME"}]}
    for entry, problem in ((far, "spans.jsonl:1: span 0"), ({**far, "text": "other"}, "its text is not that")):
        path.write_text(json.dumps(entry), encoding="utf-8")
        with pytest.raises(CorpusError, match=problem):
            with_given(NOTES[0], member_sources({"other": path}))


def test_given_spans_follow_the_text_into_its_reading_and_into_stretches() -> None:
    note = Document(
        "a", "Seen by A&amp;B.\n\nBack on Monday.", given={"other": (Span(26, 32, "DAY"), Span(8, 15, "X"))}
    )
    read = as_read(note)
    assert [read.text[span.start : span.end] for span in read.given["other"]] == ["Monday", "A&B"]
    pieces = [piece for portion in portions([read], size=18) for piece in portion]
    assert len(pieces) == 2
    shown = [[p.document.text[s.start : s.end] for s in p.document.given["other"]] for p in pieces]
    assert shown == [["A&B"], ["Monday"]]


def test_a_label_of_the_members_own_becomes_those_that_it_overlaps() -> None:
    text = "Ada met Bob and Cy."
    gold = (Span(0, 3, "DOCTOR"), Span(8, 11, "DOCTOR"), Span(16, 18, "PATIENT"))
    given = tuple(replace(span, label="PERSON", score=0.6) for span in gold)
    note = Document("a", text, gold, given={"other": (*given, Span(4, 7, "VERB"))})
    batch = plain_batch([note], patterns=parse_patterns(tiny_stack.PATTERNS, path="tiny"), split_lines=False)
    tagger = GivenTagger.fit("other", batch, labels=["DOCTOR", "PATIENT"])
    found = tagger.propose(batch, n_best=1)
    assert [(span.start, span.label, span.score) for span in found.best[0]] == [(s.start, "DOCTOR", 0.6) for s in gold]
    assert (16, "PATIENT", 0.3) in [(span.start, span.label, round(span.score, 3)) for span in found.candidates[0]]


def test_a_damaged_member_is_refused(tmp_path: Path) -> None:
    GivenTagger("other", {"PERSON": {"PATIENT": 1.0}}).save(tmp_path)
    assert GivenTagger.load("other", tmp_path, labels=["PATIENT"]).labels == {"PERSON": {"PATIENT": 1.0}}
    for labels, content in ((["DATE"], None), (["PATIENT"], '{"PERSON": 1}'), (["PATIENT"], "[]")):
        if content:
            (tmp_path / "member_other.json").write_text(content, encoding="utf-8")
        with pytest.raises(ModelError, match="member_other"):
            GivenTagger.load("other", tmp_path, labels=labels)


def test_processes_load_the_same_member(model: Path, spans: Path) -> None:
    source = model_source(model, members=member_sources({"other": spans}))
    assert hash(source) == hash(model_source(model, members=member_sources({"other": spans})))
    apart = Deidentifier.load(model, members={"other": spans}, jobs=2)
    assert list(apart.predict_each(OTHERS, jobs=2, batch_size=2)) == Deidentifier.load(
        model, members={"other": spans}
    ).predict(OTHERS)

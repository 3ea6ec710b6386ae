"""Learning from reviewed notes: the correction of scores, what it is measured on, and the model that comes out."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_stack

from ensemble_deid import Deidentifier
from ensemble_deid.cli.main import main
from ensemble_deid.errors import CorpusError, ModelError
from ensemble_deid.model.additions import INCLUSION, PATTERNS, changeable_files, sentence_ranges
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.model.measured import CHOSEN_WITH
from ensemble_deid.model.package import export_model
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.service.review.edits import finish
from ensemble_deid.service.review.file import Facts, ReviewFile, settle_facts
from ensemble_deid.service.review.fill import add_note
from ensemble_deid.stacking.candidates import CandidateTable
from ensemble_deid.stacking.site_stage import KINDS, ScoredCandidates, SiteStage, _Tokens
from ensemble_deid.stacking.stacker import SITE
from ensemble_deid.training import learn as learning
from ensemble_deid.training.learn import Lists, SiteAdditions, learn
from ensemble_deid.training.rule_replacement import restore_rules
from ensemble_deid.training.rules import RuleModel


def candidates(note: Document, *strings: str, score: float = 0.05) -> ScoredCandidates:
    """Return each string as a candidate that the model does not believe in."""
    starts = sorted(note.text.index(string) for string in strings)
    ends = [start + len(string) for start, string in sorted((note.text.index(s), s) for s in strings)]
    n = len(strings)
    table = CandidateTable(
        ("DATE",),
        ("crf",),
        document=np.zeros(n, np.int32),
        start=np.array(starts, np.int32),
        end=np.array(ends, np.int32),
        label=np.zeros(n, np.int32),
        confidence=np.full((n, 1), score),
        chosen=np.zeros((n, 1), bool),
    )
    return ScoredCandidates(table, np.zeros((n, 2)), np.full(n, score), np.full(n, score))


def coded(patient: int) -> Document:
    day = f"{10 + patient}MR81"
    note = tiny_stack.note(
        f"n{patient}", "seen ", (day, "DATE"), " bed ", f"{patient}B", " stable\n", patient=f"p{patient}"
    )
    return note


def strings(patient: int) -> tuple[str, str]:
    return f"{10 + patient}MR81", f"{patient}B"


def test_the_codes_of_a_site_are_learned_from_other_patients() -> None:
    notes = [(coded(patient), candidates(coded(patient), *strings(patient))) for patient in range(6)]
    stage = SiteStage.fit(notes)
    new = coded(8)
    rank, score = stage.corrected([new], candidates(new, *strings(8)))
    # The date, of which no note has the string, and the bed.
    assert score[0] > 0.4 > 0.05 > score[1]
    assert rank[0] > 0.4 > 0.05 > rank[1]


def test_no_key_of_fewer_patients_is_kept() -> None:
    notes = [coded(patient) for patient in range(3)]
    stage = SiteStage.fit([(note, candidates(note, *strings(k))) for k, note in enumerate(notes)], min_patients=2)
    slow: dict[tuple[str, str], list[tuple[str, bool]]] = {}
    for note in notes:
        tokens = _Tokens.of(note.text)
        for keys, start in zip(tokens.keys, tokens.start.tolist(), strict=True):
            phi = any(span.start <= start < span.end for span in note.spans)
            for named in zip(KINDS, keys, strict=True):
                slow.setdefault(named, []).append((note.patient, phi))
    wanted = {key: seen for key, seen in slow.items() if len({patient for patient, _ in seen}) > 1}
    kept = {(kind, key): pair for kind, table in stage.counts.items() for key, pair in table.items()}
    assert kept == {key: (sum(phi for _, phi in seen), len(seen)) for key, seen in wanted.items()}
    assert ("word", "mr") in kept
    assert ("word", "10") not in kept


def test_where_notes_say_nothing_a_score_stays() -> None:
    notes = [(coded(patient), candidates(coded(patient))) for patient in range(3)]
    stage = SiteStage.fit(notes)
    other = Document("x", "Quarterly review", patient_id="x")
    rank, score = stage.corrected([other], candidates(other, "Quarterly", score=0.3))
    assert (rank[0], score[0]) == (pytest.approx(0.3), pytest.approx(0.3))


def test_a_stage_is_read_as_it_was_written_and_damage_is_seen() -> None:
    stage = SiteStage.fit([(coded(k), candidates(coded(k), *strings(k))) for k in range(4)])
    text = stage.to_json()
    assert SiteStage.from_json(text, features=2).to_json() == text
    content = json.loads(text)
    for broken in ({**content, "rank": [0.0]}, {**content, "counts": {}}, {**content, "score": [None]}):
        with pytest.raises(ModelError, match="damaged"):
            SiteStage.from_json(json.dumps(broken), features=2)
    with pytest.raises(ModelError, match="damaged"):
        SiteStage.from_json(text, features=3)


def test_very_long_words_and_lines_take_linear_time() -> None:
    assert len(_Tokens.of("a1" * 50_000).keys) == 100_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A review in which somebody finished eight notes of four patients."""
    file = ReviewFile(tmp_path / "review.sqlite", create=True)
    settle_facts(file, Facts("0f", 0.5, ("PATIENT", "DATE", "CITY", "DOCTOR")))
    with file.transaction() as database:
        for number, note in enumerate(tiny_stack.notes(609), start=1):
            add_note(database, note, 0.5, submodels=4)
            finish(database, "kim", number, finished=True, settle=True)
    file.close()
    return file.path


def test_a_model_that_has_learned(
    tiny_model: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    learned_from: list[set[str]] = []
    fit = SiteStage.fit
    monkeypatch.setattr(
        learning.SiteStage,
        "fit",
        lambda notes, **kwargs: (learned_from.append({d.patient for d, _ in notes}), fit(notes, **kwargs))[1],
    )
    better = tmp_path / "better"
    options = ["--false-positives", "100", "--folds", "4", "--remark", "ward 7"]
    assert main(["review", "learn", str(tiny_model), str(store), "--out", str(better), *options, "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "has learned from 8 notes of 4 patients" in said
    assert said.count("PHI tokens missed") == 2
    # Each fold left its own patient out, without new rules and with them; what is kept learned from all.
    everyone = {"609", "610", "611", "612"}
    assert sorted(len(patients) for patients in learned_from[:9]) == [*[3] * 8, 4]
    assert set.union(*(everyone - patients for patients in learned_from[:8])) == everyone

    old, new = read_manifest(tiny_model), read_manifest(better)
    changed = {name for name in new.files if new.files[name] != old.files.get(name)}
    assert changed == {SITE, "stacker.json"}
    assert new.choices["learned"][0]["remark"] == "ward 7"
    ensemble, _ = load_model(better)
    assert ensemble.stacker.site is not None
    assert ensemble.stacker.threshold == new.figures["threshold"]["threshold"]
    reset = shutil.copytree(better, tmp_path / "reset")
    assert main(["model", "threshold", str(reset), "--reset"]) == 0
    assert load_model(Path(reset))[0].stacker.threshold == ensemble.stacker.threshold

    notes = tiny_stack.notes(609)
    with pytest.raises(ModelError, match="has learned from reviewed notes already"):
        learn(better, tmp_path / "again", notes, wanted=100)
    with pytest.raises(ModelError, match="exists"):
        learn(tiny_model, better, notes, wanted=100)
    with pytest.raises(ModelError, match="at least two patients"):
        learn(tiny_model, tmp_path / "one", notes[:2], wanted=100)
    with pytest.raises(ModelError, match="added after training"):
        export_model(better, tmp_path / "shared", shareable=True)
    export_model(better, tmp_path / "exported")
    assert SITE in read_manifest(tmp_path / "exported").files
    # Before the model is loaded.
    monkeypatch.setattr(learning, "load_model", None)
    with pytest.raises(CorpusError, match="among the training notes"):
        learn(tiny_model, tmp_path / "known", tiny_stack.notes(), wanted=100)


def test_what_notes_repeat_is_harvested_where_it_helps(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tiny_stack.notes(609)
    monkeypatch.setattr(learning, "_most_helpful", lambda *args, **kwargs: Lists(patterns=True, sentences=True))
    learned = learn(tiny_model, tmp_path / "better", notes, wanted=900)
    assert learned.patterns > 0
    model = Deidentifier.load(tmp_path / "better")
    manifest = read_manifest(tmp_path / "better")
    assert {PATTERNS, INCLUSION} & set(manifest.files) == {PATTERNS, *([INCLUSION] if learned.sentences else [])}
    assert manifest.figures[CHOSEN_WITH] == changeable_files(manifest)
    new = tiny_stack.note("801-01", "Patient: ", ("Zora Quell", "PATIENT"), "\nDate: ", ("01/02/2020", "DATE"), "\n")
    (found,) = model.predict([new])
    assert any(span.is_enforced for span in found.spans)


def test_rules_are_learned_where_they_help(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words that the model does not know are towns in notes of six patients."""
    monkeypatch.setattr(learning, "_most_helpful", lambda *args, allowed, **kwargs: Lists(rules=allowed.rules))
    towns = ("Zorvik", "Quarn", "Uldmark", "Vexby", "Ystrand", "Xanlo")
    notes = [
        tiny_stack.note(f"t{k}", "moved to sector ", (town, "CITY"), " in spring\n", patient=f"t{k}")
        for k, town in enumerate(towns)
    ]
    learned = learn(tiny_model, tmp_path / "better", notes, wanted=1, folds=3)
    assert learned.rules > 0
    assert learned.after is not None
    assert learned.after.counts.fn == 0
    manifest = read_manifest(tmp_path / "better")
    assert manifest.figures[CHOSEN_WITH] == changeable_files(manifest)
    (changed,) = manifest.rules_replaced
    assert changed["remark"] == "learned from reviewed notes"
    before = RuleModel.load(tiny_model).rules
    better = RuleModel.load(tmp_path / "better")
    assert len(better.rules) == len(before) + learned.rules
    new = tiny_stack.note("x", "moved to sector ", ("Jorvund", "CITY"), " in spring\n")
    assert better.tagger.propose(better.batch([new]), n_best=1).best[0][0].key == new.spans[0].key
    assert restore_rules(tmp_path / "better") == (1, len(before))
    # A list that people have seen stays.
    seen = Path(shutil.copytree(tiny_model, tmp_path / "seen"))
    assert main(["rules", "approve", str(seen), "--rule", "1", "--by", "Ada", "--date", "2026-01-02"]) == 0
    assert learn(seen, tmp_path / "kept", notes, wanted=1, folds=3).rules == 0


def test_lists_are_learned_from_three_patients_and_never_from_those_held_out() -> None:
    notes = [
        tiny_stack.note(f"a{k}", "Ward ", (f"Q{k}7", "IDNUM"), " open\nNo fever today.\n", patient=f"p{k}")
        for k in range(4)
    ]
    few = SiteAdditions.harvested(notes[:2], min_patients=1)
    assert few == SiteAdditions(None, None)
    additions = SiteAdditions.harvested(notes[:3], min_patients=1)
    assert additions.sentences is not None
    wrong = Span(13, 15, "DATE")
    (sentence,) = [notes[3].text[a:b] for a, b in sentence_ranges(notes[3]) if "fever" in notes[3].text[a:b]]
    at = notes[3].text.index(sentence)
    found = additions.applied(notes[3].with_spans([replace(wrong, start=at, end=at + 2)]))
    assert not [span for span in found.spans if span.start == at]
    kept = additions.only(Lists()).applied(notes[3].with_spans([wrong]))
    assert kept.spans == (wrong,)


def test_of_equal_lists_the_fewest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = tiny_stack.notes(609)
    nothing = [note.with_spans(()) for note in notes]
    whole = [note.with_spans([replace(span, score=0.9) for span in note.spans]) for note in notes]
    answers = {lists: whole if lists.patterns else nothing for lists in learning._ANY}
    chosen = learning._most_helpful(answers, notes, wanted=5, allowed=Lists(True, True, True))
    assert chosen == Lists(patterns=True)
    assert learning._most_helpful(answers, notes, wanted=5, allowed=Lists(True, False, True)) == Lists()

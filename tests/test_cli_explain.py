"""`explain`: every decision of a model on a note, and why it did not find what stands at a place."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_stack

from ensemble_deid.cli.main import main
from ensemble_deid.config import make_config
from ensemble_deid.features.batch import Batch
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.portions import portions
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.stacking.candidates import collect
from ensemble_deid.taggers.base import Proposals
from ensemble_deid.training import explain as module
from ensemble_deid.training.explain import Explanation, explain
from ensemble_deid.training.train import train

TEXT = "Patient: Anna Bell\nSeen by Dr. Irons on 03/04/2020. BP 120/80.\n"


@pytest.fixture(scope="module")
def ensemble(tiny_model: Path) -> Ensemble:
    return load_model(tiny_model)[0]


@pytest.fixture
def note(tmp_path: Path) -> Path:
    path = tmp_path / "note.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def all_candidates(explanation: Explanation) -> dict[tuple[int, int, str], Any]:
    return {candidate.key: candidate for place in explanation.places for candidate in place.candidates}


def test_every_span_that_is_found_is_explained_with_its_own_figures(ensemble: Ensemble) -> None:
    document = Document("n", TEXT)
    explanation = explain(ensemble, document)
    found = ensemble.predict([document])[0]
    assert [(place.start, place.end) for place in explanation.places] == [(span.start, span.end) for span in found]
    scores = {span.key: (span.score, span.source) for span in found}
    batch = ensemble.feature_extractor.extract([document])
    proposed = ensemble.propose(batch)
    for place in explanation.places:
        first = place.candidates[0]
        assert (place.found, first.outcome) == ((first.key,), "found")
        assert first.probability == scores[first.key][0]
        assert "+".join(p.submodel for p in first.proposals if p.answer) == scores[first.key][1]
        for proposal in first.proposals:
            spans = (*proposed[proposal.submodel].best[0], *proposed[proposal.submodel].candidates[0])
            assert proposal.confidence == max(span.score for span in spans if span.key == first.key)


def test_all_candidates_of_the_whole_note_are_accounted_for(ensemble: Ensemble) -> None:
    document = Document("n", TEXT)
    explanation = explain(ensemble, document, places=[(0, len(TEXT))])
    batch = ensemble.feature_extractor.extract([document])
    proposals = ensemble.propose(batch)
    scored = ensemble.stacker.predict_proba(proposals, batch)[0]
    probability = {span.key: span.score for span in scored}
    rows = all_candidates(explanation)
    everything = {s.key for p in proposals.values() for spans in (p.best[0], p.candidates[0]) for s in spans}
    tokens = {span.key for span in scored if span.source == "token"}
    assert tokens
    assert set(rows) == everything | tokens
    assert {key: row.probability for key, row in rows.items() if row.probability is not None} == probability
    assert {key for key, row in rows.items() if row.outcome == "found"} == {
        span.key for span in ensemble.predict([document])[0]
    }
    for row in rows.values():
        if row.outcome == "below the threshold":
            assert row.probability < ensemble.stacker.threshold
        if row.outcome == "confidence too low to be a candidate":
            assert row.probability is None
            assert max(p.confidence for p in row.proposals) < ensemble.stacker.min_confidence
            assert not any(p.answer for p in row.proposals)


def test_a_single_token_that_a_submodel_proposed_too_weakly_is_one_row_with_the_tokens_score(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, everywhere = Document("n", TEXT), [(0, len(TEXT))]
    strict = replace(ensemble, stacker=replace(ensemble.stacker, min_confidence=0.2))
    before = all_candidates(explain(strict, document, places=everywhere))
    token = next(row for row in before.values() if [p.submodel for p in row.proposals] == ["token"])
    real = Ensemble.propose

    def with_a_doubt(self: Ensemble, batch: Batch) -> dict[str, Proposals]:
        proposals = real(self, batch)
        crf = proposals["crf"]
        return {**proposals, "crf": replace(crf, candidates=((*crf.candidates[0], Span(*token.key, 0.1)),))}

    monkeypatch.setattr(Ensemble, "propose", with_a_doubt)
    (place,) = explain(strict, document, places=everywhere).places
    keys = {candidate.key for candidate in place.candidates}
    assert len(place.candidates) == len(keys)
    row = next(candidate for candidate in place.candidates if candidate.key == token.key)
    assert [(p.submodel, p.confidence) for p in row.proposals] == [("crf", 0.1), ("token", token.probability)]
    assert (row.probability, row.outcome) == (token.probability, "below the threshold")


@pytest.fixture(scope="module")
def net_ensemble() -> Ensemble:
    """A model with a net under its submodels, `stack.net`."""
    stack = {"c_grid": [1.0], "gamma_grid": [0.01], "weight_grid": [1.0], "net": True}
    content = {"submodels": ["regex", "crf"], "folds": 2, "jobs": 1, "crf": {"max_iterations": 8}, "stack": stack}
    trained = train(tiny_stack.notes(), [], config=make_config(content), report=lambda step: None)
    return trained.ensemble


@pytest.mark.parametrize("min_confidence", [0.01, 0.9])
def test_what_the_net_alone_proposed_is_explained(net_ensemble: Ensemble, min_confidence: float) -> None:
    stacker = replace(net_ensemble.stacker, threshold=0.0, min_confidence=min_confidence)
    loose = replace(net_ensemble, stacker=stacker)
    document = Document("n", TEXT)
    (place,) = explain(loose, document, places=[(0, len(TEXT))]).places
    assert place.found == tuple(span.key for span in loose.predict([document])[0])
    keys = {candidate.key for candidate in place.candidates}
    assert len(place.candidates) == len(keys)
    batch = loose.feature_extractor.extract([document])
    proposals = loose.propose(batch)
    scored = {span.key: span.score for span in stacker.predict_proba(proposals, batch)[0]}
    assert {c.key: c.probability for c in place.candidates if c.probability is not None} == scored
    of_net = {c.key for c in place.candidates if any(p.submodel == "net" for p in c.proposals)}
    candidates = collect(proposals, labels=stacker.labels, min_confidence=min_confidence).keys()
    tokens = {c.key for c in place.candidates if any(p.submodel == "token" for p in c.proposals)}
    assert of_net
    assert of_net == set(scored) - set(candidates) - tokens


def test_what_a_better_candidate_beats_is_named(ensemble: Ensemble) -> None:
    loose = replace(ensemble, stacker=replace(ensemble.stacker, threshold=0.0))
    rows = all_candidates(explain(loose, Document("n", TEXT), places=[(0, len(TEXT))]))
    beaten = [row for row in rows.values() if row.outcome == "overlapped"]
    assert beaten
    for row in beaten:
        assert row.beaten_by
        for key in row.beaten_by:
            winner = rows[key]
            assert winner.outcome == "found"
            assert winner.start < row.end
            assert row.start < winner.end
        assert max(rows[key].probability for key in row.beaten_by) >= row.probability


def test_patterns_and_rules_of_a_place(ensemble: Ensemble) -> None:
    start = TEXT.index("03/04")
    date, name = explain(ensemble, Document("n", TEXT), places=[(start, start + 2), (9, 13)]).places
    assert [(m.pattern, m.start, m.end, m.used) for m in date.patterns] == [("slashed date", start, start + 10, True)]
    assert not name.patterns
    assert name.rules
    assert all(rule.words.startswith("where ") and rule.start < 13 and rule.end > 9 for rule in name.rules)
    assert [rule.number for rule in name.rules] == sorted(rule.number for rule in name.rules)


def test_a_note_in_stretches_keeps_its_offsets(ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch) -> None:
    document = Document("n", f"{TEXT}\n{TEXT}")
    monkeypatch.setattr(module, "portions", lambda documents: portions(documents, size=len(TEXT) + 5))
    loose = replace(ensemble, stacker=replace(ensemble.stacker, threshold=0.0))
    explanation = explain(loose, document, places=[(len(TEXT), len(document.text))])
    (place,) = explanation.places
    shift = len(TEXT) + 1
    assert all(c.start >= shift for c in place.candidates)
    assert (shift + 9, shift + 18, "PATIENT") in place.found
    found = {c.key for c in place.candidates if c.outcome == "found"}
    assert {key for c in place.candidates for key in c.beaten_by} <= found
    assert {m.start for m in place.patterns} == {shift + TEXT.index("03/04")}
    assert min(rule.start for rule in place.rules) >= shift


def test_a_blank_note_and_a_place_where_nothing_is(ensemble: Ensemble) -> None:
    assert explain(ensemble, Document("n", "")).places == ()
    (place,) = explain(ensemble, Document("n", " \n "), places=[(0, 1)]).places
    assert (place.found, place.candidates, place.patterns, place.rules) == ((), (), (), ())


# The command


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["model", "explain", *map(str, arguments)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def test_the_text_quotes_the_note_only_when_it_is_asked_to(
    tiny_model: Path, note: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = TEXT.index("Irons")
    out = run(capsys, tiny_model, note)
    assert "Irons" not in out
    assert "Anna" not in out
    assert f"\n{start}-{start + 5}: found\n    {start}-{start + 5} DOCTOR: probability 0." in out
    assert "proposed by" in out
    quoted = run(capsys, tiny_model, note, "--text")
    assert f"{start}-{start + 5} 'Irons': found" in quoted


def test_places_that_were_not_found(tiny_model: Path, note: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = TEXT.index("120")
    out = run(capsys, tiny_model, note, "--at", f"{place}-{place + 3}", "--at", "0")
    assert f"\n{place}-{place + 3}: nothing is found here\n" in out
    assert "\n0-1: nothing is found here\n" in out
    assert out.endswith("2 places explained\n")


def test_json_has_all_of_it(
    tiny_model: Path, ensemble: Ensemble, note: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "e.json"
    run(capsys, tiny_model, note, "--out", path)
    content = json.loads(path.read_text(encoding="utf-8"))
    explanation = explain(ensemble, Document("note", TEXT))
    assert content["threshold"] == explanation.threshold
    assert [place["candidates"][0]["probability"] for place in content["places"]] == [
        place.candidates[0].probability for place in explanation.places
    ]
    assert "Irons" not in path.read_text(encoding="utf-8")
    run(capsys, tiny_model, note, "--out", path, "--text")
    first = json.loads(path.read_text(encoding="utf-8"))["places"][0]
    assert first["text"] == first["candidates"][0]["text"] == "Anna Bell"


def test_the_page_escapes_what_the_note_holds(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note, path = tmp_path / "<b>.txt", tmp_path / "e.html"
    note.write_text("Patient: <script>alert(1)</script> Anna\nDate: 03/04/2020\n", encoding="utf-8")
    run(capsys, tiny_model, note, "--out", path, "--text", "--at", "9-38")
    page = path.read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "contains protected health information" in page
    run(capsys, tiny_model, note, "--out", path)
    page = path.read_text(encoding="utf-8")
    assert "&lt;script&gt;" not in page
    assert "slashed date" in page
    assert 'content="default-src &#x27;none&#x27;' in page


@pytest.mark.parametrize("at", ["x", "5-5", "9-3", "0-9999", "-3", "3-", "", "1-2-3", "²"])
def test_a_place_that_is_none_is_refused(
    tiny_model: Path, note: Path, capsys: pytest.CaptureFixture[str], at: str
) -> None:
    assert main(["model", "explain", str(tiny_model), str(note), f"--at={at}"]) == 2
    assert f"--at {at}: expected START or START-END, offsets of the note's {len(TEXT)}" in capsys.readouterr().err


def test_one_note_at_a_time(tiny_model: Path, tiny_dev: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "explain", str(tiny_model), str(tiny_dev)]) == 2
    assert "expected one note, not 4" in capsys.readouterr().err

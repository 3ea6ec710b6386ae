"""The English model that is shipped: whole, trained on the corpus that is here, and as good as its card says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from made_keys import KEY
from scipy.stats import fisher_exact

from ensemble_deid.cli.report_facts import used_before
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.one_pass import finish_together
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.evaluation.operating_points import find_point
from ensemble_deid.model import manifest as manifest_module
from ensemble_deid.model.manifest import fingerprint, read_manifest
from ensemble_deid.model.measured import out_of_fold
from ensemble_deid.note.document import Document
from ensemble_deid.training.reports import figures_record, figures_table, measure_model

PROJECT = Path(__file__).parents[1] / "models" / "ensemble_deid_en"
MODEL = PROJECT / "ensemble_deid_en" / "model"
LARGEST = 60_000_000


def test_it_is_whole_and_trained_on_this_corpus() -> None:
    manifest = read_manifest(MODEL)
    assert manifest.fingerprint == fingerprint(read_corpus("demo:train").documents)
    assert manifest.dev_fingerprint == fingerprint(read_corpus("demo:dev").documents)
    (record,) = json.loads((PROJECT / "ensemble_deid_en" / "figures.json").read_text(encoding="utf-8"))
    assert record["fingerprint"] == fingerprint(read_corpus("demo:test").documents)
    # Its own threshold was chosen on the dev notes, the others on those they are reported on.
    assert [row["oracle"] for row in record["rows"]] == [False, True, True, True, True]
    assert (PROJECT / "README.md").read_text(encoding="utf-8").count("(oracle) |") == 4
    assert sum(path.stat().st_size for path in PROJECT.rglob("*") if path.is_file()) < LARGEST
    assert not (MODEL / "private").exists()


def test_each_of_its_files_is_read_once_however_its_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_module, "_JUST_NOW", 0)
    read_manifest(MODEL)
    before = manifest_module._digest_of.cache_info().misses
    monkeypatch.chdir(MODEL.parent)
    read_manifest(Path("model"))
    assert manifest_module._digest_of.cache_info().misses == before


def test_it_knows_the_notes_it_was_made_with() -> None:
    assert used_before(MODEL, read_corpus("demo:train")) == "2739 of 2739 notes were training notes"
    dev = used_before(MODEL, read_corpus("demo:dev"))
    assert dev == "the threshold was chosen on 186 of them; they are the dev notes of training"
    assert used_before(MODEL, read_corpus("demo:test")) == "no use on record"
    assert attacks_on_it()["model"] == read_manifest(MODEL).checksum


def attacks_on_it() -> dict[str, Any]:
    attacks: dict[str, Any] = json.loads((PROJECT / "ensemble_deid_en" / "attacks.json").read_text(encoding="utf-8"))
    return attacks


def test_the_results_page_has_the_figures_of_this_very_model() -> None:
    results = " ".join((PROJECT.parents[1] / "docs" / "results.md").read_text(encoding="utf-8").split())
    (record,) = json.loads((PROJECT / "ensemble_deid_en" / "figures.json").read_text(encoding="utf-8"))
    own, *oracle = record["rows"]
    frozen = (
        f"{100 * own['token_recall']:.2f} at {own['false_positives_per_1000']:.1f} ({100 * own['fully_redacted']:.0f})"
    )
    line = results[results.index("| **demo test**") : results.index("| E sites")]
    assert frozen in line
    for row in oracle[:3]:
        assert f"| {100 * row['token_recall']:.2f} ({100 * row['fully_redacted']:.0f}) |" in line
    found = attacks_on_it()["exposure"]["all"]["attacks"]
    for attack, words in {
        "reader's rules": "a reader's rules",
        "parrot": "a parrot",
        "CRF that knows other notes' misses": "a CRF that knows the misses of demo dev",
    }.items():
        picked = found[attack]["picked"]
        low, high = picked["interval"]["low"], picked["interval"]["high"]
        assert f"{words} {100 * picked['value']:.1f}% ({100 * low:.1f} to {100 * high:.1f})" in results


def test_its_leave_site_out_curves_are_in_it() -> None:
    manifest = read_manifest(MODEL)
    everything = tuple(manifest.config["submodels"])
    for submodels in (everything, tuple(name for name in everything if name != "transformer")):
        found = out_of_fold(manifest, submodels)
        assert found is not None
        assert found.notes == "its 2,739 training notes of 280 sites, out of fold"
        point = find_point(found.curve, rule="sensitivity", wanted=0.99)
        assert point is not None
        assert (point.counts.recall or 0) >= 0.99


def test_it_finds_phi_with_and_without_the_encoder() -> None:
    text = "Seen by Dr. Ada Strong on 4/2/2071 at Millbrook General Hospital; her mother Rosa called from 555-0143."
    for submodels in (None, ["regex", "tbed", "crf", "neural"]):
        clean = Deidentifier.load(MODEL, submodels=submodels).deidentify(text).text
        assert clean is not None
        assert "Strong" not in clean
        assert "4/2/2071" not in clean


@pytest.mark.long
def test_it_finds_the_surrogates_where_phi_was() -> None:
    """The model cannot tell surrogates from PHI: it finds nearly all, not fewer than of annotated PHI beyond chance."""
    model = Deidentifier.load(MODEL, submodels=["regex", "tbed", "crf", "neural"])
    gold = read_corpus("demo:dev").documents
    found = model.predict(gold)
    replacer = Replacer.from_options("surrogate", key=KEY, settings={"min_score": 0})
    outcomes = list(finish_together(found, RunOptions(replacer=replacer), None))
    assert all(outcome.text is not None for outcome in outcomes)
    again = model.predict([Document(str(k), outcome.text or "") for k, outcome in enumerate(outcomes)])
    surrogates = [
        any(span.start < place.new_end and place.new_start < span.end for span in note.spans)
        for note, outcome, before in zip(again, outcomes, gold, strict=True)
        for place in outcome.replaced
        if (outcome.text or "")[place.new_start : place.new_end] != f"[{place.label}]"
        # What stands in the place of a word that was none is no matter.
        and any(span.start < place.end and place.start < span.end for span in before.spans)
    ]
    annotated = [
        any(span.overlaps(other) for other in note.spans)
        for note, before in zip(found, gold, strict=True)
        for span in before.spans
    ]
    assert min(len(surrogates), len(annotated)) > 2000
    assert sum(surrogates) / len(surrogates) > 0.9
    table = [[sum(found), len(found) - sum(found)] for found in (surrogates, annotated)]
    assert fisher_exact(table, alternative="less").pvalue > 0.05


def test_the_card_has_all_that_make_writes_on_it() -> None:
    recipe = (PROJECT.parents[1] / "Makefile").read_text(encoding="utf-8").partition("\nenglish-model:")[2]
    written = re.findall(r"printf '(.+)' >> \$\(ENGLISH\)/README\.md", recipe.partition("\n\n")[0])
    card = (PROJECT / "README.md").read_text(encoding="utf-8")
    assert len(written) == 2
    assert [text for text in written if text.replace("\\n", "\n") not in card] == []


@pytest.mark.long
def test_its_figures_are_those_on_the_card() -> None:
    documents = read_corpus("demo:test").documents
    rows = measure_model(Deidentifier.load(MODEL), documents)
    (record,) = json.loads((PROJECT / "ensemble_deid_en" / "figures.json").read_text(encoding="utf-8"))
    measured = json.loads(json.dumps(figures_record("demo:test", documents, rows)))
    assert measured["fingerprint"] == record["fingerprint"]
    for now, then in zip(measured["rows"], record["rows"], strict=True):
        assert (now["point"], now["oracle"]) == (then["point"], then["oracle"])
        # Kernels differ a little between processors, and a score near a threshold may fall on either side.
        for name in ("strict_f1", "token_recall", "token_precision"):
            assert now[name] == pytest.approx(then[name], abs=0.005)
    heads = figures_table("demo:test", documents, rows).splitlines()[:3]
    assert "\n".join(heads) in (PROJECT / "README.md").read_text(encoding="utf-8")

"""`deidentify` with styles, policies and keys: what the options say is what the output has."""

import re
from pathlib import Path

import pytest
import tiny_stack
from made_keys import KEY

from ensemble_deid import Deidentifier
from ensemble_deid.cli.main import main
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.model.options import BATCH_SIZE

DOCUMENTS = tiny_stack.notes(600, patients=2)
FIRST = f"{DOCUMENTS[0].id}.txt"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_corpus(DOCUMENTS, tmp_path / "notes", "plain")
    (tmp_path / "key").write_text(f"2026: {KEY.text}\n")
    return tmp_path


def deidentified(place: Path, model: Path, *options: str, out: str = "out") -> dict[str, str]:
    command = ["deidentify", str(model), str(place / "notes"), "--out", str(place / out), *options]
    assert main(command) == 0
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((place / out).iterdir())}


def test_surrogates_are_the_same_with_the_same_key_and_any_number_of_jobs(tiny_model: Path, place: Path) -> None:
    # More than a batch, so that each process has some.
    write_corpus(tiny_stack.notes(700, patients=20), place / "notes", "plain")
    keyed = ("--style", "surrogate", "--key-file", str(place / "key"))
    first = deidentified(place, tiny_model, *keyed)
    assert len(first) > BATCH_SIZE
    assert first == deidentified(place, tiny_model, *keyed, "--jobs", "2", out="again")
    assert first != deidentified(place, tiny_model, *keyed, "--scope", "b", out="other")
    for document in DOCUMENTS:
        text = first[f"{document.id}.txt"]
        assert not [s for s in document.spans if document.text[s.start : s.end] in text]
        assert "[" not in text
        assert "for chest pain. BP 120/80.\nBack on " in text


def test_without_a_key_no_other_run_gives_the_same(
    tiny_model: Path, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = deidentified(place, tiny_model, "--style", "surrogate")
    assert "the key is made for this run alone" in capsys.readouterr().out
    assert first != deidentified(place, tiny_model, "--style", "surrogate", out="again")
    capsys.readouterr()
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)
    keyed = deidentified(place, tiny_model, "--style", "surrogate", out="keyed")
    assert "this run alone" not in capsys.readouterr().out
    assert keyed == deidentified(
        place, tiny_model, "--style", "surrogate", "--key-file", str(place / "key"), out="file"
    )


def test_labels_have_styles_of_their_own(tiny_model: Path, place: Path) -> None:
    text = deidentified(
        place, tiny_model, "--set", "styles.DATE=remove", "--set", "styles.DOCTOR=text:a doctor", "--style", "numbered"
    )[FIRST]
    assert re.match(r"Patient: \[PATIENT-\d\]\nDate: \nCity: \[CITY-\d\]\n", text)
    assert "Seen by Dr. a doctor for" in text
    text = deidentified(place, tiny_model, "--policy", "safe-harbor", out="policy")[FIRST]
    assert "Date: 20" in text
    assert "Patient: [PATIENT]" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--style", "blank"], "unknown style 'blank'"),
        (["--style", "keep"], "single labels only"),
        (["--set", "styles.DAET=keep"], "styles.DAET: there is no such label"),
        (["--set", "crf.c1=3"], "expected styles.LABEL=STYLE"),
        (["--set", "surrogates.whole_weeks=maybe"], "expected true, false or a number"),
        (["--set", "surrogates.whole_weeks=0.5"], "whole_weeks=0.5: whole_weeks, staff_across_patients"),
        (["--policy", "nowhere"], "none of the policies everything, limited-data-set, safe-harbor"),
        (["--key-file", "nowhere"], "the key file cannot be read"),
    ],
)
def test_mistakes_end_the_command_before_it_writes(
    tiny_model: Path, place: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    out = place / "out"
    assert main(["deidentify", str(tiny_model), str(place / "notes"), "--out", str(out), *options]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_the_library_takes_the_same_options(tiny_model: Path, place: Path) -> None:
    model = Deidentifier.load(tiny_model)
    texts = [document.text for document in DOCUMENTS]
    options = {"style": "surrogate", "key": place / "key"}
    one = model.deidentify(texts[0], patient="7", **options)
    (two, *_) = model.pipe(texts, patients=["7"] * len(texts), **options)
    assert one.text == two.text != texts[0]
    assert one.text is not None
    assert [texts[0][r.start : r.end] for r in one.replaced] == [texts[0][s.start : s.end] for s in one.spans]
    # Without a patient the text is one, wherever in the list it stands.
    forward = [result.text for result in model.pipe(texts, **options)]
    assert forward[::-1] == [result.text for result in model.pipe(texts[::-1], **options)]
    assert model.deidentify(texts[0], **options).text == forward[0]
    with pytest.raises(CorpusError, match=r"texts\[1\]: has no patient"):
        list(model.pipe(texts, patients=["7"]))
    with pytest.raises(ConfigError, match=r"styles.AEG"):
        model.deidentify(texts[0], styles={"AEG": "keep"})

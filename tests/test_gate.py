"""The gate: a note goes out only if the model could read it and its recall was measured, whichever door it takes."""

import base64
import gzip
import json
import shutil
from binascii import b2a_uu
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from ensemble_deid import Columns, Deidentifier, Document, RunOptions, WithheldNote, deidentify_series, verify_run
from ensemble_deid.cli.main import main
from ensemble_deid.deidentify.gate import ACCEPTED, CHANGED, LANGUAGE, MODEL, TEXT, WITHHELD, Gate
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.integrations.arrow_stream import deidentified_batches
from ensemble_deid.integrations.huggingface import TokenClassifier
from ensemble_deid.model.directory import update_model
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.model.measured import CURVES, LANGUAGES
from ensemble_deid.note.language import languages_of, other_language
from ensemble_deid.service.app import make_app
from ensemble_deid.service.settings import ServiceSettings

GERMAN = "Kein Anhalt für Suizidalität."
SPANISH = "El paciente ingresó el 3 de marzo por dolor torácico, sin fiebre."
FRENCH = "Le patient a été admis le 3 mars pour une douleur thoracique."
ENGLISH = "Seen by Dr. Bell for chest pain.\nBP 120/80.\n"
HISTORY = (
    "She has had chest pain on walking uphill since the spring, and it goes away at rest. Her mother had a heart "
    "attack at sixty. She does not smoke, drinks wine at weekends, and works as a teacher. The examination was normal."
)
OTHERS = {
    "German": GERMAN,
    "Spanish": SPANISH,
    "French": FRENCH,
    "Italian": "Il paziente è stato ricoverato per dolore al torace.",
    "Dutch": "De patiënt werd opgenomen wegens pijn op de borst.",
    "Polish": "Pacjent przyjęty do szpitala z powodu bólu w klatce piersiowej.",
    "Turkish": "Hasta göğüs ağrısı ile yatırıldı ve tedavi edildi.",
}
LETTERS = "qwxz ptkrv blomf dregn szuvik taqor mefil dopuz xanor vekit jubol rasnik plodem"
NUMBERS = "\n".join(" ".join(f"{k * n % 97}.{n}" for n in range(1, 9)) for k in range(3, 12))
RANDOM = gzip.compress("\n".join(f"{k} {k * k % 7919}" for k in range(90)).encode(), mtime=0)
UUENCODED = (
    f"begin 644 a.txt\n{''.join(b2a_uu(RANDOM[k : k + 45]).decode() for k in range(0, len(RANDOM), 45))}`\nend\n"
)
ORDINARY = {
    "empty": "",
    "blank": " \n ",
    "drawn": "-" * 200,
    "one word": "afebrile",
    "one unknown word": "Suizidalität",
    "numbers": NUMBERS,
    "flow sheet": "Time HR SBP DBP Temp SpO2\n" + NUMBERS,
    "laboratory": "Hgb 12.4, plt 240, Na 137, K 3.6, BUN 22, creat 1.02, gluc 98, INR 1.0",
    "shorthand": "wbc hgb plt wnl; cxr neg",
    "orders": "npo ivf abx prn",
    "examination": "rrr no m/r/g ctab",
    "problems": "nkda pmh htn hld",
    "capitals": ENGLISH.upper(),
    "dictated": "patient is a forty year old man who fell off a ladder comma no loss of consciousness period",
    "drugs": "abacavir lamivudine dolutegravir cotrimoxazole fluconazole isoniazid pyridoxine rifampicin",
    "names": "Maria de la Cruz, Juan de los Santos, Hans van der Berg, Ana da Silva: seen by Dr. von Holt on 4/2.",
    "message": "PID|1||8841^^^MR||DELA CRUZ^JUAN^SANTOS||19600304|M\rOBX|1|NM|718-7^HGB||12.4|g/dL",
    "encoded and read": base64.encodebytes((ENGLISH * 8).encode()).decode(),
}


def english() -> Gate:
    return Gate(("en",), None)


@pytest.mark.parametrize("name", OTHERS)
def test_notes_of_other_languages_are_held_back(name: str) -> None:
    unfit = english().check(OTHERS[name])
    assert unfit is not None
    assert unfit.kind == LANGUAGE
    assert unfit.reason.startswith("the note looks ")
    assert english().check(f"{HISTORY}\n{OTHERS[name]}") is None


@pytest.mark.parametrize(
    "text", ["Пациент поступил с болями в груди.", "患者因胸痛入院治疗", "Ο ασθενής εισήχθη χθες."]
)
def test_other_scripts(text: str) -> None:
    unfit = english().check(text)
    assert unfit is not None
    assert "script" in unfit.reason


@pytest.mark.parametrize(
    "text",
    [
        base64.b64encode(RANDOM).decode(),
        base64.urlsafe_b64encode(RANDOM).decode(),
        RANDOM.hex(),
        UUENCODED,
        LETTERS,
        "QWXZ PTKRV BLOMF DREGN TAQOR MEFIL DOPUZ XANOR VEKIT JUBOL 5 mg",
        "~^%#@ a " * 20,
    ],
    ids=["base64", "base64url", "hexadecimal", "uuencoded", "letters", "capitals", "signs"],
)
def test_text_far_from_any_that_is_known(text: str) -> None:
    unfit = english().check(text)
    assert unfit is not None
    assert unfit.kind == TEXT


def test_a_block_that_nobody_read_withholds_the_note_around_it() -> None:
    assert english().check(ENGLISH * 20 + base64.b64encode(RANDOM).decode()) is not None


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_notes_pass(name: str) -> None:
    assert english().check(ORDINARY[name]) is None


def test_the_model_decides_which_language_is_another() -> None:
    spanish, both = Gate(("es",), None), Gate(("en", "fr"), None)
    assert spanish.check(SPANISH) is None
    assert [spanish.check(text) is None for text in (GERMAN, FRENCH, ENGLISH)] == [False, False, False]
    assert [both.check(text) is None for text in (FRENCH, ENGLISH, GERMAN, SPANISH)] == [True, True, False, False]


def test_words_of_both_languages_are_no_evidence() -> None:
    found = other_language("the patient was in die hospital with und ohne und", ["en"])
    # `in` and `patient` are German, too.
    assert (found.language, found.distinct, found.words, found.own) == ("de", 2, 3, 2)


@pytest.mark.parametrize(
    "text",
    [
        *("Der Patient wurde gestern entlassen.", "Le patient est sorti hier soir.", "Wundheilung regelrecht."),
        *("Perte de poids importante.", "Buik soepel."),
    ],
)
def test_few_words_of_another_language_are_held_back(text: str) -> None:
    assert english().check(text) is not None


def test_languages_of_training_notes() -> None:
    notes = [Document(str(k), ENGLISH) for k in range(30)] + [Document("f", FRENCH)]
    assert languages_of(notes) == ("en",)
    assert languages_of([*notes[:3], *notes[-1:]]) == ("en", "fr")
    assert languages_of([Document("a", "Hgb 12.4")]) == ()


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Deidentifier:
    return Deidentifier.load(tiny_model)


def changed(model: Deidentifier, edit: Callable[[Manifest], Manifest] | None) -> Deidentifier:
    manifest = model.ensemble.manifest
    assert manifest is not None
    return Deidentifier(replace(model.ensemble, manifest=None if edit is None else edit(manifest)))


def without_figures(manifest: Manifest) -> Manifest:
    choices = {name: choice for name, choice in manifest.choices.items() if name != "operating_point"}
    return replace(manifest, figures={}, choices=choices)


def weak(manifest: Manifest) -> Manifest:
    """Return the manifest of a model that found nothing out of fold."""
    record = manifest.figures[CURVES]
    nothing = {name: {**curve, "tp": [0] * len(curve["tp"])} for name, curve in record["curves"].items()}
    figures = {**manifest.figures, CURVES: {**record, "curves": nothing}}
    return replace(without_figures(manifest), figures=figures)


def without_language(manifest: Manifest) -> Manifest:
    return replace(manifest, choices={**manifest.choices, LANGUAGES: []})


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (None, "never measured"),
        (without_figures, "never measured"),
        (weak, "0.0% of the PHI tokens"),
        (without_language, "language"),
    ],
)
def test_a_model_that_was_not_measured_passes_nothing(
    model: Deidentifier, edit: Callable[[Manifest], Manifest] | None, reason: str
) -> None:
    poor = changed(model, edit)
    with pytest.raises(CorpusError, match=reason):
        poor.deidentify(ENGLISH)
    (result,) = poor.pipe([ENGLISH], accept_unfit=True)
    assert result.text is not None
    assert result.counts[f"{ACCEPTED}: {MODEL}"] == 1
    assert poor.deidentify("").text == ""
    assert poor.predict([Document("a", ENGLISH)])[0].text == ENGLISH


def test_what_counts_is_the_recall_as_the_model_is_used(model: Deidentifier) -> None:
    model.deidentify(ENGLISH, least_recall=1.0)
    for choices in ({"threshold": 1.0}, {"combiner": "union"}, {"submodel": "regex"}):
        with pytest.raises(CorpusError, match=r"recall|PHI tokens"):
            model.deidentify(ENGLISH, **choices)  # type: ignore[arg-type]
    model.deidentify(ENGLISH, threshold=1.0, least_recall=0.0)
    with pytest.raises(ConfigError, match="least_recall must be between 0 and 1, not 2"):
        RunOptions(least_recall=2)


def with_rules_replaced(manifest: Manifest) -> Manifest:
    return replace(manifest, rules_replaced=({"before": "0" * 64, "after": "1" * 64},))


def test_a_model_changed_after_it_was_measured_passes_and_is_counted(
    model: Deidentifier, caplog: pytest.LogCaptureFixture
) -> None:
    edited = changed(model, with_rules_replaced)
    result = edited.deidentify(ENGLISH)
    assert (result.counts[CHANGED], result.remark) == (1, None)
    assert CHANGED not in model.deidentify(ENGLISH).counts
    deidentify_series(pd.Series([ENGLISH, ENGLISH]), edited)
    assert caplog.messages == [f"2 {CHANGED}"]


def test_doors_say_what_the_gate_would_have_withheld(
    model: Deidentifier, tiny_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = f"{ACCEPTED}: {LANGUAGE}"
    deidentify_series(pd.Series([GERMAN, ENGLISH, SPANISH]), model, accept_unfit=True)
    assert caplog.messages == [f"2 {said}"]
    caplog.clear()
    TokenClassifier(model, RunOptions(accept_unfit=True))([GERMAN, ENGLISH])
    assert caplog.messages == [f"a note: {said}"]
    client = TestClient(
        make_app(model, ServiceSettings(tiny_model, choices={"accept_unfit": True})), base_url="http://localhost"
    )
    for text, remark in ((GERMAN, said), (ENGLISH, None)):
        assert client.post("/v1/deidentify", json={"text": text}).json().get("remark") == remark
        line = client.post("/v1/deidentify/batch", content=json.dumps({"text": text})).json()
        assert line.get("remark") == remark


TEXTS = {"g": GERMAN, "e": ENGLISH, "s": SPANISH, "b": base64.b64encode(RANDOM).decode(), "n": NUMBERS, "w": "afebrile"}
HELD = {"g": LANGUAGE, "s": LANGUAGE, "b": TEXT}


def test_every_door_decides_alike(model: Deidentifier, tiny_model: Path) -> None:
    alone = {name: model.process([Document(name, text)], RunOptions()) for name, text in TEXTS.items()}
    results = {name: next(found) for name, found in alone.items()}
    assert {name for name, result in results.items() if result.error} == set(HELD)
    for name, kind in HELD.items():
        assert results[name].counts == {f"{WITHHELD}: {kind}": 1}
        assert TEXTS[name] not in (results[name].error or "")
    reasons = {name: result.error.removeprefix(f"{name}: ") for name, result in results.items() if result.error}
    together = model.process([Document(n, t, patient_id="7") for n, t in TEXTS.items()], RunOptions(), together=True)
    assert [result.error for result in together] == [result.error for result in results.values()]

    withheld: list[WithheldNote] = []
    counts: Counter[str] = Counter()
    deidentify_series(pd.Series(list(TEXTS.values())), model, withheld=withheld, counts=counts)
    assert [note.reason for note in withheld] == list(reasons.values())
    assert counts[f"{WITHHELD}: {LANGUAGE}"] == 2

    batch = pa.RecordBatch.from_pydict({"text": list(TEXTS.values())})
    (made,) = deidentified_batches([batch], model, Columns(), RunOptions())
    assert [row["problem"] for row in made.to_pylist()] == [reasons.get(name) for name in TEXTS]

    client = TestClient(make_app(model, ServiceSettings(tiny_model)), base_url="http://localhost")
    for name, text in TEXTS.items():
        answer = client.post("/v1/deidentify", json={"text": text})
        assert answer.status_code == (422 if name in HELD else 200)
        assert answer.json().get("error", "").removeprefix("the text: ") == reasons.get(name, "")
        assert client.post("/analyze", json={"text": text}).status_code == answer.status_code
    lines = "\n".join(json.dumps({"id": name, "text": text}) for name, text in TEXTS.items())
    answers = map(json.loads, client.post("/v1/deidentify/batch", content=lines).text.splitlines())
    assert {line["id"] for line in answers if "error" in line} == set(HELD)
    client = TestClient(
        make_app(model, ServiceSettings(tiny_model, choices={"accept_unfit": True})), base_url="http://localhost"
    )
    assert client.post("/v1/deidentify", json={"text": GERMAN}).status_code == 200
    assert f'count="{ACCEPTED}: {LANGUAGE}"' in client.get("/metrics").text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / "notes" / f"{name}.txt").write_text(text, encoding="utf-8")
    return tmp_path


def test_the_command_withholds_and_says_why(tiny_model: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "out"
    assert main(["deidentify", str(tiny_model), str(folder / "notes"), "--out", str(out), "--quiet"]) == 3
    assert {path.stem for path in out.iterdir()} == set(TEXTS) - set(HELD)
    said = capsys.readouterr().err
    assert said.count("withheld: ") == 3
    assert "the note looks German, and the model was trained on English" in said
    assert "Suizid" not in said
    run = verify_run(folder / "out.run")
    assert (run.counts["written"], run.counts["withheld"], run.counts[f"{WITHHELD}: {LANGUAGE}"]) == (3, 3, 2)
    assert run.settings["gate"] == {"accept_unfit": False, "least_recall": 0.8}


def test_accepted_notes_are_written_counted_and_printed(
    tiny_model: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = folder / "out"
    command = ["deidentify", str(tiny_model), str(folder / "notes"), "--out", str(out), "--quiet", "--accept-unfit"]
    assert main(command) == 0
    assert {path.stem for path in out.iterdir()} == set(TEXTS)
    assert f"2 notes {ACCEPTED}: {LANGUAGE}" in capsys.readouterr().err
    run = verify_run(folder / "out.run")
    assert run.counts[f"{ACCEPTED}: {LANGUAGE}"] == 2
    assert run.counts[f"{ACCEPTED}: {TEXT}"] == 1
    assert run.settings["gate"]["accept_unfit"] is True


def test_a_weak_model_from_a_folder_passes_nothing(tiny_model: Path, folder: Path) -> None:
    poor = folder / "weak"
    shutil.copytree(tiny_model, poor)
    update_model(poor, lambda _, manifest: weak(manifest))
    command = ["deidentify", str(poor), str(folder / "notes"), "--quiet"]
    assert main([*command, "--out", str(folder / "one")]) == 3
    assert list((folder / "one").iterdir()) == []
    assert main([*command, "--out", str(folder / "two"), "--least-recall=0"]) == 3
    assert {path.stem for path in (folder / "two").iterdir()} == set(TEXTS) - set(HELD)
    assert main([*command, "--out", str(folder / "three"), "--accept-unfit"]) == 0
    counts = verify_run(folder / "three.run").counts
    assert counts[f"{ACCEPTED}: {MODEL}"] == counts["written"] == len(TEXTS)

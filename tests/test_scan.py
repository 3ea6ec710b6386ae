"""Searching a model's files for PHI: every kind of file, whole strings and words, and what chance finds."""

import json
import lzma
from pathlib import Path

import numpy as np
import pytest
import tiny_shareable
from safetensors.numpy import save
from tiny_stack import note

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import ModelError
from ensemble_deid.model.directory import save_model
from ensemble_deid.model.scan import ALL_FILES, ALL_LABELS, WHOLE, WORD, ScanRow, scan_model
from ensemble_deid.note.document import Document

CORPUS = [
    note("1", ("Qorvax Zindle", "PATIENT"), " at ", ("Brumpfe", "CITY"), ", MRN ", ("77-4821", "ID"), patient="1"),
    note("2", ("Yalkor", "PATIENT"), " at ", ("St. Mercy", "CITY"), " by ", ("Li", "DOCTOR"), patient="2"),
]
CONTROL = [
    note("3", ("Wubnor Trezzil", "PATIENT"), " at ", ("Dreltz", "CITY"), ", MRN ", ("66-1111", "ID"), patient="3"),
    note("4", ("Kizzov", "PATIENT"), " at ", ("St. Mercy", "CITY"), patient="4"),
]


def model_with(folder: Path, **files: bytes) -> Path:
    (folder / "manifest.json").write_text("{}", encoding="utf-8")
    for name, data in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return folder


def counts(rows: tuple[ScanRow, ...], file: str, unit: str, label: str) -> tuple[int, int, int, int]:
    (row,) = [row for row in rows if (row.file, row.unit, row.label) == (file, unit, label)]
    return row.found, row.strings, row.control_found, row.control_strings


@pytest.mark.parametrize(
    "data",
    [
        b'change O to B-PATIENT if the lower is "qorvax"',
        b"\x00\x01\x07\x00\x00\x00lower[0]=QORVAX\x00\x01",
        b"lower[-1]&lower[0]=mr\x1fqorvax",
        b'{"words": {"qorvax": 1}}',
        b"\xff\xfeqorvax\xff",
    ],
)
def test_a_word_is_found_in_any_kind_of_file(tmp_path: Path, data: bytes) -> None:
    rows = scan_model(model_with(tmp_path, private__some_file=data), CORPUS, CONTROL)
    for file in ("private/some.file", ALL_FILES):
        assert counts(rows, file, WORD, "PATIENT") == (1, 3, 0, 3)
        assert counts(rows, file, WORD, ALL_LABELS) == (1, 4, 0, 4)
        assert counts(rows, file, WHOLE, "PATIENT") == (0, 2, 0, 2)
    assert counts(rows, "manifest.json", WORD, "PATIENT") == (0, 3, 0, 3)


def test_what_is_compressed_is_searched(tmp_path: Path) -> None:
    model_with(tmp_path, crf_bin_xz=lzma.compress(b"\x01lower[0]=qorvax\x00"), odd_xz=b"\x1f\x8bqorvax\0")
    rows = scan_model(tmp_path, CORPUS, CONTROL)
    for file in ("crf.bin.xz", "odd.xz"):
        assert counts(rows, file, WORD, "PATIENT")[0] == 1, "and one that is not what its name says, as it is"


def test_bytes_of_arrays_are_searched(tmp_path: Path) -> None:
    data = save({"weights": np.frombuffer(b"\0\0qorvax\0\0", np.uint8)})
    rows = scan_model(model_with(tmp_path, net_safetensors=data), CORPUS, CONTROL)
    assert counts(rows, ALL_FILES, WORD, "PATIENT")[0] == 1


@pytest.mark.parametrize("quoted", [r"'\bQorvax\b'", r'"\\bQorvax\\b"', r"'\bQorvax\sJones'"])
def test_a_word_beside_an_escape_of_a_pattern_is_found(tmp_path: Path, quoted: str) -> None:
    path = model_with(tmp_path) / "added_patterns.toml"
    path.write_text(f"[[pattern]]\nregex = {quoted}\n", encoding="utf-8")
    assert counts(scan_model(tmp_path, CORPUS, CONTROL), path.name, WORD, "PATIENT") == (1, 3, 0, 3)


def test_json_escapes_are_resolved(tmp_path: Path) -> None:
    corpus = [note("1", ("Zoë", "PATIENT"))]
    model_with(tmp_path, a_json=json.dumps(["Zoë"], ensure_ascii=True).encode())
    assert counts(scan_model(tmp_path, corpus, CONTROL), "a.json", WORD, "PATIENT") == (1, 1, 0, 4 - 1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('["qorvax", "zindle"]', 1),
        ("PATIENT\tqorvax zindle", 1),
        ("zindle qorvax", 0),
        ("qorvax yes zindle", 0),
        ("qorvaxzindle", 0),
    ],
)
def test_a_whole_string_is_its_parts_in_order(tmp_path: Path, text: str, found: int) -> None:
    rows = scan_model(model_with(tmp_path, a_txt=text.encode()), CORPUS, CONTROL)
    assert counts(rows, ALL_FILES, WHOLE, "PATIENT")[0] == found


def test_numbers_are_searched_whole_and_short_words_not_at_all(tmp_path: Path) -> None:
    rows = scan_model(model_with(tmp_path, a_txt=b"77 4821 li"), CORPUS, CONTROL)
    assert counts(rows, ALL_FILES, WHOLE, "ID") == (1, 1, 0, 1)
    assert not [row for row in rows if row.label == "DOCTOR" and row.strings]


def test_what_both_corpora_have_is_not_counted(tmp_path: Path) -> None:
    rows = scan_model(model_with(tmp_path, a_txt=b"st mercy"), CORPUS, CONTROL)
    assert counts(rows, ALL_FILES, WHOLE, "CITY") == (0, 1, 0, 1)
    assert counts(rows, ALL_FILES, WORD, "CITY") == (0, 1, 0, 1)


def test_no_p_is_small_where_chance_finds_as_much(tmp_path: Path) -> None:
    rows = scan_model(model_with(tmp_path, a_txt=b"qorvax wubnor"), CORPUS, CONTROL)
    assert {row.p > 0.4 for row in rows} == {True}


def test_chance_is_judged_by_what_one_patient_has(tmp_path: Path) -> None:
    """However much more common the strings of the larger corpus are, it does not seem to be known for that."""
    corpus = [
        note(f"{k}", ("fever", "CITY"), " ", ("teacher", "CITY"), " ", (f"Qorvax{'abc'[k]}", "CITY"), patient=f"{k}")
        for k in range(3)
    ]
    rows = scan_model(model_with(tmp_path, a_txt=b"fever teacher qorvaxa"), corpus, CONTROL)
    (row,) = [row for row in rows if (row.file, row.unit, row.label) == (ALL_FILES, WORD, ALL_LABELS)]
    assert counts(rows, ALL_FILES, WORD, ALL_LABELS) == (3, 5, 0, 5)
    assert row.single == (3, 1, 5, 0)
    assert row.p == pytest.approx(3 / 8)


def test_long_texts_are_searched_to_the_end(tmp_path: Path) -> None:
    text = "word " * 4095 + "qorvax zindle " + "word " * 5000 + "yalkor"
    rows = scan_model(model_with(tmp_path, a_txt=text.encode()), CORPUS, CONTROL)
    assert counts(rows, ALL_FILES, WHOLE, "PATIENT")[0] == 2


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no manifest\.json"):
        scan_model(tmp_path, CORPUS, CONTROL)


# On models


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """A plain and a shareable model of the same notes."""
    folder = tmp_path_factory.mktemp("both")
    for shareable in (False, True):
        trained = tiny_shareable.trained(folder, shareable=shareable)
        save_model(trained.ensemble, trained.stacking_dataset, trained.manifest, folder / str(shareable))
    return {shareable: folder / str(shareable) for shareable in (False, True)}


def other_people() -> list[Document]:
    """Return the notes of the training patients with other invented names in them."""
    swapped = {"Qorvax": "Ulbrink", "Zindle": "Mozzwert", "Brumpfe": "Traxon", "Yalkor": "Vennip", "Snarqwit": "Oddwuz"}
    made = []
    for document in tiny_shareable.notes():
        parts: list[str | tuple[str, str]] = []
        end = 0
        for span in document.spans:
            words = document.text[span.start : span.end].split()
            name = " ".join(swapped.get(word, word[::-1].title()) for word in words)
            parts += [document.text[end : span.start], (name, span.label)]
            end = span.end
        made.append(note(document.id, *parts, document.text[end:], patient=document.patient_id))
    return made


def test_a_plain_model_is_an_index_of_its_patients(both: dict[bool, Path]) -> None:
    rows = scan_model(both[False], tiny_shareable.notes(), other_people())
    for file in ("lexicon.json", "crf.safetensors", "network.json", "stacker_statistics.safetensors", ALL_FILES):
        found, strings, by_chance, _ = counts(rows, file, WORD, "PATIENT")
        # CRFsuite leaves out attributes without weight, a tenth of the patients are held out of the network, and the
        # statistics have only what some learner proposed.
        assert found == strings or (file not in ("lexicon.json", ALL_FILES) and found > strings / 2)
        assert by_chance == 0


def test_a_shareable_model_has_no_more_than_chance(both: dict[bool, Path]) -> None:
    # Without "Grace Hunt": the first is a word of every note.
    invented = [document for document in tiny_shareable.notes() if "Hunt" not in document.text]
    rows = scan_model(both[True], invented, other_people())
    for label in ("PATIENT", "DOCTOR"):
        for unit in (WHOLE, WORD):
            found, strings, by_chance, others = counts(rows, ALL_FILES, unit, label)
            assert (found, by_chance) == (0, 0)
            assert strings
            assert others


def test_the_command_prints_counts_and_no_text(
    both: dict[bool, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(tiny_shareable.notes(), tmp_path / "train", "i2b2")
    capsys.readouterr()
    out = tmp_path / "scan.json"
    assert main(["model", "scan", str(both[False]), str(tmp_path / "train"), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    assert {row["file"] for row in rows} >= {"crf.safetensors", "private/stacking_dataset.json", ALL_FILES}
    lines = [line.split() for line in said.splitlines()]
    (shown,) = [line for line in lines if line[:2] == ["PATIENT", "word"]]
    (row,) = [r for r in rows if (r["file"], r["unit"], r["label"]) == (ALL_FILES, WORD, "PATIENT")]
    assert shown[2:5] == [str(row["found"]), "of", str(row["strings"])]
    for name in tiny_shareable.NAMES:
        assert name.split()[0].lower() not in (said + out.read_text(encoding="utf-8")).lower()

"""Scoring the finds of any system, and running those of others."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ensemble_deid.cli.main import run
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from research import other_systems
from research.__main__ import build_parser
from research.benchmark import benchmark_results, read_answer
from research.other_systems import SYSTEMS, Find, finder_named, run_system, windows

GOLD = [
    Document("a", "Anna Bell took aspirin in Boston.", (Span(0, 9, "PATIENT"), Span(26, 32, "CITY")), site="one"),
    Document("b", "Tylenol for Mr. Schmidt, 4/2", (Span(16, 23, "PATIENT"), Span(25, 28, "DATE")), site="two"),
]


def answer(folder: Path, *lines: object) -> Path:
    path = folder / "other.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_the_tables_of_two_systems(tmp_path: Path) -> None:
    path = answer(
        tmp_path,
        {
            "id": "b",
            "text": GOLD[1].text,
            "spans": [{"start": 16, "end": 23, "score": 0.9}, {"start": 0, "end": 7, "score": 0.4}],
        },
        {"id": "a", "spans": [{"start": 0, "end": 4, "label": "PERSON", "score": 0.8}], "version": 3},
        {"id": "another note", "spans": []},
    )
    all_gold = [Document(note.id, note.text, note.spans, site=note.site) for note in GOLD]
    overall, categories, origins, sites = benchmark_results(
        GOLD, {"other": read_answer(path, GOLD), "gold": all_gold}
    ).tables
    # 6 of 12 tokens are PHI: two are found, and one other, which is one of two medical words.
    (_, other, *points), gold = overall.rows
    assert other.startswith("33.33 at 83.3 (0%)"), other
    assert points == ["33.33 at 0.0 (0%)"] * 3 + ["500.00"]
    assert gold[1].startswith("100.00 at 0.0 (100%)")
    assert gold[2:] == ("-", "-", "-", "0.00")
    assert categories.rows == (
        ("DATE", "2", "0.0", "100.0"),
        ("LOCATION", "1", "0.0", "100.0"),
        ("NAME", "3", "66.7", "100.0"),
    )
    assert ("german", "1", "100.0", "100.0") in origins.rows
    assert sites.rows == (("one", "3", "33.3", "100.0"), ("two", "3", "33.3", "100.0"))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (({"id": "a", "spans": []},), "has no line for 1 note"),
        (({"id": "a", "spans": []}, {"id": "a", "spans": []}), "line 2: a second answer"),
        (({"id": "a", "text": "Other", "spans": []},), "line 1: the text is not that of gold's note"),
        (({"id": "a", "spans": [{"start": 3, "end": 99}]},), "line 1: span 1"),
        (({"id": "a", "spans": [{"start": 3, "end": 9, "score": 7}]},), "span 1: 'score' must be a number"),
        (({"id": "a"},), "'spans'"),
    ],
)
def test_an_answer_that_cannot_be_scored(tmp_path: Path, lines: tuple[object, ...], said: str) -> None:
    with pytest.raises(CorpusError) as error:
        read_answer(answer(tmp_path, *lines), GOLD)
    assert said in str(error.value)
    assert "Bell" not in str(error.value)


def test_the_command_writes_the_tables(tmp_path: Path) -> None:
    gold = write_corpus(GOLD, tmp_path / "gold.jsonl", "jsonl")[0]
    path = answer(tmp_path, *({"id": note.id, "spans": []} for note in GOLD))
    arguments = ["benchmark", str(gold), str(path), "--out", str(tmp_path / "table.md")]
    assert run(build_parser(), arguments) == 0
    assert "| other | 0.00 at 0.0 (0%)" in (tmp_path / "table.md").read_text()


def test_rows_have_names_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold = write_corpus(GOLD, tmp_path / "gold.jsonl", "jsonl")[0]
    (tmp_path / "more").mkdir()
    paths = [
        answer(folder, *({"id": note.id, "spans": []} for note in GOLD)) for folder in (tmp_path, tmp_path / "more")
    ]
    assert run(build_parser(), ["benchmark", str(gold), *map(str, paths)]) == 2
    assert "two systems are called other" in capsys.readouterr().err


def test_lines_of_an_answer_end_where_those_of_json_do(tmp_path: Path) -> None:
    note = Document("a", "Anna\u2028Bell", (Span(0, 4, "PATIENT"),))
    path = tmp_path / "other.jsonl"
    line = json.dumps({"id": "a", "text": note.text, "spans": []}, ensure_ascii=False)
    path.write_text(f"{line}\n\n", encoding="utf-8")
    assert [found.id for found in read_answer(path, [note])] == ["a"]


def test_a_system_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scrubadub", None)
    with pytest.raises(ConfigError, match="pip install scrubadub"):
        run_system("scrubadub", GOLD)
    monkeypatch.setitem(sys.modules, "gliner", None)
    with pytest.raises(ConfigError, match="pip install gliner"):
        run_system("gliner", GOLD)
    with pytest.raises(ConfigError, match="llm:MODEL@https"):
        run_system("llm:model", GOLD)
    with pytest.raises(ConfigError, match="no system is called 'other'"):
        run_system("other", GOLD)


def test_the_finds_of_a_system_are_lines_of_json(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = SimpleNamespace(entities=[SimpleNamespace(start=16, end=23, type="PERSON", confidence=0.5)])
    monkeypatch.setitem(sys.modules, "datafog", SimpleNamespace(scan=lambda text, engine: scan))
    first, second = run_system("datafog", GOLD).splitlines()
    assert json.loads(first) == {
        "id": "a",
        "spans": [{"start": 16, "end": 23, "label": "PERSON", "score": 0.5}],
    }
    assert json.loads(second)["id"] == "b"


def test_the_patterns_of_presidio() -> None:
    pytest.importorskip("presidio_analyzer")
    find = SYSTEMS["presidio"]()
    assert Find(5, 27, "EMAIL_ADDRESS", 1.0) in find("Mail anna.bell@hospital.com now")


def test_a_token_classifier_reads_long_notes(tmp_path: Path) -> None:
    """Every word of a note four times as long as its window is judged, by a real pipeline with random weights."""
    transformers = pytest.importorskip("transformers")
    from tiny_encoder import tiny_tokenizer

    settings = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=200, max_position_embeddings=16, num_labels=2, **settings)
    config.id2label = {0: "B-NAME", 1: "I-NAME"}
    transformers.BertForTokenClassification(config).save_pretrained(tmp_path)
    special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer(), **special)
    tokenizer.save_pretrained(tmp_path)
    text = "seen by dr city " * 16
    found = finder_named(f"hf:{tmp_path}")(text)
    covered = {place for each in found for place in range(each.start, each.end)}
    assert {place for place, character in enumerate(text) if character != " "} <= covered


def test_gliner_reads_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    def predict(piece: str, labels: list[str], threshold: float) -> list[dict[str, object]]:
        place = piece.find("Bell")
        return [{"start": place, "end": place + 4, "label": "person", "score": 0.5}] if place >= 0 else []

    loaded = SimpleNamespace(predict_entities=predict)
    module = SimpleNamespace(GLiNER=SimpleNamespace(from_pretrained=lambda name: loaded))
    monkeypatch.setitem(sys.modules, "gliner", module)
    text = "word " * 360 + "Bell"
    assert finder_named("gliner")(text) == [Find(1800, 1804, "PERSON", 0.5)]
    assert [piece.split() for _, piece in windows("a b c d e", words=3, step=2)] == [["a", "b", "c"], ["c", "d", "e"]]


def test_a_language_model_names_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def answered(said: str) -> None:
        content = io.BytesIO(json.dumps({"choices": [{"message": {"content": said}}]}).encode())
        monkeypatch.setattr(other_systems, "urlopen", lambda request, timeout: asked.append(request) or content)

    answered('```json\n[{"text": "Bell", "label": "person"}]\n```')
    text = "Bell and Bell, not Bellona"
    assert sorted(finder_named("llm:m@http://localhost/v1")(text)) == [Find(0, 4, "person"), Find(9, 13, "person")]
    assert asked[0].full_url == "http://localhost/v1/chat/completions"  # type: ignore[attr-defined]
    answered("There is none.")
    with pytest.raises(CorpusError, match="did not answer with the JSON"):
        finder_named("llm:m@http://localhost/v1")(text)

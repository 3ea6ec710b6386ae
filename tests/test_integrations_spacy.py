"""The component in real spaCy pipelines: found by its entry point, saved and loaded, marking documents one by one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_stack

from ensemble_deid import CorpusError, DeidentificationResult, Span

spacy = pytest.importorskip("spacy", reason="spaCy is not installed (extra spacy)")
from spacy.language import Language  # noqa: E402
from spacy.tokens import Doc  # noqa: E402

from ensemble_deid.integrations.spacy import PhiComponent  # noqa: E402

NOTE = tiny_stack.notes(700, patients=1)[0]
FOUND = [(span.start, span.end, span.label) for span in NOTE.spans]


@pytest.fixture
def nlp(tiny_model: Path) -> Language:
    pipeline = spacy.blank("en")
    pipeline.add_pipe("ensemble_deid", config={"model": str(tiny_model)})
    return pipeline


def characters(spans: object) -> list[tuple[int, int, str]]:
    return [(span.start_char, span.end_char, span.label_) for span in spans]


def test_spacy_finds_the_factory_by_its_entry_point(tiny_model: Path) -> None:
    """In a process that imports nothing of ours, as the package's metadata are all that spaCy has to go by."""
    code = (
        "import spacy, sys; nlp = spacy.blank('en'); nlp.add_pipe('ensemble_deid', config={'model': sys.argv[1]}); "
        "print([ent.label_ for ent in nlp('Date: 03/04/2019').ents])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tiny_model)], capture_output=True, text=True, env=os.environ, check=False
    )
    assert done.stdout == "['DATE']\n", f"reinstall the package, so that its entry points are known: {done.stderr}"


def test_entities_spans_and_characters(nlp: Language) -> None:
    doc = nlp(NOTE.text)
    assert characters(doc.ents) == characters(doc.spans["phi"]) == FOUND
    assert [(span["start"], span["end"], span["entity_group"]) for span in doc._.phi] == FOUND
    assert doc.spans["phi"].attrs["scores"] == [span["score"] for span in doc._.phi]
    assert "word" not in doc._.phi[0]


def test_config_round_trip(nlp: Language, tmp_path: Path, tiny_model: Path) -> None:
    nlp.to_disk(tmp_path / "pipeline")
    config = (tmp_path / "pipeline" / "config.cfg").read_text(encoding="utf-8")
    assert "[components.ensemble_deid]" in config
    assert str(tiny_model) in config
    again = spacy.load(tmp_path / "pipeline")
    assert again.config["components"]["ensemble_deid"] == nlp.config["components"]["ensemble_deid"]
    assert characters(again(NOTE.text).ents) == FOUND


@pytest.mark.parametrize("processes", [1, 2])
def test_streams(nlp: Language, processes: int) -> None:
    texts = [f"Note {k}.\nDate: 0{k % 9 + 1}/04/2019\n" for k in range(20)]
    docs = list(nlp.pipe(texts, batch_size=3, n_process=processes))
    assert [doc.text for doc in docs] == texts
    assert [[ent.text for ent in doc.ents] for doc in docs] == [[f"0{k % 9 + 1}/04/2019"] for k in range(20)]
    assert [doc.ents[0].label_ for doc in docs] == ["DATE"] * 20


def test_what_cannot_be_processed_is_never_handed_out_unmarked(nlp: Language) -> None:
    texts = ["Date: 03/04/2019", "Anna\0Bell", "Date: 05/04/2019"]
    with pytest.raises(CorpusError, match="document 1: character 4 of the text is NUL"):
        list(nlp.pipe(texts))
    told: list[str] = []
    nlp.set_error_handler(lambda name, component, docs, error: told.append(f"{name}: {error}"))
    assert [doc.text for doc in nlp.pipe(texts)] == [texts[0], texts[2]]
    assert told == ["ensemble_deid: document 1: character 4 of the text is NUL, which no note may hold"]
    with pytest.raises(CorpusError):
        nlp(texts[1])


def test_options(tiny_model: Path) -> None:
    nlp = spacy.blank("en")
    config = {"model": str(tiny_model), "spans_key": "", "set_ents": False, "threshold": 1.0}
    config["accept_unfit"] = True
    nlp.add_pipe("ensemble_deid", config=config)
    doc = nlp(NOTE.text)
    assert not doc.ents
    assert not doc.spans
    assert doc._.phi == []
    with pytest.raises(ValueError, match="model"):
        spacy.blank("en").add_pipe("ensemble_deid")


def test_earlier_entities_stay_where_they_are_no_phi(tiny_model: Path) -> None:
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "SYMPTOM", "pattern": "chest pain"}, {"label": "X", "pattern": ": Anna Bell"}])
    nlp.add_pipe("ensemble_deid", config={"model": str(tiny_model)})
    doc = nlp("Patient: Anna Bell\nDate: 03/04/2019\n\nSeen by Dr. Gale for chest pain.")
    marked = {(ent.text, ent.label_) for ent in doc.ents}
    assert ("chest pain", "SYMPTOM") in marked
    assert ("Anna Bell", "PATIENT") in marked
    assert not any(label == "X" for _, label in marked)


class Finds:
    """A model that finds what it is told to."""

    def __init__(self, *spans: Span) -> None:
        self.spans = spans

    def process(self, notes: object, options: object) -> object:
        return (DeidentificationResult("", self.spans) for _ in notes)


def test_every_token_that_a_span_touches_is_marked() -> None:
    if not Doc.has_extension("phi"):
        Doc.set_extension("phi", default=None)
    text = "  from AnnaBell 03/04-05/04 on"
    anna, bell = Span(7, 11, "PATIENT"), Span(11, 15, "DOCTOR", 0.9)
    days, blank = Span(12, 21, "DATE"), Span(0, 2, "OTHER")
    component = PhiComponent("phi", Finds(anna, bell, days, blank))  # type: ignore[arg-type]
    doc = component(spacy.blank("en")(text))
    touched = {c for span in (anna, bell, days) for c in range(span.start, span.end) if not text[c].isspace()}
    covered = {c for ent in doc.ents for c in range(ent.start_char, ent.end_char)}
    assert touched <= covered
    assert [(span["start"], span["end"]) for span in doc._.phi] == [(7, 11), (11, 15), (12, 21), (0, 2)]
    assert [span.text for span in doc.spans["phi"]][:2] == ["AnnaBell", "AnnaBell"]

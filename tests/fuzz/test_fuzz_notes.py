"""Any text: each note comes out whole, with spans that lie in it, or is withheld."""

from pathlib import Path

from budget import Budget
from hostile import MARKER, texts
from hypothesis import strategies as st

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document

_STYLES = ("tag", "mask", "remove")


def test_notes_of_any_text(tiny_model: Path, budget: Budget) -> None:
    model = Deidentifier.load(tiny_model)

    def check(drawn: list[str]) -> None:
        documents = [Document(str(k), text) for k, text in enumerate(drawn)]
        for note, document in zip(model.predict_each(documents), documents, strict=True):
            if isinstance(note, CorpusError):
                assert MARKER not in str(note)
                continue
            assert isinstance(note, Document)
            assert note.text == document.text
            place = 0
            for span in note.spans:
                assert place <= span.start < span.end <= len(note.text)
                assert note.text[span.start : span.end].strip()
                place = span.end

    budget.every(st.lists(texts, max_size=4), check)


def test_redaction_changes_nothing_but_the_spans(tiny_model: Path, budget: Budget) -> None:
    model = Deidentifier.load(tiny_model)

    def check(drawn: tuple[str, str]) -> None:
        text, style = drawn
        result = model.deidentify(text, style=style, accept_unfit=True)
        assert result.text is not None
        place, rest = 0, result.text
        for span in [*result.spans, None]:
            kept = text[place : span.start if span else len(text)]
            assert rest.startswith(kept)
            rest = rest[len(kept) :]
            if span is None:
                break
            covered = text[span.start : span.end]
            mask = "".join(c if c.isspace() else "X" for c in covered)
            put = {"tag": f"[{span.label}]", "mask": mask, "remove": ""}[style]
            assert rest.startswith(put)
            rest, place = rest[len(put) :], span.end
        assert rest == ""

    budget.every(st.tuples(texts, st.sampled_from(_STYLES)), check)

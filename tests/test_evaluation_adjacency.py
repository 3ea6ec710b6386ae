"""Missed tokens beside right ones (Johnson et al. 2020, section 4.2): in text, JSON and CSV."""

from ensemble_deid.evaluation.evaluate import evaluate
from ensemble_deid.evaluation.render.blocks import evaluation_results
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

TEXT = "Ann Mae Lee of Elm, 3/4"
NAME, CITY, DATE = Span(0, 11, "PATIENT"), Span(15, 18, "CITY"), Span(20, 23, "DATE")


def test_only_missed_tokens_beside_one_with_the_right_label_count() -> None:
    """Of the name's three words the first is found: the second is beside it. The date's month has a wrong label."""
    gold = Document("a", TEXT, (NAME, CITY, DATE))
    system = gold.with_spans([Span(0, 3, "PATIENT"), Span(20, 21, "CITY")])
    found = evaluate([gold], [system], resamples=0)
    assert (found.missed_beside_right.count, found.missed_beside_right.total) == (1, 4)
    assert evaluation_results(found).data["missed_tokens"] == {"missed": 4, "beside_right": 1}
    assert "missed tokens directly beside a right one: 1 of 4 (25.0%)" in evaluation_results(found, full=True).render(
        ".txt"
    )
    assert "scores,token-binary,total,all,missed_beside_right,1" in evaluation_results(found).render(".csv")


def test_what_is_not_selected_plays_no_part() -> None:
    gold = Document("a", TEXT, (NAME, CITY, DATE))
    found = evaluate([gold], [gold.with_spans([Span(0, 3, "PATIENT")])], labels=["DATE"], resamples=0)
    assert (found.missed_beside_right.count, found.missed_beside_right.total) == (0, 2)


def test_without_missed_tokens_the_share_is_undefined() -> None:
    gold = Document("a", TEXT, (CITY,))
    found = evaluate([gold], [gold], resamples=0)
    assert found.missed_beside_right.share is None
    assert "beside a right one: 0 of 0 (undefined)" in evaluation_results(found, full=True).render(".txt")

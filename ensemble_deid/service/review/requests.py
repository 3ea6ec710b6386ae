"""The bodies of the review page's requests; a key that is not known is refused."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ensemble_deid.service.review.records import Status


def _named(value: str) -> str:
    if not value.isprintable() or value != value.strip():
        raise ValueError("a name is printable and has no white space around it")
    return value


ReviewerName = Annotated[str, Field(min_length=1, max_length=40), AfterValidator(_named)]


class ByReviewer(BaseModel):
    """Who asks."""

    model_config = ConfigDict(extra="forbid")

    reviewer: ReviewerName


class NewSpan(ByReviewer):
    """A place to mark; offsets in code points, as everywhere."""

    start: int
    end: int
    label: str


class Decision(ByReviewer):
    """What to think of a span."""

    status: Status


class Alteration(ByReviewer):
    """A span's new ends or label; what is None stays."""

    start: int | None = None
    end: int | None = None
    label: str | None = None


class Finish(ByReviewer):
    """Whether a note is finished, or open again."""

    finished: bool


class SearchFields(ByReviewer):
    """A string to find in all notes."""

    words: Annotated[str, Field(max_length=500)]
    whole_words: bool = True
    match_case: bool = False


class MarkAll(SearchFields):
    """A string to mark in all notes."""

    label: str


class SelectedPlace(ByReviewer):
    """A place to explain."""

    start: int
    end: int

"""The review's application: the page, its requests, explanations by the model, and the export."""

import io
import sqlite3
import zipfile
from dataclasses import asdict
from functools import partial
from typing import Any

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from ensemble_deid.corpora.checks import check_file_name
from ensemble_deid.corpora.formats import format_named
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.service.processor import Processor
from ensemble_deid.service.refusal import Refused
from ensemble_deid.service.review.accounts import Account, account_of, act_as, owns, read_accounts
from ensemble_deid.service.review.file import ReviewFile
from ensemble_deid.service.review.fill import reviewed
from ensemble_deid.service.review.layers import is_drawn, may_read
from ensemble_deid.service.review.pages import make_page_app
from ensemble_deid.service.review.records import ADJUDICATION
from ensemble_deid.service.review.routes import NotePath, Review, SelectedPlace, review_routes
from ensemble_deid.service.settings import ServiceSettings
from ensemble_deid.training.explain import explain, outcome_text

EXPORT_FORMATS = ("jsonl", "brat")


def make_review_app(
    review: Review, model: Deidentifier | None, settings: ServiceSettings, *, then: tuple[str, str]
) -> ASGIApp:
    """Return the application for a store that holds its notes; without a model nothing is explained.

    `then` is what the page says of the next step, and its command.
    """
    processor = Processor(places=settings.queue, time_limit=settings.time_limit)
    routers = [review_routes(review, then), _model_routes(review, model, processor), _export_routes(review)]
    inside = partial(WithAccounts, file=review.file)
    return make_page_app("review", routers, settings, processor, inside=inside)


class WithAccounts:
    """An ASGI application that serves requests to `/api` only with an account's token, where the store has accounts."""

    def __init__(self, app: ASGIApp, file: ReviewFile) -> None:
        self._app, self._file = app, file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Raises Refused (401)."""
        if scope["type"] == "http" and scope["path"].startswith("/api/"):
            header = dict(reversed(scope["headers"])).get(b"authorization", b"")
            act_as(await run_in_threadpool(self._account, header))
        await self._app(scope, receive, send)

    def _account(self, header: bytes) -> Account | None:
        scheme, _, token = header.partition(b" ")
        with self._file.transaction() as database:
            if not read_accounts(database):
                return None
            found = account_of(database, token.decode("latin-1").strip())
        if found is None or scheme.lower() != b"bearer":
            raise Refused(401, "the token of an account is needed", close=True)
        return found


def _model_routes(review: Review, model: Deidentifier | None, processor: Processor) -> APIRouter:
    routes = APIRouter(prefix="/api")

    @routes.post("/notes/{note}/explain")
    async def why(note: NotePath, body: SelectedPlace) -> dict[str, Any]:
        if model is None:
            raise Refused(409, "readers of an audit do not see what the model thinks")
        # In a thread, as the other requests are: the store may be locked.
        row = await run_in_threadpool(_note_row, review, note, body.reviewer)
        if not 0 <= body.start < body.end <= len(row["text"]):
            raise Refused(422, "start: lies outside the note")
        document = Document(row["name"], row["text"], patient_id=row["patient"])
        return await processor.run(partial(_explanation, model, document, (body.start, body.end)))

    return routes


def _note_row(review: Review, note: int, reviewer: str) -> sqlite3.Row:
    with review.file.transaction() as database:
        review.require(database, note)
        if not may_read(database, reviewer, note):
            raise Refused(409, "this note is others' to read")
        if reviewer != ADJUDICATION and is_drawn(database, note):
            raise Refused(409, "readers of a note drawn at random do not see what the model thinks")
        row: sqlite3.Row = database.execute("SELECT name, text, patient FROM notes WHERE id = ?", (note,)).fetchone()
    return row


def _explanation(model: Deidentifier, document: Document, place: tuple[int, int]) -> dict[str, Any]:
    explanation = explain(model.ensemble, document, places=[place])
    (explained,) = explanation.places
    content = asdict(explained)
    for entry, candidate in zip(content["candidates"], explained.candidates, strict=True):
        entry["outcome"] = outcome_text(candidate, explanation)
    return content


def _export_routes(review: Review) -> APIRouter:
    routes = APIRouter(prefix="/api")

    @routes.get("/export")
    def export(format: str = EXPORT_FORMATS[0]) -> Response:
        if format not in EXPORT_FORMATS:
            raise Refused(422, f"format: must be one of {', '.join(EXPORT_FORMATS)}")
        if not owns():
            raise Refused(403, "the export holds everyone's decisions: it is the owners'")
        with review.file.transaction() as database:
            ready = reviewed(database)
        try:
            files = _rendered(ready.documents, format)
        except CorpusError as error:
            raise Refused(409, str(error)) from None
        counts = {"x-notes": str(len(ready.documents)), "x-unfinished": str(ready.unfinished)}
        counts["x-disputed"] = str(ready.disputed)
        if format == "jsonl":
            return Response("".join(files.values()), media_type="application/x-ndjson", headers=counts)
        return Response(_zipped(files), media_type="application/zip", headers=counts)

    return routes


def _rendered(documents: tuple[Document, ...], format: str) -> dict[str, str]:
    """Return file names with their contents, as `write_corpus` would write them."""
    files: dict[str, str] = {}
    for number, document in enumerate(documents, start=1):
        if format != "jsonl":
            check_file_name(document.id, f"note {number}")
        for suffix, content in format_named(format).render_note(document).items():
            files[f"{document.id}{suffix}"] = content
    return files


def _zipped(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            # A fixed date: the same decisions give the same bytes.
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content.encode("utf-8"))
    return buffer.getvalue()

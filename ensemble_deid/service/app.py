"""The application of one worker: the model, the routes and the guard before them."""

import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from ensemble_deid import __version__
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.service.guard import HEALTH, Guard
from ensemble_deid.service.logs import set_up
from ensemble_deid.service.metrics import Metrics
from ensemble_deid.service.notes import NoteService
from ensemble_deid.service.own import own_routes
from ensemble_deid.service.presidio import presidio_routes
from ensemble_deid.service.processor import Processor
from ensemble_deid.service.refusal import INTERNAL, Refused, problem
from ensemble_deid.service.settings import ServiceSettings


def create_app(settings: ServiceSettings) -> Guard:
    """Load the model and return the application; called once in each worker. Raises ModelError, CorpusError."""
    set_up()
    model = Deidentifier.load(settings.model, device=settings.device, submodels=settings.submodels)
    return make_app(model, settings)


def make_app(model: Deidentifier, settings: ServiceSettings, defaults: RunOptions | None = None) -> Guard:
    """Return the application for a loaded model; `defaults` are the settings' `choices`, if resolved already."""
    processor = Processor(places=settings.queue, time_limit=settings.time_limit)
    metrics = Metrics(frozenset(PATHS))
    defaults = defaults or RunOptions.choose(model.labels, **settings.choices)
    notes = NoteService(model, defaults, processor, metrics, settings.together)
    presidio = presidio_routes(notes, presidio_names=settings.entities == "presidio")
    app = assemble("service", [presidio, own_routes(notes, settings)], processor)

    @app.get("/metrics")
    async def metrics_page() -> Response:
        return Response(metrics.page(), media_type=CONTENT_TYPE_LATEST)

    return Guard(app, settings, processor, metrics)


PATHS = (
    *("/analyze", "/anonymize", "/supportedentities", "/recognizers", "/anonymizers"),
    *("/v1/deidentify", "/v1/deidentify/batch", HEALTH, "/metrics", "/openapi.json"),
)


def assemble(name: str, routers: Iterable[APIRouter], processor: Processor, **settings: Any) -> FastAPI:
    """Return an application with these routes and `/health`, whose errors do not quote the request."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        _stop_with_signals(processor)
        yield
        processor.close()

    # No pages of documentation: they would load scripts from elsewhere.
    app = FastAPI(
        title="ensemble_deid", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None, **settings
    )
    _answer_errors(app)
    for router in routers:
        app.include_router(router)

    @app.get(HEALTH)
    async def health() -> PlainTextResponse:
        return PlainTextResponse(f"ensemble_deid {name} is up")

    return app


def _stop_with_signals(processor: Processor) -> None:
    """Let the first SIGTERM or SIGINT refuse new requests at once, then call the server's own handler."""
    for number in (signal.SIGTERM, signal.SIGINT):
        server = signal.getsignal(number)

        def stop(number: int, frame: FrameType | None, server: Any = server) -> None:
            processor.stopping = True
            if callable(server):
                server(number, frame)

        signal.signal(number, stop)


def _answer_errors(app: FastAPI) -> None:
    @app.exception_handler(Refused)
    async def refused(_: Request, refusal: Refused) -> JSONResponse:
        return refusal.response()

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": problem(error.errors())}, 422)

    @app.exception_handler(Exception)
    async def failed(_: Request, __: Exception) -> JSONResponse:
        return INTERNAL.response()

    # Unknown paths and methods, and bodies that are no JSON; these messages are fixed by the status.
    words = {400: "the body cannot be read", 404: "there is no such path", 405: "this path has no such method"}

    @app.exception_handler(HTTPException)
    async def not_served(_: Request, error: HTTPException) -> JSONResponse:
        said = words.get(error.status_code, "the request cannot be served")
        return JSONResponse({"error": said}, error.status_code, error.headers)

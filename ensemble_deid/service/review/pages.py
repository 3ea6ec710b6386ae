"""Applications with a page: its files, and the headers that keep everything else out of it."""

from collections.abc import Callable, Sequence
from importlib.resources import files

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ensemble_deid.service.app import assemble
from ensemble_deid.service.guard import HEALTH, Guard
from ensemble_deid.service.logs import LOG
from ensemble_deid.service.metrics import Metrics
from ensemble_deid.service.processor import Processor
from ensemble_deid.service.review.records import ReviewError, StoreError
from ensemble_deid.service.settings import ServiceSettings

_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
PAGE_FILES = (
    *("review.html", "review.css", "review.js", "server.js", "list.js", "note.js", "panels.js", "dialogs.js"),
    *("rules.html", "rules.js"),
)
PAGE_PATHS = ("/", *(f"/{name}" for name in PAGE_FILES))
"""They hold nothing of a note, and are served without a token, so that the page can ask for one."""
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # Notes are not to stay in the browser's cache.
    "cache-control": "no-store",
}


def make_page_app(
    name: str,
    routers: Sequence[APIRouter],
    settings: ServiceSettings,
    processor: Processor,
    *,
    inside: Callable[[ASGIApp], ASGIApp] = lambda app: app,
) -> ASGIApp:
    """Return the application of a page, `NAME.html`, with its routes; `inside` wraps what the guard lets through.

    A decision that does not fit the review is answered with the reason (409). A store that cannot be read or written is
    logged (503); so is any other error, by the guard (500).
    """
    app = assemble(name, [_page_routes(f"{name}.html"), *routers], processor, openapi_url=None)
    app.add_exception_handler(ReviewError, _conflict)
    app.add_exception_handler(StoreError, _unavailable)
    metrics, open_paths = Metrics(frozenset({HEALTH})), (HEALTH, *PAGE_PATHS)
    return _WithHeaders(Guard(inside(app), settings, processor, metrics, without_token=open_paths, loopback_only=True))


async def _conflict(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 409)


async def _unavailable(_: Request, error: Exception) -> JSONResponse:
    LOG.error("%s", error)
    return JSONResponse({"error": "the review's store cannot be read or written: nothing was stored"}, 503)


def _page_routes(first: str) -> APIRouter:
    """Return the routes of the page's files, which are read once; the file `first` is served at `/`, too."""
    routes = APIRouter()
    folder = files("ensemble_deid.service.review") / "page"
    contents = {name: folder.joinpath(name).read_bytes() for name in PAGE_FILES}

    def add(path: str, name: str) -> None:
        async def page() -> Response:
            return Response(contents[name], media_type=_TYPES[name.rpartition(".")[2]])

        routes.add_api_route(path, page, methods=["GET"])

    add("/", first)
    for name in PAGE_FILES:
        add(f"/{name}", name)
    return routes


class _WithHeaders:
    """An ASGI application that adds the headers to each answer of another."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        await self._app(scope, receive, with_headers)

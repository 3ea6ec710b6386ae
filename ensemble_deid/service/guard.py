"""Checks before every route: site, token, queue, limits of size and time; and the answers to all errors."""

import asyncio
import ipaddress
import json
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ensemble_deid.parsing import strict_json
from ensemble_deid.service.logs import LOG, describe
from ensemble_deid.service.metrics import Metrics
from ensemble_deid.service.processor import Processor
from ensemble_deid.service.refusal import INTERNAL, Refused
from ensemble_deid.service.settings import ServiceSettings

HEALTH = "/health"
BATCH = "/v1/deidentify/batch"
_CLIENT_GONE = 499


class Patience:
    """How long a client may keep us waiting in all: some seconds, and more for what it has sent or read meanwhile."""

    _LEAST_SPEED = 2000.0
    """Bytes a second."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    @asynccontextmanager
    async def wait(self) -> AsyncIterator[None]:
        """Bound what is done within the block. Raises TimeoutError."""
        begun = time.monotonic()
        async with asyncio.timeout(max(0.0, self._left)):
            yield
        self._left -= time.monotonic() - begun

    def moved(self, size: int) -> None:
        """Take into account that bytes were sent or read."""
        self._left += size / self._LEAST_SPEED


class Arrivals:
    """Bodies still arriving. They have no place in the queue: where too many are slow, the oldest is refused."""

    def __init__(self, *, places: int, time_limit: float) -> None:
        self._places, self._time_limit = places, time_limit
        self._waiting: list[asyncio.Timeout] = []

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Give one body its time. Raises Refused (408)."""
        try:
            async with asyncio.timeout(self._time_limit) as deadline:
                self._waiting.append(deadline)
                if len(self._waiting) > self._places:
                    oldest = self._waiting.pop(0)
                    if not oldest.expired():
                        oldest.reschedule(asyncio.get_running_loop().time())
                try:
                    yield
                finally:
                    if deadline in self._waiting:
                        self._waiting.remove(deadline)
        except TimeoutError:
            raise Refused(408, "the body did not arrive in time", close=True) from None


def check_site(headers: dict[bytes, bytes], *, loopback_only: bool) -> None:
    """Refuse what a browser sends for another site, and, if `loopback_only`, other host names (DNS rebinding)."""
    host = headers.get(b"host", b"").decode("latin-1")
    origin = headers.get(b"origin", b"").decode("latin-1")
    if loopback_only and not _is_loopback_name(host):
        raise Refused(403, "without a token, requests are answered at 127.0.0.1 and localhost only", close=True)
    same_site = headers.get(b"sec-fetch-site", b"none") in (b"none", b"same-origin")
    if not same_site or origin not in ("", f"http://{host}", f"https://{host}"):
        raise Refused(403, "requests of other sites are refused", close=True)


def _is_loopback_name(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Guard:
    """An ASGI application around the service's own; `without_token` are the paths that need no token.

    With `loopback_only`, or where there are no tokens, it answers to loopback names alone.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: ServiceSettings,
        processor: Processor,
        metrics: Metrics,
        *,
        without_token: Collection[str] = (HEALTH,),
        loopback_only: bool = False,
    ) -> None:
        self._app, self._settings, self._processor, self._metrics = app, settings, processor, metrics
        self._without_token = frozenset(without_token)
        self._loopback_only = loopback_only or not settings.tokens
        self._arrivals = Arrivals(places=settings.queue, time_limit=settings.arrival_limit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        answer = _Answer(send, self._settings.time_limit)
        try:
            await self._serve(scope, receive, answer.send)
        except Refused as refusal:
            await answer.refuse(scope, receive, refusal)
        except (ClientDisconnect, _ClientStalled):
            answer.status = answer.status or _CLIENT_GONE
        except Exception as error:  # noqa: BLE001 (its message may quote a note, and the server would print it)
            LOG.error("%s", describe(error))
            await answer.refuse(scope, receive, INTERNAL)
        finally:
            self._metrics.request(scope["path"], answer.status or _CLIENT_GONE, time.perf_counter() - begun)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(reversed(scope["headers"]))
        check_site(headers, loopback_only=self._loopback_only)
        if scope["path"] not in self._without_token:
            self._settings.tokens.check(headers.get(b"authorization", b""))
        if self._processor.stopping:
            raise Refused(503, "the service is stopping", retry=True, close=True)
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        streamed = scope["path"] == BATCH
        if not streamed:
            self._check_size(int(headers.get(b"content-length", b"0")))
            receive = await self._whole_body(receive)
        with self._processor.place(batch=streamed):
            self._metrics.in_progress(self._processor.entered)
            await self._app(scope, receive, send)
        self._metrics.in_progress(self._processor.entered)

    def _check_size(self, length: int) -> None:
        if length > self._settings.max_body:
            raise Refused(413, f"the body is larger than {self._settings.max_body} bytes", close=True)

    async def _whole_body(self, receive: Receive) -> Receive:
        """Read the body, and return what hands it on."""
        body = bytearray()
        more = True
        async with self._arrivals.one():
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientDisconnect
                body += message.get("body", b"")
                self._check_size(len(body))
                more = message.get("more_body", False)
        try:
            strict_json(bytes(body))
        except json.JSONDecodeError:
            # The route says what is wrong with it.
            pass
        except ValueError as error:
            raise Refused(422, f"the body: {error}") from None
        left: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def hand_on() -> Message:
            return left.pop() if left else await receive()

        return hand_on


class _ClientStalled(Exception):  # noqa: N818 (it is no error of ours)
    """The client does not read its answer."""


class _Answer:
    """The way back to the client: knows what was sent, and waits no longer than the time limit for a client to read."""

    def __init__(self, send: Send, time_limit: float) -> None:
        self.status = 0
        self._send, self._patience = send, Patience(time_limit)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        try:
            async with self._patience.wait():
                await self._send(message)
            self._patience.moved(len(message.get("body", b"")))
        except TimeoutError:
            raise _ClientStalled from None

    async def refuse(self, scope: Scope, receive: Receive, refusal: Refused) -> None:
        """Send the refusal; where an answer has begun, the server closes the connection before its end."""
        if not self.status:
            await refusal.response()(scope, receive, self.send)

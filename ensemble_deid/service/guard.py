"""What stands before every route: token, queue, limits of size and time, and an answer to whatever goes wrong."""

import asyncio
import hmac
import time
from collections.abc import Collection

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ensemble_deid.service.logs import LOG, describe
from ensemble_deid.service.metrics import Metrics
from ensemble_deid.service.processor import Processor
from ensemble_deid.service.refusal import Refused
from ensemble_deid.service.settings import Settings

HEALTH = "/health"
BATCH = "/v1/deidentify/batch"
_CLIENT_GONE = 499


class Guard:
    """An ASGI application around the service's own; `without_token` are the paths that need no token."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        processor: Processor,
        metrics: Metrics,
        *,
        without_token: Collection[str] = (HEALTH,),
    ) -> None:
        self._app, self._settings, self._processor, self._metrics = app, settings, processor, metrics
        self._without_token = frozenset(without_token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
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
            await answer.refuse(scope, receive, Refused(500, "internal error", close=True))
        finally:
            self._metrics.request(scope["path"], answer.status or _CLIENT_GONE, time.perf_counter() - begun)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(reversed(scope["headers"]))
        if scope["path"] not in self._without_token:
            self._check_token(headers.get(b"authorization", b""))
        if scope["method"] != "POST":
            if self._processor.stopping:
                raise Refused(503, "the service is stopping", retry=True, close=True)
            await self._app(scope, receive, send)
            return
        streamed = scope["path"] == BATCH
        if not streamed:
            self._check_size(int(headers.get(b"content-length", b"0")))
        self._processor.enter()
        self._metrics.in_progress(self._processor.entered)
        try:
            await self._app(scope, receive if streamed else await self._whole_body(receive), send)
        finally:
            self._processor.leave()
            self._metrics.in_progress(self._processor.entered)

    def _check_token(self, given: bytes) -> None:
        token = self._settings.token
        if token is None:
            return
        scheme, _, secret = given.partition(b" ")
        # The time of this comparison does not tell how much of a wrong token is right.
        if not hmac.compare_digest(secret.strip(), token.encode()) or scheme.lower() != b"bearer":
            raise Refused(401, "a valid token is needed: Authorization: Bearer TOKEN", close=True)

    def _check_size(self, length: int) -> None:
        if length > self._settings.max_body:
            raise Refused(413, f"the body is larger than {self._settings.max_body} bytes", close=True)

    async def _whole_body(self, receive: Receive) -> Receive:
        """Read the body, and return what hands it on."""
        body = bytearray()
        more = True
        try:
            async with asyncio.timeout(self._settings.time_limit):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise ClientDisconnect
                    body += message.get("body", b"")
                    self._check_size(len(body))
                    more = message.get("more_body", False)
        except TimeoutError:
            limit = self._settings.time_limit
            raise Refused(408, f"the body did not arrive within {limit:g} seconds", close=True) from None
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
        self._send, self._time_limit = send, time_limit

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        try:
            await asyncio.wait_for(self._send(message), self._time_limit)
        except TimeoutError:
            raise _ClientStalled from None

    async def refuse(self, scope: Scope, receive: Receive, refusal: Refused) -> None:
        """Send the refusal; where an answer has begun, the server closes the connection before its end."""
        if not self.status:
            await refusal.response()(scope, receive, self.send)

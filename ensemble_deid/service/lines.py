"""Lines out of a body that arrives in pieces, and lines as an answer."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ensemble_deid.service.refusal import Refused


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for a line that was not kept."""

    longest: int


class LineResponse(Response):
    """An answer that is written while the request is still being read.

    Starlette's streaming response reads the request itself, to notice a client that leaves, and so loses parts of it.
    """

    media_type = "application/x-ndjson"

    def __init__(self, content: AsyncIterator[bytes]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._lines = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send each line as it comes."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for line in self._lines:
            await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def lines(
    pieces: AsyncGenerator[bytes, None], *, longest: int, time_limit: float
) -> AsyncIterator[tuple[int, bytes | TooLong]]:
    """Yield number and content of each line that is not blank; a longer one is passed over, and `TooLong` yielded.

    No more than `longest` bytes and one piece are kept. Raises Refused when nothing arrives for `time_limit` seconds.
    """
    kept = bytearray()
    number, too_long = 1, False
    async for piece in _timely(pieces, time_limit):
        *ended, rest = piece.split(b"\n")
        for part in ended:
            too_long = too_long or len(kept) + len(part) > longest
            if too_long:
                yield number, TooLong(longest)
            elif (line := bytes(kept + part)).strip():
                yield number, line
            kept.clear()
            number, too_long = number + 1, False
        too_long = too_long or len(kept) + len(rest) > longest
        kept += b"" if too_long else rest
    if too_long:
        yield number, TooLong(longest)
    elif kept.strip():
        yield number, bytes(kept)


async def _timely(pieces: AsyncGenerator[bytes, None], time_limit: float) -> AsyncIterator[bytes]:
    iterator = pieces.__aiter__()
    while True:
        try:
            piece = await asyncio.wait_for(anext(iterator), time_limit)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refused(408, f"nothing arrived for {time_limit:g} seconds: the rest is not processed") from None
        yield piece

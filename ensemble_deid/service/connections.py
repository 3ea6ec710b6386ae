"""Connections whose requests do not arrive: each has a deadline, and the oldest gives way where there are too many."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_LIMIT = 10.0
"""Seconds for the whole head of a request, from the connection's start or the end of the answer before."""
MOST = 400
"""Connections of a worker at a time; processes may commonly open 1,024 files."""


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it. uvicorn itself waits for the rest of a head for ever."""

    _deadline: asyncio.TimerHandle | None = None
    _idle_since = 0.0

    @property
    def _is_idle(self) -> bool:
        """Whether the client is yet to send the head of a request."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, in the place of the oldest without a request where there are too many."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > MOST:
            others = (other for other in self.connections if isinstance(other, BoundedProtocol) and other is not self)
            idle = [other for other in others if other._is_idle]
            (min(idle, key=lambda other: other._idle_since) if idle else self).drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request; only a whole head ends the wait."""
        super().data_received(data)
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; the request that it belongs to ends as if its client had left."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.transport.close()
                return
        super().send_400_response(msg)

    def on_response_complete(self) -> None:
        """Begin the wait for the next request."""
        super().on_response_complete()
        self._watch()

    def drop(self) -> None:
        """Close the connection; the client has asked for nothing yet."""
        # It leaves at once: closing is only finished in the next turn of the loop.
        self.connections.discard(self)
        self.transport.abort()

    def _watch(self) -> None:
        if not self._is_idle or self.transport.is_closing():
            self._stop_watching()
        elif self._deadline is None:
            self._idle_since = self.loop.time()
            self._deadline = self.loop.call_later(HEAD_LIMIT, self.drop)

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

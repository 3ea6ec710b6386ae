"""Starting the server: one process, or several that share a socket and, where they can, the memory of one model."""

import asyncio
import gc
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.process import BaseProcess

import uvicorn
from starlette.types import ASGIApp
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.h11_impl import H11Protocol

from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.errors import ModelError
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.note.document import Document
from ensemble_deid.service.app import create_app, make_app
from ensemble_deid.service.guard import Guard
from ensemble_deid.service.logs import LOG, describe, set_up
from ensemble_deid.service.metrics import share_between_workers
from ensemble_deid.service.processor import THREAD
from ensemble_deid.service.settings import ServiceSettings

# After the time limits of a body and of its processing, what is left of a stop is writing the last answers.
_LAST_WORDS = 5
_LOOK = 0.2
"""Seconds between checks whether a worker, or its parent, has ended."""


def serve(
    settings: ServiceSettings,
    *,
    started: Callable[[str], None],
    create: Callable[[ServiceSettings], ASGIApp] = create_app,
) -> None:
    """Serve until a signal ends it; requests in work are finished, others refused.

    `started` receives the address as soon as it is taken; `create` makes the application (with several workers, it is
    always the service's). Raises OSError where the address is taken by another program.
    """
    set_up()
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.create_server((settings.host, settings.port), family=family, backlog=2048) as listener:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        started(f"http://{host}:{listener.getsockname()[1]}")
        if settings.workers == 1:
            _run_one(_config(settings, partial(create, settings)), listener)
            return
        with tempfile.TemporaryDirectory(prefix="ensemble-deid-metrics-") as folder:
            # Workers inherit it, and share the values of their metrics there.
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
            _run_several(settings, listener)


def _run_one(config: uvicorn.Config, listener: socket.socket) -> None:
    # The server stops in good order and then passes the signal on.
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
    for thread in threading.enumerate():
        if thread.name.startswith(THREAD):
            thread.join(timeout=1)
            if thread.is_alive():
                # A note that took too long: nobody waits for its result, and it cannot be stopped otherwise.
                sys.stdout.flush()
                os._exit(0)


def _run_several(settings: ServiceSettings, listener: socket.socket) -> None:
    """Keep the workers running until a signal ends them. Raises ModelError if they cannot start."""
    create: Callable[[], Guard] = partial(create_app, settings)
    shared = _can_share(settings)
    if shared:
        model = Deidentifier.load(settings.model, device=settings.device, submodels=settings.submodels)
        create = partial(make_app, model, settings, RunOptions.choose(model.labels, **settings.choices))
        # Also share what is only built on first use.
        model.process_each([(Document("the first", "Seen by Dr. Bell on 03/04/2019."), RunOptions())])
        # Garbage collection would write into all objects, and a worker no longer shares pages that it writes.
        gc.collect()
        gc.freeze()
    processes = multiprocessing.get_context("fork" if shared else "spawn")
    stop, own = threading.Event(), os.getpid()

    def end(*_: object) -> None:
        if os.getpid() != own:
            # A copy that does not listen to signals of its own yet: nobody would end it again.
            os._exit(0)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)

    def started() -> BaseProcess:
        worker = processes.Process(target=_work, args=(settings, create, listener, os.getpid()))  # type: ignore[attr-defined]
        worker.start()
        return worker  # type: ignore[no-any-return]

    workers = [started() for _ in range(settings.workers)]
    try:
        while not stop.wait(_LOOK):
            if any(worker.exitcode == STARTUP_FAILURE for worker in workers):
                raise ModelError(f"{settings.model}: the workers could not start")
            # Replace a killed worker, as when memory runs out.
            workers = [worker if worker.is_alive() else started() for worker in workers]
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()


def _can_share(settings: ServiceSettings) -> bool:
    """Whether workers can be forked from a process with the model: on Linux, without a GPU."""
    device = settings.device or read_manifest(settings.model).config.get("device")
    return sys.platform == "linux" and device != "cuda"


def _work(settings: ServiceSettings, create: Callable[[], Guard], listener: socket.socket, parent: int) -> None:
    """Serve as one of several workers, until a signal or the end of the parent."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    if hasattr(signal, "SIGHUP"):
        # The parent gets the signal too, and ends its workers.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    set_up()
    share_between_workers()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os.kill(os.getpid(), signal.SIGTERM)

    def created() -> Guard:
        try:
            return create()
        except Exception as error:  # noqa: BLE001 (any: the supervisor is told by the status alone, and starts no other)
            LOG.error("%s", describe(error))
            sys.exit(STARTUP_FAILURE)

    threading.Thread(target=watch, daemon=True).start()
    _run_one(_config(settings, created), listener)


def _config(settings: ServiceSettings, create: Callable[[], ASGIApp]) -> uvicorn.Config:
    return uvicorn.Config(
        create,
        factory=True,
        interface="asgi3",
        # These and no others that may be installed, so that the service is everywhere the same.
        http=BoundedProtocol,
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(settings.time_limit + settings.arrival_limit) + _LAST_WORDS,
    )


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
        """Take the connection, dropping the oldest idle one when there are too many."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > MOST:
            others = (other for other in self.connections if isinstance(other, BoundedProtocol) and other is not self)
            idle = [other for other in others if other._is_idle]
            (min(idle, key=lambda other: other._idle_since) if idle else self).drop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP; the request that they belong to ends as if its client had left."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.transport.close()
                return
        super().send_400_response(msg)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def drop(self) -> None:
        """Close the connection; the client has asked for nothing yet."""
        # Removed at once, since closing only finishes in the next turn of the event loop.
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

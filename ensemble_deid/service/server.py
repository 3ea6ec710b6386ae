"""Starting the server: one process, or several that share a socket, each with a model of its own."""

import os
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import uvicorn
from starlette.types import ASGIApp
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from ensemble_deid.errors import ModelError
from ensemble_deid.service.app import create_app
from ensemble_deid.service.connections import BoundedProtocol
from ensemble_deid.service.guard import Guard
from ensemble_deid.service.logs import LOG, describe, set_up
from ensemble_deid.service.processor import THREAD
from ensemble_deid.service.settings import ServiceSettings

# After the time limits of a body and of its processing, what is left of a stop is writing the last answers.
_LAST_WORDS = 5


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
        config = _config(settings, create)
        if settings.workers == 1:
            _run_one(config, listener)
            return
        with tempfile.TemporaryDirectory(prefix="ensemble-deid-metrics-") as folder:
            # Workers inherit it, and share the values of their metrics there.
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
            supervisor = Multiprocess(config, sockets=[listener])
            supervisor.run()
        if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
            raise ModelError(f"{settings.model}: the workers could not start")


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


def _create_worker_app(settings: ServiceSettings) -> Guard:
    """Return the application of one of several workers; where that fails, no worker is started again."""
    try:
        return create_app(settings)
    except Exception as error:  # noqa: BLE001 (any: the supervisor is told by the status alone)
        LOG.error("%s", describe(error))
        sys.exit(STARTUP_FAILURE)


def _config(settings: ServiceSettings, create: Callable[[ServiceSettings], ASGIApp]) -> uvicorn.Config:
    return uvicorn.Config(
        partial(create if settings.workers == 1 else _create_worker_app, settings),
        factory=True,
        interface="asgi3",
        workers=settings.workers,
        # These and no others that may be installed, so that the service is everywhere the same.
        http=BoundedProtocol,
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(settings.time_limit + settings.arrival_limit) + _LAST_WORDS,
        timeout_worker_healthcheck=60,
    )

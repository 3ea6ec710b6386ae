"""A real server in a process of its own, and a client that can also misbehave."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ADDRESS = re.compile(r"at http://([^ ;]+):(\d+);")


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Service:
    """A running server; `log` has what it wrote."""

    process: subprocess.Popen[bytes]
    host: str
    port: int
    log: Path
    token: str | None = None

    def ask(self, method: str, path: str, content: object = None, **headers: str) -> Answer:
        """Send one request; bytes go as they are, anything else as JSON."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        body = content if isinstance(content, bytes | type(None)) else json.dumps(content).encode()
        known = {"content-type": "application/json"} | ({"authorization": f"Bearer {self.token}"} if self.token else {})
        try:
            connection.request(method, path, body, known | headers)
            response = connection.getresponse()
            return Answer(response.status, response.read(), {k.lower(): v for k, v in response.getheaders()})
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, content: object, **headers: str) -> Answer:
        return self.ask("POST", path, content, **headers)

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=60)

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to end, and return its status."""
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


@contextmanager
def running(
    model: Path, folder: Path, *options: str, token: str | None = None, command: str = "serve"
) -> Iterator[Service]:
    """Start a server on a free port, wait until it answers, and end it."""
    log = folder / "server.log"
    arguments = [sys.executable, "-m", "ensemble_deid", *command.split(), str(model), "--port", "0", *options]
    environment = {k: v for k, v in os.environ.items() if k != "ENSEMBLE_DEID_TOKEN"}
    environment |= {"PYTHONUNBUFFERED": "1"} | ({"ENSEMBLE_DEID_TOKEN": token} if token else {})
    with log.open("wb") as stream:
        process = subprocess.Popen(arguments, stdout=stream, stderr=stream, env=environment)
    try:
        yield _answering(process, log, token)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(timeout=60)


def _answering(process: subprocess.Popen[bytes], log: Path, token: str | None) -> Service:
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        found = _ADDRESS.search(log.read_text(encoding="utf-8"))
        if found:
            service = Service(process, found[1], int(found[2]), log, token)
            # The port is taken before the model is loaded: this waits.
            assert service.get("/health").status == 200
            return service
        time.sleep(0.05)
    raise AssertionError(log.read_text(encoding="utf-8"))

"""What the service refuses: too many, too slow, too late; and what it says when it cannot start."""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from http_service import Service, running

from ensemble_deid.cli.main import main
from ensemble_deid.errors import ConfigError
from ensemble_deid.service.app import make_app
from ensemble_deid.service.processor import Processor
from ensemble_deid.service.refusal import Refused
from ensemble_deid.service.settings import ServiceSettings, is_loopback
from ensemble_deid.service.tokens import Tokens

MARKER = "Zyxwvutsr"
NOTE = f"Patient: {MARKER} Bell\nDate: 03/04/2019\n"


def begin(service: Service, path: str, body: bytes, *, missing: int = 0) -> socket.socket:
    """Send a request whose last bytes are still to come."""
    connection = service.connect()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body[: len(body) - missing])
    return connection


def wait_until(done: Callable[[], bool]) -> None:
    """Wait for what a busy machine may need long for."""
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)


def in_progress(service: Service) -> float:
    """Return how many requests have a place in the queue."""
    page = service.get("/metrics").body.decode()
    return float(page.partition("\nensemble_deid_requests_in_progress ")[2].split()[0])


def workers(service: Service) -> set[int]:
    """Return the processes of a service's workers that run."""
    children = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()
    return {int(child) for child in children if " Z " not in Path(f"/proc/{child}/stat").read_text()}


def notes_done(service: Service) -> float:
    """Return how many notes have been processed."""
    lines = service.get("/metrics").body.decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("ensemble_deid_notes_total"))


def refuses_connections(service: Service) -> bool:
    try:
        service.connect().close()
    except OSError:
        return True
    return False


def answer(connection: socket.socket) -> tuple[int, bytes]:
    """Return status and body, to the end of the connection or of the body."""
    with connection, connection.makefile("rb") as reader:
        status = int(reader.readline().split()[1])
        headers = {}
        while (line := reader.readline()) != b"\r\n":
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        return status, reader.read(int(headers["content-length"])) if "content-length" in headers else reader.read()


def test_a_full_queue_a_slow_client_and_a_stop(tiny_model: Path, tmp_path: Path) -> None:
    body = json.dumps({"text": NOTE}).encode()
    with running(tiny_model, tmp_path, "--queue", "4", "--time-limit", "20", "--arrival-limit", "3") as service:
        # Bodies that do not arrive take no place, and batches no more than half of them.
        slow = [begin(service, "/v1/deidentify", body, missing=1) for _ in range(4)]
        batches = [begin(service, "/v1/deidentify/batch", body, missing=1) for _ in range(2)]
        wait_until(lambda: in_progress(service) == 2)
        full = service.post("/v1/deidentify/batch", body)
        assert (full.status, full.headers["retry-after"]) == (429, "1")
        assert service.post("/v1/deidentify", body).status == 200
        assert service.get("/health").status == 200
        held = slow.pop()
        held.sendall(body[-1:])
        status, content = answer(held)
        assert (status, MARKER.encode() in content) == (200, False)
        for connection in slow:
            assert answer(connection) == (408, b'{"error":"the body did not arrive in time"}')
        for connection in batches:
            assert b"the lines came too slowly" in answer(connection)[1]
        wait_until(lambda: in_progress(service) == 0)
        # A stop: what has begun is answered, a batch says where it ends, and nobody else is let in.
        done = notes_done(service)
        working = begin(service, "/v1/deidentify", body, missing=1)
        batch = begin(service, "/v1/deidentify/batch", body + b"\n" + body, missing=len(body))
        wait_until(lambda: in_progress(service) == 1 and notes_done(service) == done + 1)
        working.sendall(body[-1:])
        service.process.send_signal(signal.SIGTERM)
        wait_until(lambda: refuses_connections(service))
        batch.sendall(body)
        status, content = answer(working)
        assert MARKER.encode() not in content
        assert status in (200, 503)
        status, content = answer(batch)
        assert (status, MARKER.encode() in content) == (200, False)
        assert content.index(b'"text"') < content.index(b"the service is stopping")
        with pytest.raises(OSError, match=r"refused|reset"):
            service.get("/health")
        assert service.process.wait(timeout=30) == 0
        assert MARKER not in service.output()


def test_a_note_that_takes_too_long_holds_up_no_stop(tiny_model: Path, tmp_path: Path) -> None:
    with running(tiny_model, tmp_path, "--time-limit", "3") as service:
        late = service.post("/v1/deidentify", {"text": NOTE * 20000})
        assert late.status == 503
        assert MARKER.encode() not in late.body
        assert service.stop() == 0
        assert MARKER not in service.output()


def test_workers_share_port_and_metrics(tiny_model: Path, tmp_path: Path) -> None:
    with running(tiny_model, tmp_path, "--jobs", "2", "--entities", "own") as service:
        assert service.get("/supportedentities").json == ["CITY", "DATE", "DOCTOR", "PATIENT"]
        texts = {
            service.post("/v1/deidentify", {"text": NOTE, "style": "surrogate", "patient_id": "7"}).json["text"]
            for _ in range(12)
        }
        # The key is made once, for all workers.
        assert len(texts) == 1
        # A request is counted when its answer has gone out.
        counted = 'ensemble_deid_requests_total{path="/v1/deidentify",status="200"} 12.0'
        wait_until(lambda: counted in service.get("/metrics").body.decode())
        if sys.platform == "linux":
            before = workers(service)
            # They are copies of a process that has the model: most of their memory is still that of all.
            for worker in before:
                memory = Path(f"/proc/{worker}/smaps_rollup").read_text()
                sizes = {line.split()[0]: int(line.split()[1]) for line in memory.splitlines()[1:]}
                assert sizes["Private_Dirty:"] < sizes["Rss:"] / 2
            # One that is killed is replaced.
            os.kill(min(before), signal.SIGKILL)
            wait_until(lambda: len(workers(service)) == 2 and min(before) not in workers(service))
            assert [service.post("/v1/deidentify", {"text": NOTE}).status for _ in range(4)] == [200] * 4
        assert service.stop(signal.SIGINT) == 0
        assert MARKER not in service.output()


def test_what_has_not_begun_in_time_is_dropped() -> None:
    async def run() -> None:
        processor = Processor(places=2, time_limit=0.2)
        begun: list[int] = []
        first = asyncio.create_task(processor.run(lambda: time.sleep(0.6)))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(processor.run(lambda: begun.append(2)))
        for task in (first, second):
            with pytest.raises(Refused, match=r"not done within 0\.2 seconds"):
                await task
        await asyncio.sleep(0.6)
        assert await processor.run(lambda: 3) == 3
        assert begun == []
        with processor.place(), processor.place(batch=True):
            for batch in (False, True):
                with pytest.raises(Refused, match="too many"), processor.place(batch=batch):
                    pass
        with processor.place(batch=True):
            with pytest.raises(Refused, match="too many"), processor.place(batch=True):
                pass
            with processor.place():
                pass
        processor.stopping = True
        with pytest.raises(Refused, match="stopping"), processor.place():
            pass
        processor.close()

    asyncio.run(run())


class Broken:
    """A model with a fault that quotes the note."""

    labels = ("DATE",)

    def process_each(self, asked: list[Any]) -> None:
        raise RuntimeError(asked[0][0].text)


@pytest.mark.parametrize("path", ["/analyze", "/v1/deidentify", "/v1/deidentify/batch"])
def test_a_fault_of_ours_says_nothing_of_the_note(path: str, caplog: pytest.LogCaptureFixture) -> None:
    app = make_app(Broken(), ServiceSettings(Path("model")))  # type: ignore[arg-type]
    body = json.dumps({"text": MARKER}).encode()
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [
        (b"host", b"localhost"),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b"", "root_path": ""}
    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == (200 if path.endswith("batch") else 500)
    if not path.endswith("batch"):
        assert json.loads(sent[1]["body"]) == {"error": "internal error"}
    assert MARKER not in str(sent)
    assert "unforeseen RuntimeError" in caplog.text
    assert MARKER not in caplog.text


def test_a_service_for_other_machines_needs_a_token(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*options: str) -> str:
        assert main(["serve", str(tiny_model), *options]) == 2
        return capsys.readouterr().err

    monkeypatch.delenv("ENSEMBLE_DEID_TOKEN", raising=False)
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        assert f"{host} can be reached from other machines: set ENSEMBLE_DEID_TOKEN" in refused("--host", host)
    monkeypatch.setenv("ENSEMBLE_DEID_TOKEN", " ")
    assert "set ENSEMBLE_DEID_TOKEN" in refused("--host", "0.0.0.0")
    monkeypatch.setenv("ENSEMBLE_DEID_TOKEN", "short")
    assert "at least 16 ASCII characters" in refused()
    monkeypatch.setenv("ENSEMBLE_DEID_TOKEN", "a token of sixteen characters")
    assert "sixteen" not in repr(ServiceSettings(tiny_model, tokens=Tokens.of("a token of sixteen characters")))
    assert "port must be at most 65535" in refused("--port", "70000")
    assert "time_limit must be a positive number" in refused("--time-limit", "nan")
    assert "together must be at least 1" in refused("--together", "0")
    assert "queue must be at least 1" in refused("--queue", "0")
    assert "no final estimator was fitted for nosuch" in refused("--port", "0", "--submodels", "nosuch")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "in use" in refused("--port", str(taken.getsockname()[1]))
    assert main(["serve", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_loopback() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("127.9.9.9")
    assert is_loopback("::1")
    with pytest.raises(ConfigError):
        is_loopback("")


def test_without_the_extra(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "ensemble_deid.service.server", raising=False)
    assert main(["serve", str(tiny_model)]) == 2
    assert "pip install 'ensemble_deid[service]'" in capsys.readouterr().err

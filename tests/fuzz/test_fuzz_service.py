"""Requests of any bytes to a running service: one clear answer, no note quoted in an error or the log, no outage."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from budget import Budget
from hostile import MARKER, damaged
from http_service import Service, running
from hypothesis import strategies as st

_NOTE = f"Patient: {MARKER}\nSeen by Dr. Kemp on 03/04/2019.\n"
_BODIES: dict[str, dict[str, Any]] = {
    "/v1/deidentify": {"text": _NOTE, "patient": "7", "style": "tag"},
    "/v1/deidentify/batch": {"id": "1", "text": _NOTE},
    "/analyze": {"text": _NOTE, "language": "en"},
    "/anonymize": {"text": _NOTE, "analyzer_results": [{"start": 9, "end": 18, "entity_type": "PERSON", "score": 0.9}]},
}
_HEADERS = (
    b"Content-Type: application/json",
    b"Content-Type: text/plain; charset=utf-16",
    b"Content-Encoding: gzip",
    b"Authorization: Bearer " + MARKER.encode(),
    b"Authorization: Basic Og==",
    b"Origin: https://evil.example",
    b"Host: evil.example",
    b"Content-Length: 5",
    b"Content-Length: -1",
    b"Transfer-Encoding: chunked",
    b"Expect: 100-continue",
    b"Upgrade: websocket",
    b"X-Long: " + b"a" * 9000,
)
_line = st.one_of(st.sampled_from(_HEADERS), st.binary(max_size=30))


@pytest.fixture(scope="module")
def service(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(
        tiny_model, tmp_path_factory.mktemp("fuzzed"), "--max-body", "20000", "--arrival-limit", "3"
    ) as started:
        yield started


def answer(service: Service, request: bytes) -> bytes:
    """Send bytes as they are, close the sending side, and return all that comes back."""
    with socket.create_connection((service.host, service.port), timeout=60) as connection:
        parts = []
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                parts.append(part)
        except (ConnectionError, BrokenPipeError):
            pass
    return b"".join(parts)


def check_answer(service: Service, answered: bytes) -> int | None:
    if answered:
        assert answered.startswith(b"HTTP/1.1 "), answered[:100]
    status = int(answered[9:12]) if answered else None
    assert status is None or status < 500 or status == 503, answered[:300]
    if status != 200:
        assert MARKER.encode() not in answered, answered[:300]
    said = service.output()
    assert MARKER not in said
    assert "Traceback" not in said
    assert "unforeseen" not in said
    assert service.get("/health").status == 200
    return status


def test_requests_of_any_bytes(service: Service, budget: Budget) -> None:
    def check(data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(_BODIES)))
        body = json.dumps(_BODIES[path]).encode()
        if data.draw(st.booleans()):
            body = data.draw(st.one_of(damaged(body), st.binary(max_size=200)))
        method = data.draw(st.sampled_from([b"POST", b"POST", b"GET", b"DELETE", b"\xff", b""]))
        lines = [method + b" " + path.encode() + b" HTTP/1.1", b"Host: localhost", b"Connection: close"]
        lines += data.draw(st.lists(_line, max_size=3))
        if data.draw(st.booleans()):
            lines.append(b"Content-Length: %d" % len(body))
        request = b"\r\n".join(lines) + b"\r\n\r\n" + body
        if data.draw(st.integers(0, 3)) == 0:
            request = data.draw(damaged(request))
        check_answer(service, answer(service, request))

    budget.every(st.data(), check)


def test_a_key_given_twice_is_refused(service: Service, budget: Budget) -> None:
    def check(data: st.DataObject) -> None:
        path = data.draw(st.sampled_from([path for path in sorted(_BODIES) if path != "/v1/deidentify/batch"]))
        pairs = list(_BODIES[path].items())
        key, value = data.draw(st.sampled_from(pairs))
        other = data.draw(st.sampled_from([value, "", None, 0, [], {}, MARKER]))
        pairs.insert(data.draw(st.integers(0, len(pairs))), (key, other))
        body = "{" + ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in pairs) + "}"
        status = check_answer(
            service, b"HTTP/1.1 %d" % (found := service.post(path, body.encode())).status + found.body
        )
        assert status in (400, 422), body

    budget.every(st.data(), check)

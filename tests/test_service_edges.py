"""Slow and half-open clients, other sites, scopes of tokens and doubled keys, against a real server on 127.0.0.1."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from http_service import Service, running
from made_keys import KEY

from ensemble_deid.cli.main import main
from ensemble_deid.errors import ConfigError
from ensemble_deid.service.server import MOST
from ensemble_deid.service.tokens import SCOPES, Tokens

NAME = "Quillfeather"
TEXT = f"Mx {NAME} came.\nDate: 03/04/2019\n"
TOKENS = {
    name: f"a token of sixteen characters for {name}".replace(" ", "-") for name in ("predict", "replace", "known")
}
ALL = "a token of sixteen characters"


@pytest.fixture(scope="module")
def service(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("scopes")
    (folder / "known.csv").write_text(f"patient_id,kind,value\n7,name,Ada {NAME}\n", encoding="utf-8")
    lines = [f"{TOKENS[name]} {' '.join(dict.fromkeys(('predict', name)))}" for name in TOKENS]
    (folder / "tokens").write_text("\n".join(["# of the site", "", *lines]), encoding="utf-8")
    (folder / "key").write_text(KEY.text, encoding="utf-8")
    options = ["--known", "known.csv", "--tokens", "tokens", "--key-file", "key"]
    places = [str(folder / part) if part in ("known.csv", "tokens", "key") else part for part in options]
    with running(tiny_model, folder, *places, token=ALL) as running_service:
        yield running_service


@pytest.fixture(scope="module")
def open_service(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("open")
    with running(tiny_model, folder, "--queue", "8", "--arrival-limit", "2", "--max-body", "20000") as running_service:
        yield running_service


def ask(service: Service, scope: str, path: str = "/v1/deidentify", **fields: object) -> tuple[int, dict[str, object]]:
    token = ALL if scope == "all" else TOKENS[scope]
    answer = service.post(path, {"text": TEXT, **fields}, authorization=f"Bearer {token}")
    return answer.status, answer.json


@pytest.mark.parametrize("more", [{"style": "surrogate"}, {"style": "hash"}, {"styles": {"DATE": "surrogate"}}])
def test_only_replace_may_ask_for_what_the_key_makes(service: Service, more: dict[str, object]) -> None:
    for scope in ("predict", "known"):
        status, content = ask(service, scope, patient_id="7", **more)
        assert (status, "the token lacks the scope replace" in str(content)) == (403, True)
    dates = {
        str(ask(service, scope, patient_id="7", **more)[1]["text"]).split("Date: ")[1] for scope in ("replace", "all")
    }
    assert len(dates) == 1
    assert dates != {"03/04/2019\n"}


def test_a_batch_obeys_the_scopes_too(service: Service) -> None:
    line = json.dumps({"text": TEXT, "patient_id": "7"}).encode()
    for scope, status in (("predict", 403), ("replace", 200)):
        answer = service.post("/v1/deidentify/batch?style=surrogate", line, authorization=f"Bearer {TOKENS[scope]}")
        assert answer.status == status
    kept = service.post("/v1/deidentify/batch", line, authorization=f"Bearer {TOKENS['predict']}")
    assert NAME in kept.json["text"]


def test_only_known_learns_whose_name_a_list_holds(service: Service) -> None:
    """To others it is as if there were no list, in the text as in the keys of the answer."""
    for scope in ("predict", "replace"):
        status, content = ask(service, scope, patient_id="7")
        assert (status, NAME in str(content["text"]), "known_left" in content) == (200, True, False)
        assert content == ask(service, scope, patient_id="8")[1]
    for scope in ("known", "all"):
        status, content = ask(service, scope, patient_id="7")
        assert (status, NAME in str(content["text"]), content["known_left"]) == (200, False, 0)


def test_concurrent_requests_have_their_own_scopes(service: Service) -> None:
    """A connection that is kept open is used by one token after another."""
    import http.client

    with closing(http.client.HTTPConnection(service.host, service.port, timeout=60)) as connection:
        for scope, kept in (("known", False), ("predict", True), ("all", False), ("replace", True)):
            token = ALL if scope == "all" else TOKENS[scope]
            headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
            connection.request("POST", "/v1/deidentify", json.dumps({"text": TEXT, "patient_id": "7"}), headers)
            assert (NAME in json.loads(connection.getresponse().read())["text"]) == kept


def test_where_known_identifiers_withhold_notes_their_scope_is_needed(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "known.csv").write_text(f"patient_id,kind,value\n7,name,Ada {NAME}\n", encoding="utf-8")
    (tmp_path / "tokens").write_text(f"{TOKENS['predict']} predict\n", encoding="utf-8")
    options = ("--known", str(tmp_path / "known.csv"), "--strict", "--tokens", str(tmp_path / "tokens"))
    with running(tiny_model, tmp_path, *options, token=ALL) as service:
        for path in ("/v1/deidentify", "/analyze"):
            answer = service.post(path, {"text": TEXT}, authorization=f"Bearer {TOKENS['predict']}")
            assert (answer.status, "lacks the scope known" in answer.json["error"]) == (403, True)
        assert service.post("/analyze", {"text": TEXT}).status == 200


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "has no token"),
        (f"{ALL}", ":1: expected TOKEN predict"),
        (f"{ALL} replace", ":1: expected TOKEN predict"),
        (f"{ALL.replace(' ', '-')} predict all", ":1: expected TOKEN predict"),
        ("short predict", "at least 16 ASCII characters"),
        (f"{TOKENS['known']} predict\n{TOKENS['known']} predict", ":2: the token occurs twice"),
    ],
)
def test_a_file_of_tokens_with_a_mistake_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=said) as raised:
        Tokens.of(None, path)
    assert "sixteen" not in str(raised.value)
    assert Tokens.of(ALL).scopes == {ALL: frozenset(SCOPES)}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:8000"}, 200),
        ({"host": "[::1]:8000"}, 200),
        ({"host": "attacker.example"}, 403),
        ({"host": "127.0.0.1.attacker.example"}, 403),
        ({"host": ""}, 403),
        ({"host": "localhost:8000", "origin": "http://localhost:8000"}, 200),
        ({"host": "localhost:8000", "origin": "http://localhost:9000"}, 403),
        ({"origin": "https://attacker.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
    ],
)
def test_without_a_token_only_this_site_is_answered(
    open_service: Service, headers: dict[str, str], status: int
) -> None:
    for method, path, content in (("POST", "/v1/deidentify", {"text": TEXT}), ("GET", "/metrics", None)):
        answer = open_service.ask(method, path, content, **headers)
        assert (answer.status, NAME.encode() in answer.body and status != 200) == (status, False)


def test_with_a_token_any_host_name_is_answered_and_no_other_site(service: Service) -> None:
    assert service.get("/supportedentities", host="notes.example").status == 200
    assert service.get("/supportedentities", host="notes.example", origin="https://notes.example").status == 200
    assert service.get("/supportedentities", host="notes.example", origin="https://attacker.example").status == 403


@pytest.mark.parametrize("path", ["/analyze", "/anonymize", "/v1/deidentify"])
def test_a_key_that_occurs_twice_is_refused(open_service: Service, path: str) -> None:
    doubled = [
        f'{{"text": "A note.", "text": "{NAME}", "analyzer_results": []}}',
        f'{{"text": "x", "analyzer_results": [], "styles": {{"DATE": "keep", "DATE": "{NAME}"}}}}',
    ]
    for content in doubled:
        answer = open_service.post(path, content.encode())
        assert (answer.status, answer.json) == (422, {"error": "the body: a key occurs twice in one object"})


def test_lines_of_a_batch_are_strict(open_service: Service) -> None:
    lines = [
        f'{{"text": "a", "text": "{NAME}"}}',
        f'{{"text": "a", "patient": "{NAME}"}}',
        f'{{"text": "a", "{NAME}": 1}}',
        "[" * 9000,
        '{"text": "a", "spans": [], "site": "x"}',
    ]
    answers = open_service.post("/v1/deidentify/batch", "\n".join(lines).encode()).body.decode().splitlines()
    assert [json.loads(line).get("error") for line in answers] == [
        "the line: a key occurs twice in one object",
        "the line: unknown key 'patient'; did you mean 'patient_id'?",
        "the line: unknown key; known are id, patient_id, site, text, spans, metadata",
        "the line: values are nested too deeply",
        None,
    ]


def test_a_mistyped_key_of_a_presidio_request_is_refused(open_service: Service) -> None:
    assert open_service.post("/analyze", {"text": "a", "entitys": ["X"]}).status == 422
    spans = [{"start": 0, "end": 1, "entity_type": "X", "recognition_metadata": {}}]
    operators = {"X": {"type": "replace", "newvalue": "y"}}
    request = {"text": "a", "analyzer_results": spans}
    assert open_service.post("/anonymize", request).status == 200
    assert open_service.post("/anonymize", {**request, "anonymizers": operators}).status == 422


def test_half_open_requests_do_not_keep_others_out(open_service: Service) -> None:
    """More than the connections that the server keeps; each has its deadline, also after a first whole request."""
    with ExitStack() as stack:
        for number in range(MOST + 100):
            connection = stack.enter_context(open_service.connect())
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Half: " + b"a" * (number % 3))
            if number % 100 == 99:
                assert open_service.get("/health").status == 200
        assert open_service.post("/v1/deidentify", {"text": TEXT}).status == 200


def is_closed(connection: socket.socket, *, trickle: bytes) -> bool:
    """Whether the server closes in the end, while a byte is sent every half second."""
    connection.settimeout(0.5)
    for _ in range(600):
        try:
            connection.sendall(trickle)
            if not connection.recv(4096):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def test_a_head_has_a_total_deadline(open_service: Service) -> None:
    with open_service.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /health HTTP/1.1\r\nX-Slow: ")
        assert is_closed(connection, trickle=b"a")


def post_head(path: str) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()


@pytest.mark.parametrize("path", ["/v1/deidentify", "/v1/deidentify/batch"])
def test_a_body_has_a_total_deadline_however_often_a_byte_comes(open_service: Service, path: str) -> None:
    with open_service.connect() as connection:
        connection.sendall(post_head(path))
        assert is_closed(connection, trickle=b"1\r\n \r\n")


def test_slow_batches_and_bodies_leave_places_for_others(open_service: Service) -> None:
    """Half of the eight places at most are taken by batches, and none by bodies that are still arriving."""
    note = json.dumps({"text": TEXT}).encode()
    with ExitStack() as stack:
        for path in ["/v1/deidentify/batch"] * 8 + ["/v1/deidentify"] * 16:
            connection = stack.enter_context(open_service.connect())
            connection.sendall(post_head(path) + b"%x\r\n%s\r\n" % (len(note), note))
        for _ in range(5):
            assert open_service.post("/v1/deidentify", note).status == 200
    end = time.monotonic() + 30
    while open_service.post("/v1/deidentify/batch", note).status != 200:
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.parametrize(
    "head", [b"GET /metrics", b"GET /nowhere", b"POST /v1/deidentify", b"POST /v1/deidentify/batch"]
)
def test_a_body_that_is_no_http_is_one_refusal(open_service: Service, head: bytes) -> None:
    """Its end comes with its head, before the answer."""
    with open_service.connect() as connection:
        connection.sendall(head + b" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        answered = b""
        while part := connection.recv(4096):
            answered += part
    assert answered.startswith(b"HTTP/1.1 400 ")
    assert answered.count(b"HTTP/1.1 ") == 1
    assert open_service.get("/health").status == 200
    for word in ("unforeseen", "ProtocolError", "ASGI"):
        assert word not in open_service.output()


def test_a_slow_client_says_nothing_in_the_log(open_service: Service) -> None:
    assert NAME not in open_service.output()
    assert "unforeseen" not in open_service.output()


def test_the_command_refuses_limits_that_are_none(tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tiny_model), "--arrival-limit", "0"]) == 2
    assert "arrival_limit must be a positive number" in capsys.readouterr().err

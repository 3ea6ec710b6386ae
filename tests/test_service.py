"""The service, by a real server: Presidio's requests and ours, and what is refused."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from http_service import Service, running
from made_keys import KEY

from ensemble_deid import Deidentifier

MARKER = "Zyxwvutsr"
TEXT = "Patient: Anna Bell\nDate: 03/04/2019\nSeen by Dr. Hunt"
TOKEN = "a token of sixteen characters"


@pytest.fixture(scope="module")
def service(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    (folder / "key").write_text(KEY.text, encoding="utf-8")
    options = ("--max-body", "20000", "--key-file", str(folder / "key"))
    with running(tiny_model, folder, *options, token=TOKEN) as running_service:
        yield running_service


def test_analyze_answers_as_presidio_does(service: Service, tiny_model: Path) -> None:
    answer = service.post("/analyze", {"text": TEXT, "language": "en"})
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert [(e["entity_type"], e["start"], e["end"]) for e in answer.json] == [
        ("PERSON", 9, 18),
        ("DATE_TIME", 25, 35),
        ("PERSON", 48, 52),
    ]
    assert all(
        set(e) == {"analysis_explanation", "end", "entity_type", "score", "start"} and e["analysis_explanation"] is None
        for e in answer.json
    )
    spans = Deidentifier.load(tiny_model).deidentify(TEXT).spans
    assert [e["score"] for e in answer.json] == [span.score for span in spans]


def test_data_in_rtf_is_always_found(service: Service) -> None:
    data = "{\\*\\themedata " + "504b0304" * 20 + "}"
    text = "{\\rtf1 " + TEXT + data + "}"
    for asked in ({}, {"entities": ["PERSON"]}, {"score_threshold": 1}):
        found = service.post("/analyze", {"text": text, **asked}).json
        assert [text[e["start"] : e["end"]] for e in found if e["entity_type"] == "RTF-DATA"] == [data]


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/v1/deidentify", {"style": "text:\ud800"}),
        ("/v1/deidentify", {"scope": "\ud800"}),
        ("/v1/deidentify", {"patient_id": "\ud800", "style": "surrogate"}),
        ("/anonymize", {"anonymizers": {"DEFAULT": {"type": "replace", "new_value": "\ud800"}}}),
        ("/anonymize", {"anonymizers": {"DEFAULT": {"type": "hash", "salt": "\ud800"}}}),
    ],
)
def test_half_a_character_is_refused_in_every_field(service: Service, path: str, more: dict[str, object]) -> None:
    results = {"analyzer_results": [{"start": 9, "end": 18, "entity_type": "PERSON"}]} if path == "/anonymize" else {}
    answer = service.post(path, {"text": TEXT, **results, **more})
    assert (answer.status, list(answer.json)) == (422, ["error"])


def test_analyze_takes_what_presidio_takes(service: Service) -> None:
    def found(**fields: object) -> list[tuple[str, str]]:
        answer = service.post("/analyze", {"text": TEXT, "language": "en", **fields})
        assert answer.status == 200, answer.body
        return [(e["entity_type"], TEXT[e["start"] : e["end"]]) for e in answer.json]

    person, date, doctor = ("PERSON", "Anna Bell"), ("DATE_TIME", "03/04/2019"), ("PERSON", "Hunt")
    assert found(entities=["DATE_TIME"]) == [date]
    assert found(entities=["DOCTOR", "DATE_TIME"]) == [date, doctor]
    assert found(entities=[], score_threshold=0, context=["seen"], correlation_id="7") == [person, date, doctor]
    assert found(score_threshold=1) == []
    assert found(allow_list=["Hunt"]) == [person, date]
    (explained, *_) = service.post("/analyze", {"text": TEXT, "language": "en", "return_decision_process": True}).json
    explanation = explained["analysis_explanation"]
    assert explanation["recognizer"] == "ensemble_deid"
    assert explanation["textual_explanation"].startswith("label PATIENT, predicted by ")
    assert "Anna" not in str(explanation)
    several = service.post("/analyze", {"text": [TEXT, "No name."], "language": "en"}).json
    assert [len(results) for results in several] == [3, 0]
    for fields in ({"ad_hoc_recognizers": [{"name": "mine"}]}, {"allow_list": ["a+"], "allow_list_match": "regex"}):
        assert service.post("/analyze", {"text": TEXT, "language": "en", **fields}).status == 422
    assert service.post("/analyze", {"text": "", "language": "en"}).json == {"error": "No text provided"}


def test_the_lists_of_presidio(service: Service) -> None:
    assert service.get("/supportedentities?language=en").json == ["DATE_TIME", "LOCATION", "PERSON"]
    assert service.get("/recognizers?language=en").json == ["ensemble_deid"]
    assert service.get("/anonymizers").json == ["hash", "keep", "mask", "redact", "replace"]


def test_anonymize_takes_what_analyze_gives(service: Service) -> None:
    results = service.post("/analyze", {"text": TEXT, "language": "en", "return_decision_process": True}).json
    content = {
        "text": TEXT,
        "analyzer_results": results,
        "anonymizers": {"DATE_TIME": {"type": "mask", "masking_char": "*", "chars_to_mask": 6, "from_end": False}},
    }
    assert service.post("/anonymize", content).json == {
        "text": "Patient: <PERSON>\nDate: ******2019\nSeen by Dr. <PERSON>",
        "items": [
            {"start": 47, "end": 55, "entity_type": "PERSON", "text": "<PERSON>", "operator": "replace"},
            {"start": 24, "end": 34, "entity_type": "DATE_TIME", "text": "******2019", "operator": "mask"},
            {"start": 9, "end": 17, "entity_type": "PERSON", "text": "<PERSON>", "operator": "replace"},
        ],
    }
    refused = service.post("/anonymize", {**content, "anonymizers": {"DEFAULT": {"type": "encrypt", "key": "k" * 16}}})
    assert (refused.status, MARKER in refused.json["error"]) == (422, False)
    assert service.post("/anonymize", {"text": TEXT}).json == {"error": "analyzer_results: is missing"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"style": "mask"},
        {"style": "remove"},
        {"style": "numbered"},
        {"style": "hash", "scope": "asthma"},
        {"style": "surrogate", "patient_id": "7"},
        {"style": "surrogate", "patient_id": "7", "min_score": 1},
        {"style": "text:***", "styles": {"DATE": "year", "DOCTOR": "keep"}},
        {"policy": "safe-harbor"},
    ],
)
def test_one_note_in_every_style(service: Service, tiny_model: Path, options: dict[str, object]) -> None:
    answer = service.post("/v1/deidentify", {"text": TEXT, "id": "note-1", **options}).json
    asked = {{"patient_id": "patient"}.get(name, name): value for name, value in options.items()}
    if "min_score" in asked:
        asked["settings"] = {"min_score": asked.pop("min_score")}
    wanted = Deidentifier.load(tiny_model).deidentify(TEXT, key=KEY, **asked)
    assert (answer["id"], answer["text"]) == ("note-1", wanted.text)
    assert [{**e, "score": 0} for e in answer["spans"]] == [{**asdict(span), "score": 0} for span in wanted.replaced]


def test_options_that_do_not_exist_are_refused(service: Service, tmp_path: Path) -> None:
    policy = tmp_path / f"{MARKER}.toml"
    policy.write_text("style = 'keep'", encoding="utf-8")
    for options in (
        {"style": MARKER},
        {"style": "keep"},
        {"styles": {MARKER: "tag"}},
        {"styles": {"DATE": MARKER}},
        {"policy": str(policy)},
        {"policy": "/etc/passwd"},
        {"policy": MARKER},
        {MARKER: "tag"},
    ):
        answer = service.post("/v1/deidentify", {"text": TEXT, **options})
        assert (answer.status, MARKER in str(answer.json)) == (422, False), options
    for query in (f"set={MARKER}", f"set={MARKER}=tag", "style=shout", "threshold=2", f"policy={policy}", "stlye=tag"):
        answer = service.post(f"/v1/deidentify/batch?{query}", b'{"text": "a"}')
        assert (answer.status, MARKER in str(answer.json)) == (422, False), query


def test_a_threshold_is_obeyed(service: Service) -> None:
    refused = service.post("/v1/deidentify", {"text": TEXT, "threshold": 1})
    assert refused.status == 422
    assert refused.json["error"].startswith("the text: the model found 0.0% of the PHI tokens in its 8 training notes")
    for name in ("threshold", "min_score"):
        assert service.post("/v1/deidentify", {"text": TEXT, name: 1.5}).json == {"error": f"{name}: is too large"}


RUBBISH: list[object] = [
    b"",
    MARKER.encode(),
    f'{{"text": "{MARKER}'.encode(),
    f'"{MARKER}"'.encode(),
    b"\xff\xfe" + MARKER.encode(),
    b"[" * 9000 + MARKER.encode(),
    [MARKER],
    {MARKER: MARKER},
    {"text": [[MARKER]]},
    {"text": {MARKER: 1}},
    {"text": 7, "language": MARKER},
    {"text": f"{MARKER}\0", "language": "en", "analyzer_results": []},
    f'{{"text": "{MARKER} \\ud800", "language": "en", "analyzer_results": []}}'.encode(),
    {"text": "a", "language": "en", "score_threshold": MARKER, "threshold": MARKER, "analyzer_results": MARKER},
    {"text": "a", "language": [MARKER], "style": MARKER, "analyzer_results": [MARKER]},
    {"text": "a", "language": "en", "entities": MARKER, "id": f"{MARKER}\n", "analyzer_results": [{MARKER: MARKER}]},
    {"text": "a", "language": "en", "allow_list": MARKER, MARKER: 1, "analyzer_results": [{"start": MARKER}]},
    {"text": MARKER, "analyzer_results": [], "anonymizers": {MARKER: {"type": MARKER}}},
    {"text": MARKER, "analyzer_results": [], "anonymizers": {MARKER: {MARKER: MARKER}}},
    {"text": MARKER, "analyzer_results": [{"start": 5, "end": 99, "entity_type": "A"}]},
    {"text": MARKER, "analyzer_results": [{"start": 5, "end": 5, "entity_type": "A"}]},
    {"text": MARKER, "analyzer_results": [{"start": 0, "end": 5, "entity_type": f"{MARKER} {MARKER}"}]},
]


@pytest.mark.parametrize("path", ["/analyze", "/anonymize", "/v1/deidentify", "/v1/deidentify/batch"])
def test_rubbish_is_refused_and_never_quoted(service: Service, path: str) -> None:
    statuses = set()
    for content in RUBBISH:
        if path.endswith("batch") and isinstance(content, dict) and content.get("text") == MARKER:
            # A note without PHI, with keys that do not matter.
            continue
        answer = service.post(path, content)
        assert MARKER.encode() not in answer.body, content
        if path == "/v1/deidentify" or (path == "/anonymize" and answer.status != 200):
            assert answer.status in (400, 422), content
            assert list(answer.json) == ["error"]
        statuses.add(answer.status)
    assert statuses <= {200, 400, 422}
    for odd in (f"/{MARKER}", f"{path}?{MARKER}={MARKER}&style={MARKER}", f"{path}/{MARKER}"):
        assert MARKER.encode() not in service.post(odd, MARKER.encode()).body
    assert MARKER not in service.output()
    assert MARKER not in service.get("/metrics").body.decode()


def test_a_note_that_cannot_be_processed_is_withheld(service: Service) -> None:
    answer = service.post("/v1/deidentify", {"text": f"{MARKER} \0"})
    assert (answer.status, answer.json) == (
        422,
        {"error": "the text: character 10 of the text is NUL, which no note may hold"},
    )


def test_a_batch_goes_on_after_a_failing_line(service: Service) -> None:
    lines = [
        json.dumps({"id": "a", "text": "Date: 03/04/2019", "patient_id": "7", "spans": [], "metadata": {}}).encode(),
        b"",
        MARKER.encode(),
        json.dumps({"id": "b", "text": f"{MARKER}\0"}).encode(),
        json.dumps({"text": MARKER * 4000}).encode(),
        json.dumps({"id": "c", "text": "Date: 05/06/2018"}).encode(),
    ]
    answer = service.post("/v1/deidentify/batch?style=mask", b"\n".join(lines))
    assert (answer.status, answer.headers["content-type"]) == (200, "application/x-ndjson")
    assert MARKER.encode() not in answer.body
    found = [json.loads(line) for line in answer.body.splitlines()]
    assert [(entry["line"], entry.get("id"), entry.get("text")) for entry in found] == [
        (1, "a", "Date: XXXXXXXXXX"),
        (3, None, None),
        (4, "b", None),
        (5, None, None),
        (6, "c", "Date: XXXXXXXXXX"),
    ]
    assert [entry["error"] for entry in found if "error" in entry] == [
        "the line is not valid JSON",
        "the text: character 9 of the text is NUL, which no note may hold",
        "the line is longer than 20000 bytes",
    ]
    kept = service.post("/v1/deidentify/batch?style=mask&set=DATE=keep", lines[0]).json
    assert kept["text"] == "Date: 03/04/2019"
    assert service.post("/v1/deidentify/batch", b"").body == b""


def test_a_batch_is_streamed(service: Service) -> None:
    """Each line is answered before the next one is sent."""
    head = f"POST /v1/deidentify/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
    with service.connect() as connection, connection.makefile("rb") as reader:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        for day in ("03/04/2019", "05/06/2018"):
            line = json.dumps({"text": f"Date: {day}"}).encode()
            # A piece may end anywhere.
            for piece in (line[:7], line[7:] + b"\n"):
                connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            while b"[DATE]" not in (answer := reader.readline()):
                assert answer
        connection.sendall(b"0\r\n\r\n")
        while reader.readline() != b"0\r\n":
            pass


def test_only_a_valid_token_is_let_in(service: Service) -> None:
    for given in ("", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN):
        for method, path in (("POST", "/analyze"), ("GET", "/metrics"), ("GET", "/openapi.json"), ("GET", "/none")):
            answer = service.ask(method, path, {"text": TEXT} if method == "POST" else None, authorization=given)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert service.get("/health", authorization="").status == 200
    assert service.get("/supportedentities", authorization=f"bearer {TOKEN}").status == 200
    assert TOKEN not in service.output()


def test_large_bodies_are_refused(service: Service) -> None:
    assert service.post("/v1/deidentify", {"text": "a " * 9900}).status == 200
    for path in ("/analyze", "/anonymize", "/v1/deidentify"):
        answer = service.post(path, {"text": MARKER * 2500})
        assert (answer.status, answer.json) == (413, {"error": "the body is larger than 20000 bytes"})
    with service.connect() as connection, connection.makefile("rb") as reader:
        head = (
            f"POST /analyze HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        connection.sendall(head.encode() + b"%x\r\n%s\r\n" % (20001, b"a" * 20001))
        assert reader.readline().startswith(b"HTTP/1.1 413 ")


def test_metrics_count(service: Service) -> None:
    def value(name: str) -> float:
        page = service.get("/metrics").body.decode()
        return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(name))

    names = (
        'ensemble_deid_requests_total{path="/v1/deidentify",status="200"}',
        "ensemble_deid_characters_total",
        'ensemble_deid_notes_total{outcome="processed"}',
        'ensemble_deid_notes_total{outcome="withheld"}',
        'ensemble_deid_spans_total{label="DATE"}',
    )
    before = [value(name) for name in names]
    assert service.post("/v1/deidentify", {"text": "Date: 03/04/2019"}).status == 200
    assert service.post("/v1/deidentify", {"text": "\0"}).status == 422
    assert [value(name) - start for name, start in zip(names, before, strict=True)] == [1, 16, 1, 1, 1]
    assert value("ensemble_deid_requests_in_progress") == 0

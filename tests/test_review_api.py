"""The review's server: the page's requests, who may ask, and the corpus that comes out."""

import io
import json
import signal
import sqlite3
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_service import Answer, Service, running

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.note.document import Document

TOKEN = "a token of sixteen characters"
MARKER = "Zyxwvutsr"
TEXT = "Patient: Anna Bell\nDate: 03/04/2019\nSeen by Dr. Hunt"
# The emoji is one code point and two UTF-16 units.
NOTES = [
    Document("one", TEXT, patient_id="1"),
    Document("two", f"\U0001f600 <img src=x onerror=alert(1)> & {MARKER} met {MARKER}.", patient_id="2"),
    Document("three", f"Nothing new. {MARKER}s were seen.", patient_id="3"),
]


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(NOTES, tmp_path_factory.mktemp("notes") / "notes.jsonl", "jsonl")[0]


@pytest.fixture(scope="module")
def service(tiny_model: Path, notes: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("review")
    options = (str(notes), "--store", str(folder / "review.sqlite"), "--add-labels", "WARD")
    with running(tiny_model, folder, *options, token=TOKEN, command="review start") as running_service:
        yield running_service


def post(service: Service, path: str, reviewer: str = "kim", **content: object) -> Answer:
    return service.post(f"/api/{path}", {"reviewer": reviewer, **content})


def number(service: Service, name: str, reviewer: str = "kim") -> int:
    listed: list[dict[str, Any]] = service.get(f"/api/notes?reviewer={reviewer}").json["lines"]
    (found,) = [line["id"] for line in listed if line["name"] == name]
    return int(found)


def opened(service: Service, name: str, reviewer: str = "kim") -> dict[str, Any]:
    shown: dict[str, Any] = service.get(f"/api/notes/{number(service, name, reviewer)}?reviewer={reviewer}").json
    return shown


def told(shown: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(shown["text"][s["start"] : s["end"]], s["label"], s["status"]) for s in shown["spans"]]


def found(shown: dict[str, Any]) -> list[tuple[str, str, str]]:
    """As `told`, without what the little model only suggests."""
    return told({**shown, "spans": [s for s in shown["spans"] if s["kind"] != "suggested"]})


def test_the_page_is_open_and_its_requests_need_the_token(service: Service) -> None:
    page = service.get("/", authorization="")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'; script-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    for path in ("/review.js", "/note.js", "/panels.js", "/server.js", "/review.css"):
        assert service.get(path, authorization="").status == 200
        assert path[1:] in page.body.decode() or path[1:] in service.get("/review.js").body.decode()
    for path in ("/api/state", "/api/notes?reviewer=kim", "/api/export", "/nothing", "/../app.py", "/openapi.json"):
        assert service.get(path, authorization="Bearer wrong").status == 401
    assert service.get("/nothing").status == 404


def test_other_sites_are_refused(service: Service) -> None:
    own = f"http://127.0.0.1:{service.port}"
    assert service.get("/api/state", origin=own).status == 200
    assert service.get("/api/state", host=f"localhost:{service.port}").status == 200
    for headers in (
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": f"http://localhost:{service.port}"},
        {"sec-fetch-site": "cross-site"},
    ):
        assert service.get("/api/state", **headers).status == 403, headers


def test_it_listens_on_this_machine_only(tiny_model: Path, notes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["review", "start", str(tiny_model), str(notes), "--store", "x", "--host", "0.0.0.0"])
    assert "unrecognized arguments: --host" in capsys.readouterr().err


def test_decisions_offsets_and_undo(service: Service) -> None:
    shown = opened(service, "one")
    assert found(shown) == [
        ("Anna Bell", "PATIENT", "undecided"),
        ("03/04/2019", "DATE", "undecided"),
        ("Hunt", "DOCTOR", "undecided"),
    ]
    spans = {shown["text"][s["start"] : s["end"]]: s["id"] for s in shown["spans"]}
    note = shown["id"]
    answer = post(service, f"notes/{note}/spans/{spans['Anna Bell']}/status", status="rejected")
    assert ("Anna Bell", "PATIENT", "rejected") in told(answer.json)
    answer = post(service, f"notes/{note}/spans/{spans['Hunt']}", start=44, label="WARD")
    assert ("Dr. Hunt", "WARD", "accepted") in told(answer.json)
    assert post(service, "undo").json == {"note": note}
    assert post(service, "undo").json == {"note": note}
    assert post(service, "undo").json == {"note": None}
    assert opened(service, "one")["spans"] == shown["spans"]
    assert post(service, "redo").json == {"note": note}
    assert ("Anna Bell", "PATIENT", "rejected") in told(opened(service, "one"))
    post(service, "undo")

    two = opened(service, "two")
    start = NOTES[1].text.index(MARKER)
    added = post(service, f"notes/{two['id']}/spans", start=start, end=start + len(MARKER), label="PATIENT").json
    assert (MARKER, "PATIENT", "accepted") in told(added)
    (selected,) = [span for span in added["spans"] if span["id"] == added["selected"]]
    assert (selected["start"], selected["end"], selected["kind"]) == (start, start + len(MARKER), "added")
    post(service, "undo")


def test_bad_requests_quote_nothing(service: Service) -> None:
    note = number(service, "one")
    for path, content in (
        (f"notes/{note}/spans", {"start": 0, "end": 4, "label": MARKER}),
        (f"notes/{note}/spans", {"start": 0, "end": 4}),
        (f"notes/{note}/spans", {"start": MARKER, "end": 4, "label": "DATE"}),
        (f"notes/{note}/spans", {"start": 0, "end": 10**9, "label": "DATE"}),
        (f"notes/{note}/spans/999999/status", {"status": "accepted"}),
        (f"notes/{note}/spans/{2**70}/status", {"status": "accepted"}),
        (f"notes/{note}/spans/{2**70}", {"label": "DATE"}),
        (f"notes/{note}/spans", {"start": 0, "end": 2**70, "label": "DATE"}),
        (f"notes/{2**70}/spans", {"start": 0, "end": 4, "label": "DATE"}),
        (f"notes/{2**70}/finished", {"finished": True}),
        (f"notes/{2**70}/explain", {"start": 0, "end": 4}),
        ("notes/0/finished", {"finished": True}),
        (f"notes/{note}/finished", {"finished": MARKER}),
        (f"notes/{note}/explain", {"start": 5, "end": 5}),
        ("notes/999/spans", {"start": 0, "end": 4, "label": "DATE"}),
        ("search", {"words": " "}),
        ("search", {"words": "a", MARKER: 1}),
        ("undo", {"reviewer": f"{MARKER}\n"}),
        ("undo", {"reviewer": ""}),
    ):
        answer = service.post(f"/api/{path}", {"reviewer": "kim", **content})
        assert answer.status in (404, 409, 422), path
        assert MARKER not in answer.body.decode()
    assert service.get("/api/export?format=exe").status == 422
    assert service.get(f"/api/notes/{2**70}?reviewer=kim").status == 422
    assert service.get(f"/api/notes/{-(2**70)}?reviewer=kim").status == 422
    assert service.get(f"/api/notes?reviewer=kim&around={2**70}").status == 200
    assert service.get(f"/api/notes?reviewer=kim&offset={2**70}").json["lines"] == []
    assert MARKER not in service.output()


def test_explanations(service: Service) -> None:
    note = number(service, "one")
    answer = post(service, f"notes/{note}/explain", start=25, end=35).json
    assert answer["found"] == [[25, 35, "DATE"]]
    assert answer["patterns"][0]["pattern"] == "slashed date"
    best = answer["candidates"][0]
    assert best["outcome"].endswith(", found")
    assert {p["submodel"] for p in best["proposals"]} >= {"regex", "crf"}
    assert post(service, f"notes/{note}/explain", start=0, end=7).json["found"] == []


def test_searching_and_marking_all(service: Service) -> None:
    hits = post(service, "search", words=MARKER.lower()).json
    assert (hits["total"], hits["notes"], len(hits["hits"])) == (2, 1, 2)
    first = hits["hits"][0]
    assert NOTES[1].text[first["start"] : first["end"]] == first["found"] == MARKER
    assert "<img" in first["before"]
    assert post(service, "search", words=MARKER, whole_words=False).json["notes"] == 2
    assert post(service, "search", words=MARKER.lower(), match_case=True).json["total"] == 0
    marked = post(service, "mark-all", words=MARKER, label="DOCTOR").json
    assert marked["marked"] + marked["skipped"] == 2
    post(service, "undo")
    assert all(status == "undecided" for _, _, status in told(opened(service, "two")))


def test_two_reviewers_and_the_corpus(service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = next(Path(service.log).parent.glob("*.sqlite"))
    one = number(service, "one")
    assert post(service, f"notes/{one}/finished", "ann", finished=True).status == 409
    post(service, f"notes/{one}/finished", "ann", finished=True, settle=True)
    other = {s["label"]: s["id"] for s in opened(service, "one", "bob")["spans"] if s["kind"] == "found"}
    post(service, f"notes/{one}/spans/{other['DATE']}/status", "bob", status="rejected")
    post(service, f"notes/{one}/finished", "bob", finished=True, settle=True)
    state = service.get("/api/state").json
    assert (state["account"], state["owner"], state["to_settle"], state["explains"]) == (None, True, 1, True)
    (pair,) = service.get("/api/agreement").json
    assert (pair["first"], pair["second"], pair["both"], pair["first_only"], pair["second_only"]) == (
        *("ann", "bob"),
        *(2, 1, 0),
    )
    assert pair["f1"] == pytest.approx(0.8)
    assert 0 < pair["kappa"] < 1
    answer = service.get("/api/export")
    assert (answer.body, answer.headers["x-disputed"], answer.headers["x-unfinished"]) == (b"", "1", "2")
    assert main(["review", "export", str(store), "--out", str(tmp_path / "none.jsonl")]) == 2
    assert "reviewers differ" in capsys.readouterr().err
    assert [line["open"] for line in service.get("/api/notes?reviewer=adjudication").json["lines"]] == [1]
    shown = opened(service, "one", "adjudication")
    (disputed,) = [span for span in shown["spans"] if span["kind"] == "disputed"]
    assert (disputed["label"], disputed["origin"], disputed["status"]) == ("DATE", "ann", "undecided")
    assert post(service, f"notes/{one}/finished", "adjudication", finished=True).status == 409
    assert post(service, f"notes/{one}/finished", "ann", finished=False).status == 409
    assert opened(service, "one", "ann")["locked"]
    post(service, f"notes/{one}/spans/{disputed['id']}/status", "adjudication", status="accepted")
    assert post(service, f"notes/{one}/finished", "adjudication", finished=True).json["finished"]
    post(service, f"notes/{number(service, 'two')}/finished", "ann", finished=True, settle=True)

    line = json.loads(service.get("/api/export").body.splitlines()[0])
    assert [(s["start"], s["end"], s["label"]) for s in line["spans"]] == [
        (9, 18, "PATIENT"),
        (25, 35, "DATE"),
        (48, 52, "DOCTOR"),
    ]
    with zipfile.ZipFile(io.BytesIO(service.get("/api/export?format=brat").body)) as archive:
        assert sorted(archive.namelist()) == ["one.ann", "one.txt", "two.ann", "two.txt"]
        archive.extractall(tmp_path / "zipped")
    for format in ("jsonl", "brat"):
        assert main(["review", "export", str(store), "--out", str(tmp_path / format), "--format", format]) == 0
    corpora = [read_corpus(tmp_path / name).documents for name in ("jsonl", "brat", "zipped")]
    keys = [[(note.id, note.text, [span.key for span in note.spans]) for note in corpus] for corpus in corpora]
    assert keys[0] == keys[1] == keys[2]
    assert corpora[0][0].patient_id == "1"
    assert "not written: 1 not finished, 0 on which reviewers differ" in capsys.readouterr().out
    assert "review learn" in state["then"][1]
    assert state["then"][1].endswith(f"{store} --out better")


def test_what_was_answered_outlives_the_server(tiny_model: Path, notes: Path, tmp_path: Path) -> None:
    options = (str(notes), "--store", str(tmp_path / "review.sqlite"))
    with running(tiny_model, tmp_path, *options, command="review start") as first:
        note = opened(first, "three")["id"]
        post(first, f"notes/{note}/spans", start=13, end=22, label="DOCTOR")
        assert first.stop(signal.SIGKILL) == -9
    with running(tiny_model, tmp_path, *options, command="review start") as second:
        assert (MARKER, "DOCTOR", "accepted") in told(opened(second, "three"))
        assert post(second, "undo").json == {"note": note}
        assert second.stop() == 0
    with sqlite3.connect(tmp_path / "review.sqlite") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


def test_what_cannot_be_a_store_is_refused(
    tiny_model: Path, notes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for store in (notes, tmp_path, tmp_path / "other"):
        (tmp_path / "other").write_text("x" * 5000, encoding="utf-8")
        assert main(["review", "start", str(tiny_model), str(notes), "--store", str(store), "--quiet"]) == 2
        assert str(store) in capsys.readouterr().err
    assert main(["review", "export", str(tmp_path / "none"), "--out", str(tmp_path / "out")]) == 2
    assert "no such review" in capsys.readouterr().err


def test_accounts_act_under_their_own_names(
    tiny_model: Path, notes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(tmp_path / "review.sqlite")
    assert main(["review", "account", "list", store]) == 2
    assert "no such review" in capsys.readouterr().err
    tokens = {}
    for name, role in (("ann", "reviewer"), ("bob", "reviewer"), ("mo", "adjudicator"), ("zoe", "owner")):
        assert main(["review", "account", "add", store, name, "--role", role]) == 0
        tokens[name] = capsys.readouterr().out.strip()
    assert main(["review", "account", "list", store]) == 0
    assert capsys.readouterr().out.splitlines() == ["ann: reviewer", "bob: reviewer", "mo: adjudicator", "zoe: owner"]
    bearer = {name: {"authorization": f"Bearer {token}"} for name, token in tokens.items()}
    # The machine's token opens nothing where there are accounts.
    with running(tiny_model, tmp_path, str(notes), "--store", store, token=TOKEN, command="review start") as service:
        assert service.get("/api/state").status == service.get("/api/state", authorization="").status == 401
        state = service.get("/api/state", **bearer["ann"]).json
        assert (state["account"], state["owner"], state["to_settle"]) == ("ann", False, 0)
        assert service.get("/api/notes?reviewer=ann", **bearer["ann"]).status == 200
        for wrong in ("bob", "adjudication"):
            assert service.get(f"/api/notes?reviewer={wrong}", **bearer["ann"]).status == 403
            finish = {"reviewer": wrong, "finished": True, "settle": True}
            assert service.post("/api/notes/1/finished", finish, **bearer["ann"]).status == 403
        assert service.get("/api/export", **bearer["ann"]).status == 403
        assert service.get("/api/export", **bearer["zoe"]).status == 200
        new = {"text": "Mark wards.", "after": 0}
        assert service.post("/api/guideline", {"reviewer": "ann", **new}, **bearer["ann"]).status == 403
        assert service.post("/api/guideline", {"reviewer": "zoe", **new}, **bearer["zoe"]).json["author"] == "zoe"
        assert service.post("/api/guideline", {"reviewer": "zoe", **new}, **bearer["zoe"]).status == 409
        assert service.get("/api/guideline", **bearer["ann"]).json["text"] == "Mark wards."
        for name in ("ann", "bob"):
            finish = {"reviewer": name, "finished": True, "settle": True}
            assert service.post("/api/notes/1/finished", finish, **bearer[name]).status == 200
        assert service.get("/api/state", **bearer["mo"]).json["to_settle"] == 1
        assert service.get("/api/notes/1?reviewer=adjudication", **bearer["mo"]).status == 200
        # A token counts no longer once its account is removed.
        assert main(["review", "account", "remove", store, "bob"]) == 0
        assert service.get("/api/state", **bearer["bob"]).status == 401
        assert not any(token in service.output() for token in tokens.values())


def test_a_store_that_cannot_be_read_is_a_fault_of_the_server(tiny_model: Path, notes: Path, tmp_path: Path) -> None:
    store = tmp_path / "broken.sqlite"
    with running(tiny_model, tmp_path, str(notes), "--store", str(store), command="review start") as service:
        assert service.get("/api/notes?reviewer=kim").status == 200
        with sqlite3.connect(store) as database:
            database.execute("ALTER TABLE notes RENAME TO others")
        database.close()
        answer = service.get("/api/notes?reviewer=kim")
        assert answer.status == 503
        assert str(store) not in str(answer.json)
        assert "broken.sqlite: cannot be read or written (SQLITE_ERROR)" in service.output()

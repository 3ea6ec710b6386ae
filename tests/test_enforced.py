"""What a site finds besides the model: enforced patterns, recognizers, files of spans, own labels, other names."""

import functools
import json
import re
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from made_keys import KEY

from ensemble_deid import (
    ConfigError,
    CorpusError,
    Deidentifier,
    Document,
    Recognizer,
    RuleError,
    RunOptions,
    SiteLists,
    Span,
    deidentify_files,
    deidentify_table,
    verify_run,
)
from ensemble_deid.audit.release import replaced_spans
from ensemble_deid.cli.main import main
from ensemble_deid.corpora.records import digest_of
from ensemble_deid.deidentify.known.site_lists import AllowList
from ensemble_deid.deidentify.one_pass import finish_alone, finish_together
from ensemble_deid.deidentify.recognizers import recognised
from ensemble_deid.features.patterns import parse_patterns
from ensemble_deid.model.additions import parse_inclusion_list
from ensemble_deid.model.manifest import read_manifest
from ensemble_deid.training.model_additions import add_patterns

BADGE = r"""
[[pattern]]
name = "badge"
label = "BADGE"
regex = '\bUPX-\d{5}\b'
positive = ["badge «UPX-48213» seen"]
negative = ["UPX-482"]
"""
NOTE = "Seen by the night shift. Badge UPX-55555 was found at the gate."


def badges(text: str) -> list[tuple[int, int, str]]:
    """Find badges."""
    return [(*match.span(), "BADGE") for match in re.finditer(r"UPX-\d{5}", text)]


def shout(surface: str, label: str) -> str:
    """Say how long a string was."""
    return f"<{label} of {len(surface)}>"


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Deidentifier:
    return Deidentifier.load(tiny_model)


@pytest.fixture
def changed(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy of the model, to be changed."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def finding(*spans: tuple[int, int, str, float], **settings: Any) -> Recognizer:
    return Recognizer(name="made", find=lambda text: spans, **settings)


def alone(text: str, *spans: Span, **choices: Any) -> str | None:
    """Return what becomes of a note in which the model has found some spans."""
    options = RunOptions.choose(("PATIENT", "CITY", "DATE"), key=KEY, **choices)
    return finish_alone(recognised(Document("n", text, spans), options.recognizers), options, None).text


def test_a_match_of_an_enforced_pattern_always_goes(
    changed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, notes = write(tmp_path / "badge.toml", BADGE), write(tmp_path / "note.txt", NOTE)
    assert main(["model", "patterns", "add", str(changed), str(file)]) == 2
    assert "no label 'BADGE'" in capsys.readouterr().err
    assert main(["model", "patterns", "add", str(changed), str(file), "--enforce"]) == 0
    assert re.search(r"badge: enforced; takes 0 of \d{5,} ordinary words, 0.00 in 1000", capsys.readouterr().out)
    (record,) = read_manifest(changed).choices["added_patterns"]
    assert record["ordinary_words_taken"] == "badge: 0.00 in 1000"

    model = Deidentifier.load(changed)
    assert "BADGE" in model.labels
    for choices in ({}, {"threshold": 1.0}, {"combiner": "majority"}, {"submodel": "crf"}):
        assert "[BADGE]" in (model.deidentify(NOTE, accept_unfit=True, **choices).text or "")
    (found,) = model.predict([Document("n", NOTE)], threshold=1.0)
    assert [(span.key, span.source) for span in found.spans] == [((31, 40, "BADGE"), "enforced: badge")]
    (each,) = model.predict_each([Document("n", NOTE)], threshold=1.0)
    assert each == found
    assert model.predict([Document("n", NOTE)], submodel="regex")[0].spans == ()
    assert list(model.predict_each([Document("n", NOTE)], submodel="regex")) == [Document("n", NOTE)]
    # Neither an allow list nor the model's own list of sentences holds it back.
    allow = SiteLists(allow=AllowList({"upx55555": 1}))
    assert "[BADGE]" in (model.deidentify(NOTE, lists=allow, accept_unfit=True).text or "")
    listed = parse_inclusion_list('sentences = ["Badge UPX-55555 was found at the gate."]')
    marked = Document("n", NOTE, found.spans)
    assert listed.apply(marked) == (marked, 0)
    # Without the submodel that proposes other patterns, and in another process.
    (apart,) = model.predict_each([Document("n", NOTE)], jobs=2, threshold=1.0)
    assert apart == found
    deidentify_files(notes, tmp_path / "clean.txt", changed, accept_unfit=True)
    assert "UPX" not in (tmp_path / "clean.txt").read_text(encoding="utf-8")


def test_what_takes_too_many_ordinary_words_is_refused(changed: Path) -> None:
    before = (changed / "manifest.json").read_bytes()
    pattern = parse_patterns("[[pattern]]\nname='the'\nlabel='WORD'\nregex='\\bthe\\b'\nenforce=true")
    text = "the ward, the door and the Bell"
    notes = [Document("n", text, (Span(text.index("the Bell"), len(text), "PATIENT"),))]
    # Five words are outside of the annotation, and two of them are taken.
    with pytest.raises(RuleError, match=r"the: takes 400\.00 ordinary words in 1000, and at most 399 "):
        add_patterns(changed, pattern, ordinary=notes, most_taken=399)
    with pytest.raises(RuleError, match="no ordinary words to measure"):
        add_patterns(changed, pattern)
    assert (changed / "manifest.json").read_bytes() == before
    added = add_patterns(changed, pattern, ordinary=notes, most_taken=400)
    assert (added.total, added.taken["the"].taken, added.taken["the"].words) == (1, 2, 5)


def test_training_refuses_enforced_patterns(
    tmp_path: Path, tiny_train: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "badge.toml", BADGE + "enforce = true\n")
    command = ["train", str(tiny_train), "--out", str(tmp_path / "made"), "--set", f"regex.patterns={file}"]
    assert main(command) == 2
    assert "'enforce' is for patterns that are added to a trained model" in capsys.readouterr().err


def test_enforced_spans_and_votes_are_joined_with_those_of_the_model() -> None:
    text, own = "Ann Bell of Lyndale", Span(0, 8, "PATIENT", 0.9)
    assert alone(text, own) == "[PATIENT] of Lyndale"
    assert alone(text, own, recognizers=[finding((4, 19, "WARD", 0.1))]) == "[WARD]"
    # Of a vote the score counts, and the label like one of the model's.
    assert alone(text, own, recognizers=[finding((12, 19, "CITY", 0.6), least=0.5)]) == "[PATIENT] of [CITY]"
    assert alone(text, own, recognizers=[finding((12, 19, "CITY", 0.4), least=0.5)]) == "[PATIENT] of Lyndale"
    allow = SiteLists(allow=AllowList({"lyndale": 1}))
    vote = finding((12, 19, "CITY", 0.6), least=0.5)
    assert alone(text, own, recognizers=[vote], lists=allow) == "[PATIENT] of Lyndale"
    assert alone(text, own, recognizers=[finding((12, 19, "CITY", 0.6))], lists=allow) == "[PATIENT] of [CITY]"
    # A label that shows what it holds never comes before one that hides it.
    shown = {"styles": {"CITY": "keep"}, "recognizers": [finding((0, 8, "CITY", 1.0))]}
    assert alone(text, own, **shown) == "[PATIENT] of Lyndale"


def test_what_a_recognizer_finds_is_searched_in_the_patients_other_notes() -> None:
    first = finding((6, 15, "BADGE", 1.0)).spans("Badge UPX-55555")
    notes = [
        Document("1", "Badge UPX-55555", tuple(first), patient_id="7"),
        Document("2", "UPX-55555!", patient_id="7"),
    ]
    results = finish_together(notes, RunOptions.choose((), key=KEY), None)
    assert [result.text for result in results] == ["Badge [BADGE]", "[BADGE]!"]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ((0, 99, "BADGE"), "a span 0-99 does not lie inside the text of 16 characters"),
        ((3, 3, "BADGE"), "a span 3-3 does not lie inside"),
        ((-1, 3, "BADGE"), "a span -1-3 does not lie inside"),
        ((0, 4, "Date: 03"), "a label may hold capitals"),
        ((0, 4), r"failed \(ValueError\)"),
        ((0.5, 4, "BADGE"), r"failed \(TypeError\)"),
        ((0, 4, "BADGE", 1.5), r"failed \(ValueError\)"),
        ("no span", r"failed \("),
    ],
)
def test_a_wrong_span_withholds_the_note(model: Deidentifier, given: Any, problem: str) -> None:
    def find(text: str) -> list[Any]:
        return [given] if "3" in text else []

    wrong, right = model.pipe(["Date: 03/04/2019", "Date: unclear"], recognizers=[find], accept_unfit=True)
    assert (wrong.text, right.error) == (None, None)
    assert re.search(rf"texts\[0\]: recognizer .*find: {problem}", wrong.error or "")
    assert "03/04" not in (wrong.error or "")


def test_a_recognizer_that_fails_or_contradicts_itself_withholds_the_note(model: Deidentifier) -> None:
    def fails(text: str) -> list[Any]:
        raise RuntimeError(text)

    with pytest.raises(CorpusError, match=r"^the text: recognizer .*fails: failed \(RuntimeError\)$"):
        model.deidentify("Date: 03/04/2019", recognizers=[fails])
    both = finding((0, 4, "A", 1.0), (2, 6, "B", 1.0))
    with pytest.raises(CorpusError, match="made: two of its spans overlap"):
        model.deidentify("Date: 03/04/2019", recognizers=[both])


def test_recognizers_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(
        tmp_path / "own_badges.py",
        "import re\ndef find(text):\n    return [(0, 1, 'BADGE', 0.7)]\nfind.labels = ['BADGE']\n",
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = Recognizer.of("own_badges:find@0.5")
    assert (found.name, found.least, found.labels) == ("own_badges:find", 0.5, {"BADGE"})
    assert found.sha256 is not None
    assert [span.key for span in found.spans("text")] == [(0, 1, "BADGE")]
    assert Recognizer.of("own_badges:find@0.8").spans("text") == []
    wrong = {
        "own_badges:nothing": r"cannot be imported \(module 'own_badges' has no attribute",
        "no_such_module:find": "is its folder in PYTHONPATH",
        "own_badges:re": "cannot be called",
        "uninstalled": "name module:function, or an installed one",
        "own_badges:find@high": "after @ comes the least score",
        "own_badges:find@7": "from 0 to 1, not 7",
    }
    for name, message in wrong.items():
        with pytest.raises(ConfigError, match=message):
            Recognizer.of(name)


def test_installed_recognizers_and_operators(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    info = tmp_path / "site_badges-1.2.dist-info"
    info.mkdir()
    write(info / "METADATA", "Metadata-Version: 2.1\nName: site-badges\nVersion: 1.2\n")
    groups = "[ensemble_deid.recognizers]\nbadges = test_enforced:badges\n"
    write(info / "entry_points.txt", groups + "[ensemble_deid.operators]\nlength = test_enforced:shout\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert Recognizer.of("badges").version == "site-badges 1.2"
    assert alone("Ann Bell", Span(0, 8, "PATIENT"), style="length") == "<PATIENT of 8>"
    policy = write(tmp_path / "policy.toml", '[styles]\nPATIENT = "length"\n')
    assert alone("Ann Bell", Span(0, 8, "PATIENT"), policy=policy) == "<PATIENT of 8>"
    with pytest.raises(ConfigError, match=r"unknown style 'test_enforced:shout'; known: .*length"):
        RunOptions.choose((), style="test_enforced:shout")


def test_operators_as_callables() -> None:
    ann = Span(0, 3, "PATIENT")
    assert alone("Ann of Lyndale", ann, Span(7, 14, "CITY"), styles={"PATIENT": shout}) == "<PATIENT of 3> of [CITY]"
    recorded = RunOptions.choose((), style=shout).replacer.styles.to_json()
    assert recorded["default"] == "test_enforced:shout"
    assert recorded["operators"]["test_enforced:shout"] is not None

    def fails(surface: str, label: str) -> str:
        raise KeyError(surface)

    def counts(surface: str, label: str) -> Any:
        return len(surface)

    for operator, problem in ((fails, "failed (KeyError)"), (counts, "returned int, not a string")):
        options = RunOptions.choose((), style=operator, key=KEY)
        error = finish_alone(Document("n", "Ann is well", (ann,)), options, None).error or ""
        assert error.endswith(problem)
        assert "Ann" not in error


class Counting:
    def __call__(self, text: str) -> list[Any]:
        return []

    def find(self, text: str) -> list[Any]:
        return []


@pytest.mark.parametrize("kind", ["partial", "lambda", "local", "instance", "method"])
def test_a_run_refuses_what_may_change_unseen(model: Deidentifier, tmp_path: Path, kind: str) -> None:
    def local(text: str, label: str = "") -> Any:
        return []

    made: dict[str, Any] = {"partial": functools.partial(badges), "local": local, "instance": Counting()}
    given: Any = (made | {"lambda": lambda text: [], "method": Counting().find})[kind]
    table = write(tmp_path / "notes.csv", "text\nWell.\n")
    # Where nothing is recorded, everything can be used.
    assert model.deidentify("Well.", recognizers=[given], accept_unfit=True).text == "Well."
    for choices in ({"recognizers": [given]}, {"style": given}):
        with pytest.raises(ConfigError, match=r"^(recognizer|operator) \S+: a run could not tell when it changes"):
            deidentify_table(table, tmp_path / "clean.csv", model, **choices, key=KEY)  # type: ignore[call-overload]
    assert not (tmp_path / "clean.csv").exists()
    assert Recognizer(name="own", find=given, version="2").to_json()["version"] == "2"
    if kind != "method":
        given.version = "3"
        assert Recognizer.of(given).to_json()["version"] == "3"
        (recorded,) = RunOptions.choose((), style=given).replacer.styles.to_json()["operators"].values()
        assert recorded == "3"


def test_what_has_a_name_in_a_module_has_the_digest_of_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = "import functools\n@functools.cache\ndef cached(text):\n    return []\n"
    file = write(tmp_path / "own_finders.py", code + "part = functools.partial(cached)\n")
    monkeypatch.syspath_prepend(tmp_path)
    own_finders = import_module("own_finders")

    assert Recognizer.of(own_finders.cached).sha256 == digest_of(file)
    assert Recognizer.of("own_finders:part").sha256 == digest_of(file)
    assert Recognizer.of(own_finders.part).sha256 is None


def test_two_operators_of_one_name_are_refused() -> None:
    styles = {"PATIENT": lambda surface, label: "someone", "CITY": lambda surface, label: surface[-4:]}
    with pytest.raises(ConfigError, match="two operators have the name"):
        RunOptions.choose(("PATIENT", "CITY"), styles=styles)


def test_data_in_rtf_is_left_out_of_the_output(model: Deidentifier, tmp_path: Path) -> None:
    hexadecimal = "504b0304140006000800" * 40
    data = f"{{\\*\\themedata {hexadecimal}}}{{\\*\\datastore 0105\n{hexadecimal}}}"
    text = f"{{\\rtf1\\ansi Date: 03/04/2019\\par Date: 0{{\\*\\blipuid 4821377}}3/04/2019{data}}}"
    result = model.deidentify(text, style="remove")
    assert (result.text or "").startswith("{\\rtf1\\ansi Date: \\par Date: ")
    assert not {"504b", "data", "4821377", "2019"} & set(re.findall(r"504b|data|4821377|2019", result.text or ""))
    assert result.map_offset(len(text)) == len(result.text or "")
    table = write(tmp_path / "notes.jsonl", json.dumps({"id": "1", "patient_id": "7", "text": text}) + "\n")
    for style in ("tag", "surrogate"):
        summary = deidentify_table(table, tmp_path / f"{style}.jsonl", model, style=style, key=KEY)
        written = json.loads((tmp_path / f"{style}.jsonl").read_text("utf-8"))["text"]
        assert (summary.withheld, written[-1], "504b" in written, "data " in written) == ((), "}", False, False)


def test_a_run_says_which_spans_it_kept_as_they_were(model: Deidentifier, tmp_path: Path) -> None:
    table = write(tmp_path / "notes.csv", "text\nDate: 03/04/2019 UPX-55555\n")
    choices: dict[str, Any] = {"recognizers": [badges], "styles": {"DATE": "keep"}, "key": KEY}
    deidentify_table(table, tmp_path / "clean.csv", model, **choices)
    lines = (tmp_path / "clean.csv.run" / "spans.jsonl").read_text(encoding="utf-8").splitlines()
    assert {entry["label"]: entry.get("shown") for entry in map(json.loads, lines)} == {"DATE": True, "BADGE": None}
    (place,) = replaced_spans(tmp_path / "clean.csv.run", "original").values()
    assert [span.label for span in place] == ["BADGE"]


def test_nothing_is_written_into_a_folder_that_is_read(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    write(tmp_path / "notes" / "a.txt", "Date: 03/04/2019")
    for place in (tmp_path / "notes" / "spans.jsonl", tiny_model / "spans.jsonl"):
        with pytest.raises(CorpusError, match="lies in a folder that is read"):
            deidentify_files(tmp_path / "notes", tmp_path / "clean", tiny_model, spans=place, key=KEY)
        assert not place.exists()


def test_a_doubted_span_has_the_new_name_of_its_label() -> None:
    frank = Span(9, 14, "PATIENT")
    written = alone("Seen for frank breech", frank, style="surrogate", rename={"PATIENT": "PERSON"})
    assert written == "Seen for [PERSON?] breech"


def test_spans_from_a_file(model: Deidentifier, tmp_path: Path) -> None:
    line = {"id": "x", "text": NOTE, "spans": [{"start": 31, "end": 40, "label": "BADGE", "score": 0.6}]}
    file = write(tmp_path / "found.jsonl", json.dumps(line) + "\n")
    results = model.pipe([NOTE, "Another note."], spans_from=[file], accept_unfit=True)
    assert [(result.error or result.text or "").count("[BADGE]") for result in results] == [1, 0]
    with pytest.raises(CorpusError, match=r"recognizer found\.jsonl: the file has no line with the text of this note"):
        model.deidentify("Another note.", spans_from=[file], accept_unfit=True)
    assert "UPX" in (model.deidentify(NOTE, spans_from=[f"{file}@0.7"], accept_unfit=True).text or "")
    twice = write(
        tmp_path / "twice.jsonl", json.dumps(line) + "\n" + json.dumps({**line, "id": "y", "spans": []}) + "\n"
    )
    with pytest.raises(CorpusError, match=r"twice.jsonl: y: another line has the same text, and other spans"):
        Recognizer.from_file(twice)
    with pytest.raises(ConfigError, match="are lists"):
        RunOptions.choose((), spans_from=file)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("surface", "form"),
    [("UPX-55555", r"[A-Z]{3}-\d{5}"), ("night shift", r"\[BADGE\]"), ("3/4/2019", r"\[BADGE\]"), ("42", r"\[BADGE\]")],
)
def test_a_label_of_ones_own_has_a_surrogate_where_it_is_an_identifier(surface: str, form: str) -> None:
    made = alone(f"Badge {surface} here", Span(6, 6 + len(surface), "BADGE"), style="surrogate") or ""
    assert re.fullmatch(f"Badge {form} here", made)
    assert surface not in made


def test_a_deny_list_may_bring_a_label(tmp_path: Path) -> None:
    # A label that no row declares is a typing error.
    deny = write(tmp_path / "deny.csv", "label,value\nDOCTOR,Quist\nDOCTRO,Okonkwo\n")
    with pytest.raises(CorpusError, match=r"deny.csv:3: .*nearest known is 'DOCTOR'; declare a label of your own"):
        SiteLists.read(deny=deny, labels=())
    write(deny, "label,value\nWARD,Unit 7-West\nWARD,\n")
    lists = SiteLists.read(deny=deny, labels=())
    assert lists.labels == {"WARD"}
    assert alone("On Unit 7-West", lists=lists, styles={"WARD": "text:a ward"}) == "On a ward"
    with pytest.raises(ConfigError, match="there is no such label"):
        RunOptions.choose((), styles={"WARD": "mask"})
    write(deny, "label,value\nAnn Bell,Unit 7-West\n")
    with pytest.raises(CorpusError, match=r"deny.csv:2: its type is none of the known labels"):
        SiteLists.read(deny=deny, labels=())
    write(deny, "label,value\nDOCTOR,\n")
    with pytest.raises(CorpusError, match=r"deny.csv:2: the value has 0 letters"):
        SiteLists.read(deny=deny, labels=())


def test_labels_are_renamed_and_merged() -> None:
    options = RunOptions.choose(("PATIENT", "DOCTOR", "CITY"), rename={"NAME": "PERSON", "CITY": "PLACE"}, key=KEY)
    spans = (Span(0, 3, "PATIENT"), Span(8, 11, "DOCTOR"), Span(15, 22, "CITY"))
    result = finish_alone(Document("n", "Ann saw Lee in Lyndale", spans), options, None)
    assert result.text == "[PERSON] saw [PERSON] in [PLACE]"
    assert [span.label for span in result.spans] == ["PERSON", "PERSON", "PLACE"]
    assert [span.label for span in result.replaced] == ["PERSON", "PERSON", "PLACE"]
    # Surrogates are those of the label that was found.
    plain = alone("Ann of Lyndale", Span(7, 14, "CITY"), style="surrogate")
    assert alone("Ann of Lyndale", Span(7, 14, "CITY"), style="surrogate", rename={"CITY": "PLACE"}) == plain
    for wrong in ({"rename": {"SITY": "PLACE"}}, {"rename": {"CITY": "a place"}}):
        with pytest.raises(ConfigError, match="rename"):
            RunOptions.choose(("CITY",), **wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="every style but numbered"):
        RunOptions.choose((), style="numbered", rename={"DOCTOR": "PATIENT"})


def test_a_run_records_who_found_what(model: Deidentifier, tmp_path: Path) -> None:
    rows = "text\n" + "".join(f"Date: 03/04/2019 UPX-5555{n}\n" for n in range(3))
    table = write(tmp_path / "notes.csv", rows)
    choices: dict[str, Any] = {"recognizers": [badges], "rename": {"DATE": "DAY"}, "key": KEY}
    summary = deidentify_table(table, tmp_path / "clean.csv", model, **choices)
    assert summary.counts["enforced: test_enforced:badges"] == 3
    assert (tmp_path / "clean.csv").read_text(encoding="utf-8") == "text\n" + "Date: [DAY] [BADGE]\n" * 3
    verified = verify_run(tmp_path / "clean.csv.run")
    (recorded,) = verified.settings["recognizers"]
    assert recorded["name"] == "test_enforced:badges"
    assert len(recorded["sha256"]) > 16
    assert verified.settings["styles"]["names"] == {"DATE": "DAY"}
    with pytest.raises(CorpusError, match=r"other settings: .*recognizers"):
        deidentify_table(table, tmp_path / "clean.csv", model, resume=True, key=KEY)


def test_the_command(tiny_model: Path, tmp_path: Path) -> None:
    note, out = write(tmp_path / "note.txt", "Date: 03/04/2019 UPX-55555"), tmp_path / "clean.txt"
    command = ["deidentify", str(tiny_model), str(note), "--out", str(out), "--quiet"]
    assert main([*command, "--recognizer", "test_enforced:badges", "--rename", "DATE=DAY"]) == 0
    assert out.read_text(encoding="utf-8") == "Date: [DAY] [BADGE]"
    for wrong in (["--rename", "DATE"], ["--rename", "DATE=A,DATE=B"], ["--recognizer", "nothing"]):
        assert main([*command, *wrong]) == 2


def test_nothing_in_a_models_folder_is_imported() -> None:
    for line in ("recognizer = 'os:system'", "enforce = 'os:system'"):
        with pytest.raises(RuleError, match=r"unknown key|true or false"):
            parse_patterns(BADGE + line)

"""Projects: a patient's notes that come night by night are handed out alike, in any division and order."""

import csv
import io
import json
import random
import re
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Unpack

import pytest
from made_keys import KEY, made_key
from marked_notes import marked_note
from project_notes import made_notes, model_of, write_notes

from ensemble_deid import Columns, Deidentifier, RunSummary, deidentify_files, deidentify_table
from ensemble_deid.cli.main import main
from ensemble_deid.corpora.input_options import InputOptions
from ensemble_deid.deidentify.options import RunChoices
from ensemble_deid.deidentify.project.night import CORRECTIONS, UNCHANGED, Project
from ensemble_deid.deidentify.project.store import Store
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.keys import Key
from ensemble_deid.note.document import Document

KEPT = Columns(id="id", patient="patient_id", keep=("id", "patient_id"))
NOTES = sorted(made_notes(), key=lambda note: note.patient_id or "")
HALF = NOTES[:150]


class Nights:
    """Hands out notes night by night, and has the texts as whoever received them has them now."""

    def __init__(self, folder: Path, model: Deidentifier, *, key: Key = KEY, url: str | None = None) -> None:
        self.folder, self.model, self.key, self.place = folder, model, key, url or str(folder / "project")
        self.project = Project(store=Store.create(self.place, key))
        self.texts: dict[str, str] = {}
        self.runs = 0

    def night(
        self, notes: Sequence[Document], *, hold: int = 0, only_known: bool = False, **choices: Unpack[RunChoices]
    ) -> RunSummary:
        self.runs += 1
        source, out = write_notes(self.folder / f"{self.runs}.jsonl", notes), self.folder / f"{self.runs}-clean.jsonl"
        project = Project(store=Store(self.place, self.key), hold=hold, only_known=only_known)
        choices = {"key": self.key, "style": "surrogate", "accept_unfit": True, **choices}
        summary = deidentify_table(source, out, self.model, columns=KEPT, within=project, **choices)
        self.texts |= {row["id"]: row["text"] for row in map(json.loads, out.read_text("utf-8").splitlines())}
        return summary

    def due(self) -> dict[str, str]:
        return {row.memory["id"]: row.due for row in Store(self.place, self.key).rows() if row.due}


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 50), marks=pytest.mark.long)], ids=["few", "many"])
def test_any_division_into_nights_gives_the_same_texts(tmp_path: Path, seeds: range) -> None:
    model, by_id = model_of(NOTES), {note.id: note for note in NOTES}
    (tmp_path / "whole").mkdir()
    whole = Nights(tmp_path / "whole", model)
    whole.night(NOTES)
    assert whole.due() == {}
    listed = changed = 0
    for seed in seeds:
        rng = random.Random(seed)
        notes = rng.sample(NOTES, len(NOTES))
        (tmp_path / str(seed)).mkdir()
        divided = Nights(tmp_path / str(seed), model)
        cuts = sorted(rng.sample(range(1, len(notes)), rng.randrange(1, 4)))
        for start, end in zip([0, *cuts], [*cuts, len(notes)], strict=True):
            # A patient's notes follow each other, as in most inputs: that is quicker.
            divided.night(sorted(notes[start:end], key=lambda note: note.patient_id or ""))
        due, other = divided.due(), {id for id, text in divided.texts.items() if text != whole.texts[id]}
        # Nothing differs that `status` does not list.
        assert other <= due.keys()
        listed, changed = listed + len(due), changed + len(other)
        divided.night([by_id[id] for id in sorted(due)])
        assert divided.texts == whole.texts
        assert divided.due() == {}
    assert 0 < changed <= listed < len(seeds) * len(NOTES) / 4


def example(id: str, marked: str, patient: str = "M1") -> Document:
    return marked_note(marked, id=id, patient=patient)


FIRST = example("a", "Seen by Dr. <DOCTOR|Quist> on <DATE|10/09/2019>. Rose Okafor called.")
SECOND = example("b", "Dr. <DOCTOR|Quist> saw <PATIENT|Rose Okafor> on <DATE|28/09/2019>. DOB <DATE|01/02/1925>.")
OTHER = example("c", "Nothing but <PATIENT|Bob Stone>.", "M2")


def test_a_file_of_spans_counts_for_the_notes_that_it_holds(tmp_path: Path) -> None:
    nights = Nights(tmp_path, model_of([FIRST, OTHER]))

    def file(note: Document, *spans: tuple[int, int]) -> list[Path]:
        found = [{"start": start, "end": end, "label": "PATIENT"} for start, end in spans]
        path = tmp_path / f"found-{nights.runs}.jsonl"
        path.write_text(json.dumps({"id": note.id, "text": note.text, "spans": found}), encoding="utf-8")
        return [path]

    start = FIRST.text.index("Rose")
    nights.night([FIRST], spans_from=file(FIRST, (start, start + 11)))
    assert "Rose" not in nights.texts["a"]
    nights.night([OTHER], spans_from=file(OTHER))
    assert nights.due() == {}
    assert nights.night([FIRST], spans_from=file(FIRST, (start, start + 11))).counts[UNCHANGED] == 1
    # A file of one night need not hold the notes of earlier nights.
    summary = nights.night([FIRST, OTHER], spans_from=file(OTHER))
    assert (summary.counts[UNCHANGED], summary.withheld) == (2, ())
    assert nights.night([FIRST]).counts[UNCHANGED] == 1
    assert nights.night([FIRST], spans_from=file(FIRST)).counts[CORRECTIONS] == 1


def test_renamed_labels_change_no_later_night(tmp_path: Path) -> None:
    nights = Nights(tmp_path, model_of([FIRST, SECOND, OTHER]))
    for notes in ([FIRST], [OTHER], [SECOND]):
        nights.night(notes, style="tag", rename={"PATIENT": "PERSON"})
    assert nights.texts["c"] == "Nothing but [PERSON]."
    assert nights.due().keys() == {"a"}


def test_what_a_later_note_proves_wrong_is_listed_with_its_reason(tmp_path: Path) -> None:
    nights = Nights(tmp_path, model_of([FIRST, SECOND, OTHER]))
    nights.night([FIRST, OTHER])
    assert "Rose Okafor" in nights.texts["a"]
    doctor = nights.texts["a"].split()[3]
    summary = nights.night([SECOND])
    assert summary.counts["notes of earlier nights are to be handed out again: see `project status`"] == 1
    # The order of day and month is another one, and a name was found that the first note has in clear.
    assert nights.due() == {"a": "later notes change a replacement"}
    assert nights.texts["b"].split()[1] == doctor
    nights.night([FIRST, SECOND, OTHER])
    assert nights.due() == {}
    assert "Okafor" not in nights.texts["a"]
    (change,) = Store(tmp_path / "project", KEY).changes()
    assert (change.facts["note"], change.facts["why"]) == ("a", "later notes change a replacement")


def test_a_string_found_later_is_enough(tmp_path: Path) -> None:
    first = example("a", "Rose Okafor called.")
    nights = Nights(tmp_path, model_of([first, SECOND]))
    nights.night([first])
    nights.night([SECOND])
    assert nights.due() == {"a": "it may hold a string that was found later"}


def test_a_birth_year_is_hidden_before_anything_shows_an_age_over_89(tmp_path: Path) -> None:
    birth = example("a", "DOB <DATE|01/02/1931>.")
    nights = Nights(tmp_path, model_of([birth, SECOND]))
    nights.night([birth])
    nights.night([SECOND])
    assert nights.texts["a"] == "DOB [DATE]."
    assert nights.due() == {}


def test_notes_unchanged_are_not_done_again_and_corrected_ones_are_listed(tmp_path: Path) -> None:
    corrected = example("c", "Nothing but <PATIENT|Bob Stone>, and <PHONE|617-555-9321>.", "M2")
    nights = Nights(tmp_path, model_of([FIRST, OTHER, corrected]))
    nights.night([FIRST, OTHER])
    before = dict(nights.texts)
    summary = nights.night([FIRST, OTHER])
    assert (summary.written, summary.counts["notes are as they were handed out, and were not done again"]) == (0, 2)
    assert (tmp_path / "2-clean.jsonl").read_bytes() == b""
    summary = nights.night([FIRST, corrected])
    assert summary.written == 1
    assert nights.texts["a"] == before["a"]
    assert nights.texts["c"].startswith(before["c"].removesuffix("."))
    (change,) = Store(tmp_path / "project", KEY).changes()
    assert (change.facts["note"], change.facts["why"], change.night) == ("c", "the note was corrected", 3)
    # An id may be PHI: the error gives the line.
    with pytest.raises(CorpusError, match=r"^line 2: the project does not know this note"):
        nights.night([OTHER, example("d", "New.")], only_known=True)


def test_notes_wait_for_others_of_their_patient(tmp_path: Path) -> None:
    third = example("d", "On <DATE|03/04/2018>.")
    nights = Nights(tmp_path, model_of([FIRST, SECOND, OTHER, third]))
    assert nights.night([FIRST, OTHER], hold=3).written == 0
    assert nights.night([SECOND], hold=3).written == 0
    assert nights.due() == {"a": "held", "b": "held", "c": "held"}
    assert nights.night([FIRST, SECOND, OTHER, third], hold=3).written == 3
    assert nights.due() == {"c": "held"}


def test_a_patient_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)
    nights = Nights(tmp_path, model_of([FIRST, SECOND, OTHER]))
    nights.night([FIRST, SECOND, OTHER])
    place = str(tmp_path / "project")
    assert main(["project", "forget", place, "M1"]) == 0
    said = capsys.readouterr().out
    assert f"delete: a ({tmp_path / '1-clean.jsonl'})\ndelete: b " in said
    assert [row.memory["id"] for row in Store(place, KEY).rows()] == ["c"]
    assert main(["project", "forget", place, "M1"]) == 2
    # Nothing is known of the patient any more: the notes come as in a new project.
    (tmp_path / "new").mkdir()
    new = Nights(tmp_path / "new", nights.model)
    nights.night([FIRST])
    new.night([FIRST])
    assert nights.texts["a"] == new.texts["a"]


def replaced(folder: Path) -> set[tuple[str, str, int, str]]:
    """Return patient, label, place and surrogate of all spans of a project's only run."""
    texts = {
        row["id"]: row for row in map(json.loads, next(folder.glob("*-clean.jsonl")).read_text("utf-8").splitlines())
    }
    spans = map(json.loads, next(folder.glob("*.run")).joinpath("spans.jsonl").read_text("utf-8").splitlines())
    return {(s["note"], s["label"], s["start"], texts[s["note"]]["text"][s["new_start"] : s["new_end"]]) for s in spans}


def test_a_new_release_has_nothing_in_common_with_the_one_before(tmp_path: Path) -> None:
    model, new = model_of(NOTES), made_key("the next release")
    nights = Nights(tmp_path, model)
    nights.night(NOTES)
    before = replaced(tmp_path)
    for path in (*tmp_path.glob("*.jsonl"), *tmp_path.glob("*.run/*")):
        path.unlink()
    (tmp_path / "1-clean.jsonl.run").rmdir()
    assert Store(tmp_path / "project", KEY).rotate(new) == 2
    with pytest.raises(ConfigError, match="is not sealed with this key"):
        Store(tmp_path / "project", KEY)
    nights.key = new
    assert set(nights.due().values()) == {"the release is new"}
    assert {row.output for row in Store(tmp_path / "project", new).rows()} == {None}
    nights.night(NOTES)
    assert nights.due() == {}
    after = replaced(tmp_path)
    # Ages stay; a tag, an initial, a state and a name from a list of some hundred are the same by chance alone.
    telling = {
        place for place in before & after if place[1] in ("DATE", "PHONE", "MEDICALRECORD") and place[3][0] != "["
    }
    assert telling == set()
    names = [place for place in before if place[1] in ("PATIENT", "DOCTOR") and len(place[3]) > 3]
    assert len(set(names) & after) < 0.01 * len(names)
    with pytest.raises(ConfigError, match="needs another key"):
        Store(tmp_path / "project", new).rotate(new)


def _night(folder: Path, place: str, part: int) -> None:
    nights = Nights.__new__(Nights)
    nights.folder, nights.place, nights.model, nights.key = folder, place, model_of(HALF), KEY
    nights.texts, nights.runs = {}, part * 10
    nights.night(HALF[part::2])


def test_two_processes_at_once(tmp_path: Path) -> None:
    two_at_once(Nights(tmp_path, model_of(NOTES)), tmp_path)


@pytest.mark.long
def test_two_processes_with_postgresql(postgresql: str, tmp_path: Path) -> None:
    nights = Nights(tmp_path, model_of(NOTES), url=postgresql)
    two_at_once(nights, tmp_path)
    assert Store(postgresql, KEY).rotate(made_key("new")) == 2
    with pytest.raises(ConfigError, match="the project's database: is a project already"):
        Store.create(postgresql, KEY)


def two_at_once(nights: Nights, tmp_path: Path) -> None:
    context = get_context("fork")
    both = [context.Process(target=_night, args=(tmp_path, nights.place, part)) for part in (0, 1)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    for path in tmp_path.glob("*-clean.jsonl"):
        nights.texts |= {row["id"]: row["text"] for row in map(json.loads, path.read_text("utf-8").splitlines())}
    assert len(nights.texts) == len(HALF)
    (tmp_path / "whole").mkdir()
    whole = Nights(tmp_path / "whole", nights.model)
    whole.night(HALF)
    other = {id for id, text in nights.texts.items() if text != whole.texts[id]}
    assert other <= nights.due().keys()
    nights.runs = 20
    nights.night([note for note in HALF if note.id in nights.due()])
    assert nights.texts == whole.texts


def test_the_store_holds_neither_text_nor_phi(tmp_path: Path) -> None:
    nights = Nights(tmp_path, model_of(NOTES))
    nights.night(NOTES[:100])
    nights.night(NOTES[100:200])
    # Hashes in hexadecimal digits hold any few digits by chance, as random bytes do any few letters.
    data = re.sub(rb"[0-9a-f]{24,}", b"", (tmp_path / "project" / "project.db").read_bytes())
    for note in NOTES[:200]:
        words = [note.id, note.patient_id or "", *note.text.splitlines()]
        words += [note.text[span.start : span.end] for span in note.spans]
        assert [word for word in words if len(word) > 4 and word.encode() in data] == []
    assert (tmp_path / "project" / "project.db").stat().st_mode & 0o077 == 0


def test_a_night_that_was_not_committed_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ensemble_deid.deidentify.project.night import Night

    nights = Nights(tmp_path, model_of([FIRST, SECOND]))
    with monkeypatch.context() as patch:
        patch.setattr(Night, "commit", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            nights.night([FIRST])
    written = (tmp_path / "1-clean.jsonl").read_bytes()
    nights.runs = 0
    nights.night([FIRST])
    assert (tmp_path / "1-clean.jsonl").read_bytes() == written
    nights.runs = 0
    with pytest.raises(ConfigError, match="holds the output of another run"):
        nights.night([SECOND])


def test_what_must_not_differ_within_a_release(tmp_path: Path) -> None:
    nights = Nights(tmp_path, model_of([FIRST, SECOND]))
    nights.night([FIRST])
    source = write_notes(tmp_path / "more.jsonl", [SECOND])
    for choices, problem in (
        ({"key": made_key("another"), "style": "surrogate"}, "another key than the project"),
        ({"key": KEY, "style": "tag"}, "begun with other settings: styles"),
        ({"key": KEY, "style": "surrogate", "scope": "b"}, "begun with other settings: scope"),
    ):
        with pytest.raises(ConfigError, match=problem):
            deidentify_table(source, tmp_path / "o.jsonl", nights.model, columns=KEPT, within=nights.project, **choices)
    with pytest.raises(CorpusError, match="another record of the input has the same id"):
        nights.night([SECOND, SECOND])


def test_a_table_and_a_folder_have_the_new_notes_alone(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    store, notes = Store.create(tmp_path / "project", KEY), [FIRST, OTHER, SECOND]
    choices = {
        "model": model_of(notes),
        "within": Project(store=store),
        "key": KEY,
        "style": "surrogate",
        "accept_unfit": True,
    }
    for number, part in enumerate(([FIRST, OTHER], notes)):
        table = {"id": [n.id for n in part], "patient_id": [n.patient_id for n in part], "text": [n.text for n in part]}
        parquet.write_table(pyarrow.table(table), tmp_path / f"{number}.parquet")
        out = tmp_path / f"{number}-clean.parquet"
        deidentify_table(tmp_path / f"{number}.parquet", out, columns=KEPT, **choices)
    assert parquet.read_table(out)["id"].to_pylist() == ["b"]
    with pytest.raises(CorpusError, match="has no id"):
        deidentify_table(tmp_path / "0.parquet", tmp_path / "o.parquet", columns=Columns(keep=("all",)), **choices)
    (tmp_path / "in").mkdir()
    for number in (1, 2):
        (tmp_path / "in" / f"{number}.txt").write_text(f"Note {number}.", encoding="utf-8")
        summary = deidentify_files(tmp_path / "in", tmp_path / "out", run=tmp_path / f"{number}.run", **choices)
        assert summary.written == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["1.txt", "2.txt"]
    with pytest.raises(CorpusError, match="standard-input: has no id"):
        deidentify_files(io.BytesIO(b"A note."), tmp_path / "s.txt", **choices)
    message = b"MSH|^~\\&|A|B|C|D|20710102||ORU^R01|1|P|2.5\rOBX|1|TX|N||Seen.\r"
    given = InputOptions(format="hl7", keep_fields=True)
    with pytest.raises(CorpusError, match="message: has no id"):
        deidentify_table(io.BytesIO(message), tmp_path / "s.hl7", input=given, **choices)
    with pytest.raises(ConfigError, match="name another --out, or --run"):
        deidentify_files(tmp_path / "in", tmp_path / "out", run=tmp_path / "1.run", **choices)


def test_the_commands(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("key").write_text(KEY.text, encoding="ascii")
    Path("new").write_text(made_key("new").text, encoding="ascii")
    rows = ["id,mrn,text", "1,M1,Date: 03/04/2019", "2,M1,Date: 03/05/2019"]
    Path("n.csv").write_text("\n".join(rows), encoding="utf-8")
    key, columns = ["--key-file", "key"], ["--id-column", "id", "--patient-column", "mrn"]
    night = [str(tiny_model), "n.csv", *columns, *key, "--style", "surrogate", "--quiet"]
    assert main(["project", "create", "p"]) == 2
    assert main(["deidentify", *night, "--out", "o.csv", "--project", "p"]) == 2
    assert main(["project", "create", "p", *key]) == 0
    assert main(["project", "create", "p", *key]) == 2
    assert main(["project", "add", "p", *night, "--out", "o1.csv"]) == 0
    assert main(["deidentify", *night, "--out", "o1.csv", "--project", "p"]) == 2
    assert main(["deidentify", *night, "--out", "o2.csv", "--project", "p"]) == 0
    assert len(Path("o2.csv").read_text("utf-8").splitlines()) == 1
    rows[1] = "1,M1,Date: 28/04/2019"
    Path("n.csv").write_text("\n".join(rows), encoding="utf-8")
    assert main(["project", "correct", "p", *night, "--out", "o3.csv"]) == 0
    capsys.readouterr()
    assert main(["project", "status", "p", *key]) == 1
    assert f"again: 2: later notes change a replacement ({Path('o1.csv').resolve()})" in capsys.readouterr().out
    assert main(["project", "add", "p", *night, "--out", "o4.csv"]) == 0
    assert main(["project", "status", "p", *key]) == 0
    capsys.readouterr()
    assert main(["project", "diff", "p", *key]) == 0
    assert "2 outputs of release 1 replaced" in capsys.readouterr().out
    assert main(["project", "diff", "p", "n.csv", *columns, *key, "--model", str(tiny_model)]) == 0
    said = capsys.readouterr().out
    assert said.split()[:8] == ["label", "same", "other", "label", "other", "bounds", "lost", "new"]
    assert "0 of 2 notes would change" in said
    # As a run finds it, with the same options; what only changes an output is refused.
    compared = ["project", "diff", "p", "n.csv", *columns, *key, "--model", str(tiny_model)]
    assert main([*compared, "--threshold", "1"]) == 0
    assert "2 of 2 notes would change" in capsys.readouterr().out
    for option in (["--rename", "DATE=DAY"], ["--style", "tag"]):
        with pytest.raises(SystemExit, match="2"):
            main([*compared, *option])
    assert main(["project", "export-pseudonyms", "p", *key, "--csv", "ids.csv"]) == 0
    with Path("ids.csv").open(encoding="utf-8", newline="") as stream, Path("o4.csv").open(encoding="utf-8") as clean:
        pseudonyms = {row["note"]: row["note_pseudonym"] for row in csv.DictReader(stream)}
        assert [row["id"] for row in csv.DictReader(clean)] == [pseudonyms["2"]]
    assert main(["project", "export-pseudonyms", "p", *key, "--csv", "ids.csv"]) == 2
    assert main(["project", "add", "p", *night, "--again", "--out", "o5.csv"]) == 0
    assert len(Path("o5.csv").read_text("utf-8").splitlines()) == 3
    assert main(["project", "rotate-key", "p", *key, "--new-key-file", "new"]) == 0
    assert main(["project", "status", "p", *key]) == 2
    assert main(["project", "status", "p", "--key-file", "new"]) == 1

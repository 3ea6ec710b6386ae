"""Databases: SQLite always; PostgreSQL on a server that the test starts from Debian's package."""

import contextlib
import multiprocessing
import re
from pathlib import Path
from unittest.mock import patch

import pytest
import sqlalchemy as sa
from made_keys import KEY

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.records import NewRecord
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.corpora.tables.sql import SqlQuery
from ensemble_deid.deidentify.manifest import RunFiles

QUERY = "SELECT n, mrn, seen, score, body FROM notes ORDER BY n"
OPTIONS = ("--text-column", "body", "--id-column", "n", "--patient-column", "mrn", "--date-columns", "seen")
ROWS = [
    {"n": 7, "mrn": "M1", "seen": "2014-03-05", "score": 1.5, "body": 'Seen on 03/04/2019: 12:30 o\'clock, 5% "x"\r\n'},
    {"n": 8, "mrn": "M1", "seen": "2014-03-07", "score": None, "body": None},
    {"n": 9, "mrn": "M2", "seen": None, "score": 2.5, "body": "Nothing."},
]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)


def run(model: Path, url: str, folder: Path, query: str = QUERY, table: str = "clean", *more: str) -> int:
    command = ["deidentify", str(model), url, "--query", query, "--table-out", table, "--out", str(folder / "r")]
    return main([*command, *OPTIONS, "--keep-columns", "score", *more])


def filled(url: str, create: str) -> sa.Engine:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text(create))
        connection.execute(sa.text("INSERT INTO notes VALUES (:n, :mrn, :seen, :score, :body)"), ROWS)
    return engine


def check(engine: sa.Engine) -> list[sa.Row[tuple[object, ...]]]:
    with engine.connect() as connection:
        made = list(connection.execute(sa.text("SELECT n, mrn, seen, score, body FROM clean ORDER BY score")))
        before, after = (sa.inspect(connection).get_columns(name) for name in ("notes", "clean"))
        assert [column["name"] for column in after] == [column["name"] for column in before]
        assert not [name for name in sa.inspect(connection).get_table_names() if "unfinished" in name]
    by_score = {row.score: row for row in made}
    assert by_score[1.5].body == 'Seen on [DATE]: 12:30 o\'clock, 5% "x"\r\n'
    assert by_score[2.5].body == "Nothing."
    assert by_score[None].body is None
    assert by_score[1.5].mrn == by_score[None].mrn != by_score[2.5].mrn
    assert "M1" not in {row.mrn for row in made}
    assert len({row.n for row in made} | {7, 8, 9}) == 6
    assert str(by_score[1.5].seen) not in ("2014-03-05", "None")
    assert by_score[2.5].seen is None
    return made


def test_sqlite(tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'notes.db'}"
    create = "CREATE TABLE notes (n INTEGER, mrn TEXT, seen TEXT, score REAL, body TEXT)"
    engine = filled(url, create)
    assert run(tiny_model, url, tmp_path) == 0
    assert capsys.readouterr().out.startswith("2 notes written to clean, 0 withheld\n")
    check(engine)
    assert run(tiny_model, url, tmp_path) == 2
    assert "clean: the table exists" in capsys.readouterr().err
    assert run(tiny_model, url, tmp_path, table="again", query="SELECT * FROM nowhere ORDER BY n") == 2
    assert "the database refuses (OperationalError, OperationalError)" in capsys.readouterr().err
    assert run(tiny_model, url, tmp_path, table="again", query="SELECT * FROM notes") == 2
    assert "must end with ORDER BY" in capsys.readouterr().err
    assert run(tiny_model, url, tmp_path, table="a; drop table notes") == 2


def test_more_rows_than_the_cache_of_sqlite_holds(tmp_path: Path) -> None:
    """Its cache is 2 MB; the rows are read while the new ones are written."""
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
        connection.execute(sa.text("CREATE TABLE notes (n INTEGER PRIMARY KEY, body TEXT, k TEXT)"))
        rows = [{"n": n, "body": "Nothing.", "k": f"{n:05d} " * 700} for n in range(1500)]
        connection.execute(sa.text("INSERT INTO notes VALUES (:n, :body, :k)"), rows)
    columns = Columns("body", "n", keep=("k",))
    source = SqlQuery(url, "SELECT n, body, k FROM notes ORDER BY n", "clean", columns)
    # Where SQLite waits, Python is not asked: another process is stopped, not this one.
    child = multiprocessing.get_context("fork").Process(target=copied, args=(source,), daemon=True)
    child.start()
    child.join(timeout=60)
    waiting = child.is_alive()
    child.kill()
    assert not waiting
    with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM clean")).scalar_one() == 1500


def copied(source: SqlQuery) -> None:
    with source.writer(Path("clean"), lambda *_: None) as writer:
        for record in source.records():
            writer.write(record, NewRecord((), record.id, record.patient, record.dates))


def test_a_finished_run_is_compared_with_its_table(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'notes.db'}"
    engine = filled(url, "CREATE TABLE notes (n INTEGER, mrn TEXT, seen TEXT, score REAL, body TEXT)")
    assert run(tiny_model, url, tmp_path) == 0
    assert main(["audit", "verify", str(tmp_path / "r.run")]) == 0
    (digest,) = re.findall(r"the table clean had rows with the digest ([0-9a-f]{64})", capsys.readouterr().out)

    def resumed(*statements: str) -> tuple[int, str]:
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))
        status = run(tiny_model, url, tmp_path, QUERY, "clean", "--resume")
        said = capsys.readouterr()
        return status, said.out + said.err

    status, said = resumed()
    assert status == 0, said
    assert "the run was finished before" in said
    # The order of rows means nothing in a database.
    copied = "CREATE TABLE t AS SELECT * FROM clean ORDER BY n DESC"
    assert resumed(copied, "DROP TABLE clean", "ALTER TABLE t RENAME TO clean")[0] == 0
    # Notes that were changed or added since are not done, whatever the order.
    copied = "CREATE TABLE t AS SELECT * FROM notes ORDER BY n DESC"
    assert resumed(copied, "DROP TABLE notes", "ALTER TABLE t RENAME TO notes")[0] == 0
    status, said = resumed("INSERT INTO notes SELECT n + 100, mrn, seen, score, body FROM notes WHERE n = 7")
    assert status == 2
    assert "a finished run with other settings: inputs" in said
    assert resumed("DELETE FROM notes WHERE n > 100")[0] == 0
    status, said = resumed("UPDATE clean SET score = 1.25 WHERE score = 1.5")
    assert status == 2
    assert "clean: the table is not as the run" in said
    assert resumed("DROP TABLE clean")[0] == 2
    assert digest not in said


def test_a_broken_run_leaves_no_table(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ensemble_deid.corpora.tables import sql

    url = f"sqlite:///{tmp_path / 'notes.db'}"
    engine = filled(url, "CREATE TABLE notes (n INTEGER, mrn TEXT, seen TEXT, score REAL, body TEXT)")
    with monkeypatch.context() as patch:
        patch.setattr(sql._TableWriter, "flush", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        assert run(tiny_model, url, tmp_path) == 130
    with engine.connect() as connection:
        assert not sa.inspect(connection).has_table("clean")
    assert run(tiny_model, url, tmp_path) == 0
    check(engine)


def test_a_run_killed_beside_its_whole_table_goes_on(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'notes.db'}"
    engine = filled(url, "CREATE TABLE notes (n INTEGER, mrn TEXT, seen TEXT, score REAL, body TEXT)")

    def killed() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(RunFiles, "end", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
            assert run(tiny_model, url, tmp_path) == 130

    killed()
    assert run(tiny_model, url, tmp_path) == 2
    assert "drop it, or name another one; --resume where a run was killed" in capsys.readouterr().err
    assert run(tiny_model, url, tmp_path, QUERY, "clean", "--resume") == 0
    check(engine)
    with engine.connect() as connection:
        assert sorted(sa.inspect(connection).get_table_names()) == ["clean", "notes"]
    assert main(["audit", "verify", str(tmp_path / "r.run")]) == 0
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE clean"))
    killed()
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE clean SET score = 1.25 WHERE score = 1.5"))
    assert run(tiny_model, url, tmp_path, QUERY, "clean", "--resume") == 2
    assert "clean: the table exists, with other rows" in capsys.readouterr().err


def table_of(url: str, name: str = "clean") -> SqlQuery:
    return SqlQuery(url, "SELECT body FROM notes ORDER BY body", name, Columns(text="body"))


@pytest.mark.long
def test_a_table_on_a_server_is_locked_for_other_machines(
    tiny_model: Path, tmp_path: Path, postgresql: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs elsewhere share neither folder nor process, so a second session stands for them."""
    filled(postgresql, "CREATE TABLE notes (n integer, mrn text, seen text, score double precision, body text)")
    with table_of(postgresql, "public.Clean").exclusive() as locked:
        assert locked
        assert run(tiny_model, postgresql, tmp_path) == 2
        assert "clean: another run is writing there" in capsys.readouterr().err
        assert run(tiny_model, postgresql, tmp_path / "other", table="another") == 0
        assert "no locks" not in capsys.readouterr().err
    assert run(tiny_model, postgresql, tmp_path) == 0


def test_a_database_without_locks_is_named(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'notes.db'}"
    filled(url, "CREATE TABLE notes (n INTEGER, mrn TEXT, seen TEXT, score REAL, body TEXT)")
    # Its file is locked.
    with table_of(url).exclusive() as locked:
        assert locked
    assert run(tiny_model, url, tmp_path) == 0
    assert "no locks" not in capsys.readouterr().err
    with patch.object(SqlQuery, "exclusive", lambda _: contextlib.nullcontext(False)):
        assert run(tiny_model, url, tmp_path, table="again") == 0
    assert "again: the database has no locks: start no other run with this table" in capsys.readouterr().err


@pytest.mark.long
def test_postgresql(tiny_model: Path, tmp_path: Path, postgresql: str) -> None:
    engine = filled(
        postgresql,
        "CREATE TABLE notes (n integer, mrn varchar(40), seen varchar(10), score double precision, body text)",
    )
    with engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE notes ALTER COLUMN seen TYPE date USING seen::date"))
    assert (
        run(
            tiny_model, postgresql, tmp_path, query="SELECT * FROM notes WHERE body <> ':x' OR body IS NULL ORDER BY n;"
        )
        == 0
    )
    made = check(engine)
    assert all(0 <= row.n < 1 << 30 for row in made)
    with engine.connect() as connection:
        before, after = (sa.inspect(connection).get_columns(name) for name in ("notes", "clean"))
    assert [repr(column["type"]) for column in after] == [repr(column["type"]) for column in before]

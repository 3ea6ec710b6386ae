"""The database of a project, SQLite or PostgreSQL: a row for each note, sealed with the project's key.

Notes, patients and cells are recognised by HMACs. Nothing can be read without the key, and nothing is text of a note.
One process at a time changes it; the others wait.
"""

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ensemble_deid.corpora.tables.sql import sqlalchemy
from ensemble_deid.errors import ConfigError, CorpusError, needs_extra
from ensemble_deid.keys import Key

HELD, RELEASE = "held", "the release is new"
"""Why a note is due that was not handed out yet, and one that was in an earlier release."""
_FILE = "project.db"
_COLUMNS = ("tag", "patient", "input", "output", "model", "made", "due", "night")
_NONCE = 12
_TOGETHER = 500
_WAIT = 600
_ORDERS = "date_orders"
_NOT_OURS = "is not sealed with this key: give the --key-file of the project's release"


@dataclass(frozen=True, slots=True)
class KeptNote:
    """The record of one note; `due` says why it must be handed out again.

    `input` is an HMAC of all its cells, `output` one of what was handed out, None where nothing is in this release, and
    `made` one of the settings that its output was made with. `memory` is sealed.
    """

    tag: str
    patient: str
    input: str
    memory: Mapping[str, Any] = field(repr=False)
    output: str | None = None
    model: str = ""
    made: str = ""
    due: str | None = None
    night: int = 0

    @property
    def place(self) -> str:
        """What its sealed record is bound to: every other column."""
        return json.dumps([getattr(self, name) for name in _COLUMNS])


@dataclass(frozen=True, slots=True)
class ReplacedOutput:
    """An output that another one replaced: of which note, why, and the hashes of both.

    Where a note moved to another patient, `outs` in `facts` are the places of its outputs.
    """

    patient: str
    night: int
    facts: dict[str, Any] = field(repr=False)


class _Seal:
    """Seals records with AES-GCM under a key derived from the project's; each is bound to its place."""

    def __init__(self, key: Key, salt: str) -> None:
        with needs_extra("project", "a project"):
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        self._cipher = AESGCM(bytes.fromhex(key.fingerprint("project seal", salt.encode())))
        self._broken = InvalidTag

    def close(self, content: Any, place: str) -> bytes:
        nonce = secrets.token_bytes(_NONCE)
        text = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return nonce + self._cipher.encrypt(nonce, text, place.encode())

    def open(self, data: bytes, place: str) -> Any:
        try:
            text = self._cipher.decrypt(data[:_NONCE], data[_NONCE:], place.encode())
        except self._broken:
            raise ConfigError(f"the project {_NOT_OURS}, or a record in it was changed") from None
        return json.loads(text.decode("utf-8", "surrogatepass"))


class Store:
    """A project's database, opened with its key. Raises ConfigError where it is missing, or the key is another one."""

    def __init__(self, place: str | Path, key: Key) -> None:
        self.place, self.key = str(place), key
        self._engine, self._tables = _connected(self.place, new=False)
        with self._reading() as connection:
            self._read_head(connection)

    @property
    def shown(self) -> str:
        """The place as messages may name it: the URL of a database may hold a password."""
        return _shown(self.place)

    @classmethod
    def create(cls, place: str | Path, key: Key) -> "Store":
        """Make a new, empty project. Raises ConfigError where there is one already."""
        engine, (project, *_) = _connected(str(place), new=True)
        with _errors(), engine.begin() as connection:
            # SQLite commits each table by itself: a project without a head was not made to the end.
            if _head(connection, project) is not None:
                raise ConfigError(f"{_shown(str(place))}: is a project already")
            project.metadata.create_all(connection)
            salt = secrets.token_hex(16)
            head = {"id": 1, "salt": salt, "key": key.id, "release": 1, "night": 0, "settings": None}
            connection.execute(project.insert().values(**head, proof=_Seal(key, salt).close(None, "proof")))
        engine.dispose()
        return cls(place, key)

    def _read_head(self, connection: Any) -> None:
        found = _head(connection, self._tables[0])
        if found is None:
            raise ConfigError(f"{self.shown}: is not a project; `ensemble-deid project create` makes one")
        if found.key != self.key.id:
            raise ConfigError(f"{self.shown}: {_NOT_OURS} (the release has the key {found.key})")
        self._salt, self._seal = found.salt, _Seal(self.key, found.salt)
        self.authority: str | None = self._seal.open(found.proof, "proof")
        self.release: int = found.release
        self.night: int = found.night
        self.settings: dict[str, Any] | None = found.settings and json.loads(found.settings)

    @property
    def orders(self) -> dict[str, str]:
        """The orders of day and month of the release's date columns."""
        return dict((self.settings or {}).get(_ORDERS, {}))

    @property
    def salted(self) -> Key:
        """A key of this project alone, for hashes of words."""
        return Key(bytes.fromhex(self.key.fingerprint("project words", self._salt.encode())))

    def tag(self, kind: str, value: str) -> str:
        """Return the HMAC that stands for an id, cells or settings."""
        return self.key.fingerprint(f"project {kind}", f"{self._salt}\n{value}".encode("utf-8", "surrogatepass"))[:32]

    def sealed(self, row: KeptNote) -> bytes:
        return self._seal.close(asdict(row), f"waiting {row.tag}")

    def unsealed(self, data: bytes, tag: str) -> KeptNote:
        return KeptNote(**self._seal.open(data, f"waiting {tag}"))

    def rows(self, *, tags: Iterable[str] | None = None, patients: Iterable[str] | None = None) -> Iterator[KeptNote]:
        """Yield the rows of notes, or of patients, by their tags; all rows where neither is given."""
        with self._reading() as connection:
            yield from self._rows(connection, tags=tags, patients=patients)

    def changes(self) -> list[ReplacedOutput]:
        """Return every output of this release that another one replaced, in order."""
        with self._reading() as connection:
            return [change for change in self._changes(connection) if change.facts.get("old") is not None]

    @contextmanager
    def changing(self, *, nights: int = 0, purge: bool = False) -> Iterator["Commit"]:
        """Provide a transaction that changes the project, at the end of one or no night; other processes wait for it.

        With `purge`, a database in a file keeps no byte of deleted rows. Raises ConfigError for a changed release.
        """
        project = self._tables[0]
        with _errors(), self._engine.begin() as connection:
            # The first statement writes, and so takes the lock that the whole transaction needs.
            mine = (project.c.key == self.key.id) & (project.c.release == self.release)
            done = connection.execute(project.update().where(mine).values(night=project.c.night + nights))
            if done.rowcount != 1:
                raise ConfigError(f"{self.shown}: another release was begun meanwhile")
            self._read_head(connection)
            yield Commit(self, connection)
        if purge and self._engine.dialect.name == "sqlite":
            # Even with secure_delete, a page that was split may hold copies of its old rows.
            with _errors(), self._engine.connect() as connection:
                connection.execution_options(isolation_level="AUTOCOMMIT").execute(sqlalchemy().text("VACUUM"))

    def check_settings(self, settings: dict[str, Any]) -> None:
        """Raise ConfigError where the release was begun with other settings: its notes would not fit each other."""
        begun = self.settings or settings
        differing = sorted(name for name, value in settings.items() if begun.get(name, value) != value)
        if differing:
            raise ConfigError(
                f"{self.shown}: release {self.release} was begun with other settings: {', '.join(differing)}; "
                "`project rotate-key` begins another release"
            )

    def rotate(self, new: Key) -> int:
        """Reseal the store with a new key, forget outputs, return the release number. ConfigError for the old key."""
        if new.id == self.key.id:
            raise ConfigError("the new release needs another key: old and new could be joined")
        project, notes, changes = self._tables
        with self.changing(purge=True) as commit:
            rows, connection = list(commit.rows()), commit.connection
            moved = [change.facts for change in self._changes(connection) if "outs" in change.facts]
            connection.execute(notes.delete())
            connection.execute(changes.delete())
            salt = secrets.token_hex(16)
            values = {"salt": salt, "key": new.id, "proof": _Seal(new, salt).close(self.authority, "proof")}
            connection.execute(project.update().values(**values, release=self.release + 1, settings=None))
            self.key = new
            self._read_head(connection)
            anew = [self._anew(row) for row in rows]
            # In the order of the old tags, old and new could be joined.
            for row in sorted(anew, key=lambda row: row.tag):
                commit.put(row)
            for facts in sorted(moved, key=lambda facts: self.tag("patient", facts["patient"])):
                kept = {name: facts[name] for name in ("patient", "note", "outs")}
                commit.change(**kept)
        return self.release

    def _anew(self, row: KeptNote) -> KeptNote:
        lasting = ("id", "patient", "found", "said", "beside", "year", "outs")
        kept = {name: row.memory[name] for name in lasting if name in row.memory}
        tags = self.tag("note", kept["id"]), self.tag("patient", kept["patient"])
        return KeptNote(*tags, "", kept, due=row.due if row.due == HELD else RELEASE)

    def _rows(
        self, connection: Any, *, tags: Iterable[str] | None, patients: Iterable[str] | None
    ) -> Iterator[KeptNote]:
        notes = self._tables[1]
        query = notes.select().order_by(notes.c.tag)
        column, wanted = (notes.c.patient, patients) if tags is None else (notes.c.tag, tags)
        ordered = sorted(set(wanted or ()))
        portions = [ordered[start : start + _TOGETHER] for start in range(0, len(ordered), _TOGETHER)]
        for portion in portions if wanted is not None else [None]:
            for row in list(connection.execute(query if portion is None else query.where(column.in_(portion)))):
                found = KeptNote(**{name: getattr(row, name) for name in _COLUMNS}, memory={})
                yield replace(found, memory=self._seal.open(row.sealed, found.place))

    def _changes(self, connection: Any, patient: str | None = None) -> list[ReplacedOutput]:
        table = self._tables[2]
        query = table.select().order_by(table.c.id)
        found = list(connection.execute(query if patient is None else query.where(table.c.patient == patient)))
        return [
            ReplacedOutput(row.patient, row.night, self._seal.open(row.sealed, f"{row.patient} {row.night}"))
            for row in found
        ]

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        with _errors(), self._engine.connect() as connection:
            yield connection


@dataclass(frozen=True, slots=True)
class Commit:
    """A change of the project that is not committed yet: `rows` as they are now, also those of other processes."""

    store: Store
    connection: Any

    def rows(self, *, tags: Iterable[str] | None = None, patients: Iterable[str] | None = None) -> Iterator[KeptNote]:
        return self.store._rows(self.connection, tags=tags, patients=patients)

    def made(self) -> set[tuple[str, str, str | None]]:
        """Return patient, settings and due of the notes that were handed out, each once."""
        notes = self.store._tables[1]
        query = sqlalchemy().select(notes.c.patient, notes.c.made, notes.c.due).where(notes.c.output.is_not(None))
        return {tuple(row) for row in self.connection.execute(query.distinct())}

    def settle(self, settings: dict[str, Any], orders: Mapping[str, str], authorities: Iterable[str]) -> None:
        """Record the release's settings, date orders and id authority. Raises ConfigError when others are recorded."""
        self.store.check_settings(settings)
        begun = self.store.orders
        for name in begun.keys() & orders.keys():
            if begun[name] != orders[name]:
                raise ConfigError(f"{self.store.shown}: another night has the dates of {name} in another order")
        self.store.settings = {**settings, _ORDERS: {**begun, **orders}}
        for authority in authorities:
            if authority != (self.store.authority or authority):
                raise ConfigError(f"{self.store.shown}: another night has patient ids of another assigning authority")
            self.store.authority = authority
        proof = self.store._seal.close(self.store.authority, "proof")
        values = {"settings": json.dumps(self.store.settings, sort_keys=True), "proof": proof}
        self.connection.execute(self.store._tables[0].update().values(**values))

    def put(self, row: KeptNote) -> None:
        """Keep a row in the place of the one with its tag."""
        notes = self.store._tables[1]
        self.connection.execute(notes.delete().where(notes.c.tag == row.tag))
        row = replace(row, night=row.night or self.store.night)
        values = {name: getattr(row, name) for name in _COLUMNS}
        sealed = self.store._seal.close(row.memory, row.place)
        self.connection.execute(notes.insert().values(**values, sealed=sealed))

    def change(self, **facts: Any) -> None:
        """Record that an output of a patient was replaced."""
        patient, night = self.store.tag("patient", facts["patient"]), self.store.night
        values = {"patient": patient, "night": night, "sealed": self.store._seal.close(facts, f"{patient} {night}")}
        self.connection.execute(self.store._tables[2].insert().values(**values))

    def forget(self, name: str) -> list[tuple[str, str]]:
        """Remove a patient's rows and changes; return name and place of each output that was or may be written.

        Names are those of this release. Raises ConfigError when no note of the patient is known.
        """
        patient = self.store.tag("patient", name)
        rows, changes = list(self.rows(patients=[patient])), self.store._changes(self.connection, patient)
        if not rows and not changes:
            raise ConfigError(f"{self.store.shown}: has no notes of this patient")
        held = [change.facts for change in changes if "outs" in change.facts]
        held += [{"note": row.memory["id"], "outs": row.memory.get("outs", ())} for row in rows]
        tags = {self.store.tag("note", facts["note"]) for facts in held}
        new = {row.memory["id"]: row.memory.get("new_id") for row in self.rows(tags=tags)}
        outs = {
            (str(facts["note"] if new.get(facts["note"]) is None else new[facts["note"]]), place)
            for facts in held
            for place in facts["outs"]
        }
        for table in self.store._tables[1:]:
            self.connection.execute(table.delete().where(table.c.patient == patient))
        return sorted(outs)


def is_url(place: str) -> bool:
    """Whether a project is in a database of its own server, and not in a folder."""
    return "://" in place


def _shown(place: str) -> str:
    # The URL of a database may hold a password.
    return "the project's database" if is_url(place) else place


def _connected(place: str, *, new: bool) -> tuple[Any, list[Any]]:
    """Return the engine and the tables. Raises ConfigError where there is no such folder, or no driver."""
    sa = sqlalchemy()
    url = place
    if not is_url(place):
        file = Path(place) / _FILE
        if new:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.touch(mode=0o600)
        elif not file.is_file():
            raise ConfigError(f"{place}: is not a project; `ensemble-deid project create` makes one")
        url = f"sqlite:///{file}"
    try:
        engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        raise ConfigError(f"the project's URL cannot be used ({type(error).__name__})") from None
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _set_up)
    return engine, _tables(sa)


def _set_up(connection: Any, _: Any) -> None:
    connection.execute(f"PRAGMA busy_timeout = {1000 * _WAIT}")
    # What is deleted is overwritten.
    connection.execute("PRAGMA secure_delete = ON")


def _tables(sa: Any) -> list[Any]:
    def column(name: str, kind: Any = sa.Text, *, null: bool = False, **options: Any) -> Any:
        return sa.Column(name, kind, nullable=null, **options)

    every = sa.MetaData()
    head = [column("id", sa.Integer, primary_key=True), *map(column, ("salt", "key"))]
    counts = [column("release", sa.Integer), column("night", sa.Integer), column("settings", null=True)]
    project = sa.Table("deid_project", every, *head, *counts, column("proof", sa.LargeBinary))
    known = [column("tag", primary_key=True), column("patient", index=True), column("input")]
    done = [column("output", null=True), *map(column, ("model", "made")), column("due", null=True)]
    done.append(column("night", sa.Integer))
    notes = sa.Table("deid_notes", every, *known, *done, column("sealed", sa.LargeBinary))
    place = [column("id", sa.Integer, primary_key=True, autoincrement=True), column("patient", index=True)]
    changes = sa.Table("deid_changes", every, *place, column("night", sa.Integer), column("sealed", sa.LargeBinary))
    return [project, notes, changes]


def _head(connection: Any, project: Any) -> Any:
    known = sqlalchemy().inspect(connection).has_table(project.name)
    return connection.execute(project.select()).one_or_none() if known else None


@contextmanager
def _errors() -> Iterator[None]:
    """Name no value where the database refuses."""
    try:
        yield
    except sqlalchemy().exc.SQLAlchemyError as error:
        raise CorpusError(f"the project's database refuses ({type(error).__name__})") from None

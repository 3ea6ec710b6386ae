"""The database of a project: what it keeps of notes, sealed with the project's key.

A database, SQLite or PostgreSQL, has a row for each note: HMACs by which the note, its patient and its text are known
again, what made its output, and a sealed record. Nothing in it can be read without the key, and nothing is text of a
note. One process at a time commits a night; the others wait for it.
"""

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ensemble_deid.corpora.tables.sql import sqlalchemy
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.keys import Key

HELD, RELEASE = "held", "the release is new"
"""Why a note is due that was not handed out yet, and one that was in an earlier release."""
_FILE = "project.db"
_NONCE = 12
_TOGETHER = 500
_WAIT = 600
_KNOWN = b"ensemble_deid project"
_NOT_OURS = "is not sealed with this key: give the --key-file of the project's release"


@dataclass(frozen=True, slots=True)
class KeptNote:
    """What is kept of one note; `due` says why it is to be handed out again.

    `output` is the hash of what was handed out, None where nothing was in this release. `memory` is sealed.
    """

    tag: str
    patient: str
    input: str
    memory: Mapping[str, Any] = field(repr=False)
    output: str | None = None
    model: str = ""
    due: str | None = None
    night: int = 0


@dataclass(frozen=True, slots=True)
class ReplacedOutput:
    """An output that another one replaced: of which note, why, and the hashes of both."""

    patient: str
    night: int
    facts: dict[str, Any] = field(repr=False)


class _Seal:
    """Seals records with AES-GCM under a key derived from the project's; each is bound to its place."""

    def __init__(self, key: Key, salt: str) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise ConfigError("projects need an extra: pip install 'ensemble_deid[project]'") from None
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
            if not sqlalchemy().inspect(connection).has_table("deid_project"):
                raise ConfigError(f"{_shown(self.place)}: is not a project; `ensemble-deid project create` makes one")
            self._read_head(connection)

    @classmethod
    def create(cls, place: str | Path, key: Key) -> "Store":
        """Make a new, empty project. Raises ConfigError where there is one already."""
        engine, (project, *_) = _connected(str(place), new=True)
        with _errors(), engine.begin() as connection:
            if sqlalchemy().inspect(connection).has_table("deid_project"):
                raise ConfigError(f"{_shown(str(place))}: is a project already")
            project.metadata.create_all(connection)
            salt = secrets.token_hex(16)
            head = {"id": 1, "salt": salt, "key": key.id, "release": 1, "night": 0, "settings": None}
            connection.execute(project.insert().values(**head, proof=_Seal(key, salt).close(None, "proof")))
        engine.dispose()
        return cls(place, key)

    def _read_head(self, connection: Any) -> None:
        found = connection.execute(self._tables[0].select()).one()
        if found.key != self.key.id:
            raise ConfigError(f"{_shown(self.place)}: {_NOT_OURS} (the release has the key {found.key})")
        self._salt, self._seal = found.salt, _Seal(self.key, found.salt)
        self._seal.open(found.proof, "proof")
        self.release: int = found.release
        self.night: int = found.night
        self.settings: dict[str, Any] | None = found.settings and json.loads(found.settings)

    def tag(self, kind: str, value: str) -> str:
        """Return the HMAC that stands for an id or a text."""
        return self.key.fingerprint(f"project {kind}", f"{self._salt}\n{value}".encode("utf-8", "surrogatepass"))[:32]

    def rows(self, *, tags: Iterable[str] | None = None, patients: Iterable[str] | None = None) -> Iterator[KeptNote]:
        """Yield the rows of notes, or of patients, by their tags; all rows where neither is given."""
        with self._reading() as connection:
            yield from self._rows(connection, tags=tags, patients=patients)

    def patients_with(self, least: int) -> set[str]:
        """Return the patients of whom at least so many notes are known."""
        notes, count = self._tables[1], sqlalchemy().func.count()
        query = sqlalchemy().select(notes.c.patient).group_by(notes.c.patient).having(count >= least)
        with self._reading() as connection:
            return set(connection.execute(query).scalars())

    def changes(self) -> list[ReplacedOutput]:
        """Return every output of this release that another one replaced, in order."""
        table = self._tables[2]
        with self._reading() as connection:
            found = list(connection.execute(table.select().order_by(table.c.id)))
        return [ReplacedOutput(row.patient, row.night, self._seal.open(row.sealed, row.patient)) for row in found]

    @contextmanager
    def night_commit(self, settings: dict[str, Any] | None = None) -> Iterator["Commit"]:
        """Provide the one transaction of a night; other processes wait until it ends.

        Raises ConfigError where the release, or its settings, are others by now.
        """
        project = self._tables[0]
        with _errors(), self._engine.begin() as connection:
            # The first statement writes, and so takes the lock that the whole transaction needs.
            mine = (project.c.key == self.key.id) & (project.c.release == self.release)
            done = connection.execute(project.update().where(mine).values(night=project.c.night + 1))
            if done.rowcount != 1:
                raise ConfigError(f"{_shown(self.place)}: another release was begun meanwhile")
            self._read_head(connection)
            if settings is not None:
                self.check_settings(settings)
                connection.execute(project.update().values(settings=json.dumps(settings, sort_keys=True)))
                self.settings = settings
            yield Commit(self, connection)

    def check_settings(self, settings: dict[str, Any]) -> None:
        """Raise ConfigError where the release was begun with other settings: its notes would not fit each other."""
        begun = self.settings or settings
        differing = sorted(name for name in settings.keys() | begun.keys() if settings.get(name) != begun.get(name))
        if differing:
            raise ConfigError(
                f"{_shown(self.place)}: release {self.release} was begun with other settings: {', '.join(differing)}; "
                "`project rotate-key` begins another release"
            )

    def rotate(self, new: Key) -> int:
        """Seal what is known with a new key, forget what was handed out, and return the number of the release.

        Raises ConfigError where the key is the old one.
        """
        if new.id == self.key.id:
            raise ConfigError("the new release needs another key: old and new could be joined")
        project, notes, changes = self._tables
        with self.night_commit() as commit:
            rows, connection = list(commit.rows()), commit.connection
            connection.execute(notes.delete())
            connection.execute(changes.delete())
            salt = secrets.token_hex(16)
            values = {"salt": salt, "key": new.id, "proof": _Seal(new, salt).close(None, "proof")}
            connection.execute(project.update().values(**values, release=self.release + 1, settings=None))
            self.key = new
            self._read_head(connection)
            for row in rows:
                kept = {name: row.memory[name] for name in ("id", "patient", "found") if name in row.memory}
                tags = self.tag("note", kept["id"]), self.tag("patient", kept["patient"])
                commit.put(KeptNote(*tags, "", kept, model=row.model, due=row.due if row.due == HELD else RELEASE))
        return self.release

    def _rows(
        self, connection: Any, *, tags: Iterable[str] | None, patients: Iterable[str] | None
    ) -> Iterator[KeptNote]:
        notes = self._tables[1]
        query = notes.select().order_by(notes.c.tag)
        column, wanted = (notes.c.patient, patients) if tags is None else (notes.c.tag, tags)
        listed = [None] if wanted is None else list(_portions(sorted(set(wanted))))
        for portion in listed:
            for row in list(connection.execute(query if portion is None else query.where(column.in_(portion)))):
                memory = self._seal.open(row.sealed, row.tag)
                made = {"output": row.output, "model": row.model, "due": row.due, "night": row.night}
                yield KeptNote(row.tag, row.patient, row.input, memory, **made)

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        with _errors(), self._engine.connect() as connection:
            yield connection


@dataclass(frozen=True, slots=True)
class Commit:
    """A night that is being committed: `rows` as they are now, also those of other processes."""

    store: Store
    connection: Any

    def rows(self, *, tags: Iterable[str] | None = None, patients: Iterable[str] | None = None) -> Iterator[KeptNote]:
        """Yield rows as `Store.rows` does."""
        return self.store._rows(self.connection, tags=tags, patients=patients)

    def put(self, row: KeptNote) -> None:
        """Keep a row in the place of the one with its tag."""
        notes = self.store._tables[1]
        self.connection.execute(notes.delete().where(notes.c.tag == row.tag))
        values = {name: getattr(row, name) for name in ("tag", "patient", "input", "output", "model", "due")}
        sealed = self.store._seal.close(row.memory, row.tag)
        self.connection.execute(notes.insert().values(**values, night=row.night or self.store.night, sealed=sealed))

    def mark(self, row: KeptNote, due: str | None) -> None:
        """Say why a note is to be handed out again, None for not at all."""
        notes = self.store._tables[1]
        self.connection.execute(notes.update().where(notes.c.tag == row.tag).values(due=due))

    def change(self, patient: str, **facts: Any) -> None:
        """Record that an output was replaced."""
        sealed = self.store._seal.close(facts, patient)
        values = {"patient": patient, "night": self.store.night, "sealed": sealed}
        self.connection.execute(self.store._tables[2].insert().values(**values))

    def forget(self, patient: str) -> None:
        """Remove all rows and changes of a patient."""
        for table in self.store._tables[1:]:
            self.connection.execute(table.delete().where(table.c.patient == patient))


def _portions(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[start : start + _TOGETHER] for start in range(0, len(values), _TOGETHER))


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
    done = [column("output", null=True), column("model"), column("due", null=True), column("night", sa.Integer)]
    notes = sa.Table("deid_notes", every, *known, *done, column("sealed", sa.LargeBinary))
    place = [column("id", sa.Integer, primary_key=True, autoincrement=True), column("patient", index=True)]
    changes = sa.Table("deid_changes", every, *place, column("night", sa.Integer), column("sealed", sa.LargeBinary))
    return [project, notes, changes]


@contextmanager
def _errors() -> Iterator[None]:
    """Name no value where the database refuses."""
    try:
        yield
    except sqlalchemy().exc.SQLAlchemyError as error:
        raise CorpusError(f"the project's database refuses ({type(error).__name__})") from None

"""Several tables of the same format, such as a folder of CSV files: one run over all, a file out for each."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ensemble_deid.corpora.records import NewRecord, NoteSource, OnOutput, Record, Writer
from ensemble_deid.corpora.tables.columns import Columns


@dataclass(slots=True)
class SeveralTables:
    """Tables in a folder, in the order in which they are read; `remarks` on files that are none of them."""

    folder: Path
    tables: Sequence[tuple[Path, NoteSource]]
    format: str
    remarks: Sequence[str] = ()

    @property
    def columns(self) -> Columns:
        """The columns of the tables, which are the same unless a record map has rules for each."""
        return next((found for _, table in self.tables if (found := getattr(table, "columns", None))), Columns())

    @property
    def authorities(self) -> set[str]:
        """The assigning authority of the patients' ids, which messages have in common."""
        return next(
            (found for _, table in self.tables if (found := getattr(table, "authorities", None)) is not None), set()
        )

    @property
    def bits(self) -> tuple[int, int]:
        """The smallest integers of any table, so that an id is the same in all."""
        ids, patients = zip(*(table.bits for _, table in self.tables), strict=True)
        return min(ids), min(patients)

    def count(self) -> int:
        return sum(table.count() for _, table in self.tables)

    def warnings(self) -> Sequence[str]:
        return [*self.remarks, *(warning for _, table in self.tables for warning in table.warnings())]

    def records(self) -> Iterator[Record]:
        """Yield the records of each table in turn, named by their table, too."""
        for number, (path, table) in enumerate(self.tables):
            name = path.relative_to(self.folder)
            for record in table.records():
                patient = record.patient if record.placeholder is None else record.placeholder
                yield replace(record, name=f"{name} {record.name}", raw=(number, record), patient=patient)

    @contextmanager
    def writer(self, out: Path, on_output: OnOutput) -> Iterator["_SeveralWriter"]:
        """Provide a writer into the folder `out`; each file is in place when the next begins, or the block ends."""
        with ExitStack() as stack:
            writer = _SeveralWriter(self, out, on_output, stack)
            yield writer
            writer.begin(len(self.tables))


@dataclass(slots=True)
class _SeveralWriter:
    source: SeveralTables
    out: Path
    on_output: OnOutput
    stack: ExitStack
    writer: Writer | None = None
    begun: int = 0

    def write(self, record: Record, new: NewRecord) -> None:
        number, own = record.raw
        self.begin(number + 1)
        if self.writer is not None:
            self.writer.write(own, new)

    def begin(self, number: int) -> None:
        """Have begun the first `number` tables, also those without records, and ended all but the last of them."""
        while self.begun < number:
            self.stack.close()
            path, table = self.source.tables[self.begun]
            place = self.out / path.relative_to(self.source.folder)
            self.writer = self.stack.enter_context(table.writer(place, self.on_output))
            self.begun += 1

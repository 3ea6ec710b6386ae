"""Which columns of a table hold what. A column that nobody has named may hold PHI, and is refused, or left out."""

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ensemble_deid.corpora.edits import BETWEEN, Edit, within
from ensemble_deid.corpora.record_map import Field, FieldKind, FieldRule, FieldRules
from ensemble_deid.corpora.records import NewRecord, Record, Value
from ensemble_deid.errors import ConfigError, CorpusError

ALL = "all"


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of a table's columns by what they hold; `keep` are to stay as they are, `("all",)` every other one.

    `date_order` is how numbers in `dates` are read: dmy, mdy or ymd; None where the values of each column show it.
    `more_texts` are texts that make up a note together with `text`, which may be None; `fields` are columns with a
    rule of a record map (`record_map.py`), `drop` are left out; the values of `row` differ from row to row. With
    `drop_rest`, all others are left out, too; with `optional`, the table may lack some of those named.

    >>> from ensemble_deid import Columns
    >>> Columns("body", id="note_id", patient="mrn", keep=("ward",)).treated
    ('body', 'note_id', 'mrn')
    """

    text: str | None = "text"
    id: str | None = None
    patient: str | None = None
    dates: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    date_order: str | None = None
    more_texts: tuple[str, ...] = ()
    fields: tuple[tuple[str, FieldRule], ...] = ()
    drop: tuple[str, ...] = ()
    row: str | None = None
    drop_rest: bool = False
    optional: bool = False

    def __post_init__(self) -> None:
        if len(set(self.treated)) < len(self.treated):
            raise ConfigError("a column is named for two purposes: text, id, patient and dates must differ")
        if not set(self.texts).isdisjoint(self.keep):
            raise ConfigError("the column of the text cannot be kept as it is")

    @classmethod
    def of_rules(
        cls, rules: FieldRules, given: "Columns | None" = None, *, drop_rest: bool = True, optional: bool = False
    ) -> "Columns":
        """Return the columns of a map; those `given` by options take precedence over its rules.

        The first pseudonym of a patient groups the rows. Raises ConfigError for a column with two purposes.
        """
        shown = given or cls(text=None)
        named_text = None if shown.text is None else rules.get(shown.text)
        if named_text is not None and named_text.kind is not FieldKind.TEXT:
            raise ConfigError(
                f"the column {shown.text} holds the notes: its rule can only be text (--text-column names another)"
            )
        named = {shown.id, shown.patient, *shown.dates, *shown.keep}
        left = {name: rule for name, rule in rules.items() if name not in named}
        texts = [name for name, rule in left.items() if rule.kind is FieldKind.TEXT]
        if given is not None and given.text not in (None, "text", *texts):
            texts.insert(0, str(given.text))
        patients = [name for name, rule in left.items() if rule.kind is FieldKind.PSEUDONYM and rule.of == "patient"]
        ids = [name for name, rule in left.items() if rule.kind is FieldKind.PSEUDONYM and rule.of == "note"]
        patient = shown.patient or next(iter(patients), None)
        id = shown.id or next(iter(ids), None)
        fields = [(name, rule) for name, rule in left.items() if name not in (*texts, patient, id)]
        return cls(
            text=next(iter(texts), None),
            id=id,
            patient=patient,
            dates=shown.dates,
            keep=(*shown.keep, *(name for name, rule in fields if rule.kind is FieldKind.KEEP)),
            date_order=shown.date_order,
            more_texts=tuple(texts[1:]),
            fields=tuple((name, rule) for name, rule in fields if rule.kind not in (FieldKind.KEEP, FieldKind.DROP)),
            drop=tuple(name for name, rule in fields if rule.kind is FieldKind.DROP),
            row=next((name for name, rule in left.items() if rule.row), None),
            drop_rest=drop_rest,
            optional=optional,
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of the note."""
        return () if self.text is None else (self.text, *self.more_texts)

    @property
    def treated(self) -> tuple[str, ...]:
        """The named columns whose values are replaced."""
        beside = (name for name in (self.id, self.patient, *self.dates) if name is not None)
        return (*self.texts, *beside, *(name for name, _ in self.fields))

    def written(self, names: Collection[str]) -> list[str]:
        """Return those of a table's columns that the output has."""
        kept = not self.drop_rest or ALL in self.keep
        named = (*self.treated, *self.keep)
        return [name for name in names if name not in self.drop and (kept or name in named)]

    def among(self, names: Sequence[str], place: str) -> "Columns":
        """Return the columns that a table has, where it may lack some; else check them. Raises as `check`."""
        if not self.optional:
            self.check(names, place)
            return self
        texts = [name for name in self.texts if name in names]
        found = replace(
            self,
            text=next(iter(texts), None),
            more_texts=tuple(texts[1:]),
            id=self.id if self.id in names else None,
            patient=self.patient if self.patient in names else None,
            row=self.row if self.row in names else None,
            keep=tuple(name for name in self.keep if name in (*names, ALL)),
            fields=tuple(pair for pair in self.fields if pair[0] in names),
            drop=tuple(name for name in self.drop if name in names),
        )
        found.check(names, place)
        return found

    def record(self, name: str, values: Mapping[str, Any], **rest: Any) -> Record:
        """Return the record of a row with these values."""
        texts = [str(values[column]) for column in self.texts if values.get(column) is not None]
        id, row = values.get(self.id or ""), values.get(self.row or "")
        if self.texts:
            # The id is one of a note, also where this row has none.
            key = None if texts or id is None else str(id)
        else:
            key = None if row is None else f"{self.row} {row}"
        return Record(
            name,
            BETWEEN.join(texts) if texts else None,
            id=id,
            key=key,
            patient=values.get(self.patient or ""),
            dates=tuple(values.get(column) for column in self.dates),
            fields=tuple(Field(column, rule, values.get(column)) for column, rule in self.fields),
            **rest,
        )

    def beside(self, record: Record, new: NewRecord) -> dict[str, tuple[Value, Value]]:
        """Return the old and the new value of each treated column but the texts."""
        found: dict[str, tuple[Value, Value]] = {}
        if self.id is not None:
            found[self.id] = record.id, new.id
        if self.patient is not None:
            # A placeholder stays.
            found[self.patient] = record.patient, new.patient
        found |= {name: (old, now) for name, old, now in zip(self.dates, record.dates, new.dates, strict=False)}
        fields = (field.value for field in record.fields)
        pairs = zip(self.fields, fields, new.fields or [None] * len(self.fields), strict=False)
        return found | {name: (old, now) for (name, _), old, now in pairs}

    def edits(self, values: Mapping[str, Any], edits: Sequence[Edit] | None) -> dict[str, list[Edit] | None]:
        """Return the edits of each text that a row has; None where it is withheld."""
        found: dict[str, list[Edit] | None] = {}
        start = 0
        for name in self.texts:
            if values.get(name) is not None:
                end = start + len(str(values[name]))
                found[name] = None if edits is None else within(edits, start, end)
                start = end + len(BETWEEN)
        return found

    def keeps(self, name: str | None) -> bool:
        """Whether a column that has a purpose is to stay as it is nevertheless; `all` means the other columns only."""
        return name is not None and name in self.keep

    def check(self, names: Sequence[str], place: str) -> None:
        """Raise CorpusError where a named column is missing, or one may hold PHI that nobody would look for."""
        if len(set(names)) < len(names):
            raise CorpusError(f"{place}: two columns have the same name")
        missing = [name for name in (*self.treated, *self.keep, *self.drop) if name not in names and name != ALL]
        if missing:
            # The table's own columns are not listed: where there is no header, its first row is one of values.
            close = difflib.get_close_matches(missing[0], names, n=1)
            meant = f"did you mean {close[0]}?" if close else "the first row must name the columns"
            raise CorpusError(f"{place}: has no column named {', '.join(missing)} ({meant})")
        if self.drop_rest and not self.texts and "text" in names and not {"text", ALL} & {*self.drop, *self.keep}:
            raise CorpusError(f"{place}: the map does not name the column text: give it the kind text")
        if not self.written(names):
            raise CorpusError(f"{place}: has none of the columns that the map names")
        if ALL in self.keep or self.drop_rest:
            return
        unnamed = [name for name in names if name not in (*self.treated, *self.keep, *self.drop)]
        if unnamed:
            raise CorpusError(
                f"{place}: nothing says what the columns {', '.join(unnamed)} hold, and they may hold PHI: name them "
                "with --id-column, --patient-column or --date-columns to replace them, or with --keep-columns to hand "
                "them out as they are (--keep-columns all: every other column), or give a --map"
            )

"""Which columns of a table hold what. A column that nobody has named may hold PHI, and is refused."""

from collections.abc import Sequence
from dataclasses import dataclass

from ensemble_deid.errors import ConfigError, CorpusError

ALL = "all"


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of a table's columns by what they hold; `keep` are to stay as they are, `("all",)` every other one.

    `date_order` is how numbers in `dates` are read: dmy, mdy or ymd; None where the values of each column show it.

    >>> from ensemble_deid import Columns
    >>> Columns("body", id="note_id", patient="mrn", keep=("ward",)).treated
    ('body', 'note_id', 'mrn')
    """

    text: str = "text"
    id: str | None = None
    patient: str | None = None
    dates: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    date_order: str | None = None

    def __post_init__(self) -> None:
        named = [name for name in (self.text, self.id, self.patient, *self.dates) if name is not None]
        if len(set(named)) < len(named):
            raise ConfigError("a column is named for two purposes: text, id, patient and dates must differ")
        if self.text in self.keep:
            raise ConfigError("the column of the text cannot be kept as it is")

    @property
    def treated(self) -> tuple[str, ...]:
        """The named columns whose values are replaced."""
        return tuple(name for name in (self.text, self.id, self.patient, *self.dates) if name is not None)

    def keeps(self, name: str | None) -> bool:
        """Whether a column that has a purpose is to stay as it is nevertheless; `all` means the other columns only."""
        return name is not None and name in self.keep

    def check(self, names: Sequence[str], place: str) -> None:
        """Raise CorpusError where a named column is missing, or one may hold PHI that nobody would look for."""
        if len(set(names)) < len(names):
            raise CorpusError(f"{place}: two columns have the same name")
        missing = [name for name in (*self.treated, *self.keep) if name not in names and name != ALL]
        if missing:
            # The table's own columns are not listed: where there is no header, its first row is one of values.
            raise CorpusError(
                f"{place}: has no column named {', '.join(missing)} (the first row must name the columns)"
            )
        if ALL in self.keep:
            return
        unnamed = [name for name in names if name not in self.treated and name not in self.keep]
        if unnamed:
            raise CorpusError(
                f"{place}: nothing says what the columns {', '.join(unnamed)} hold, and they may hold PHI: name them "
                "with --id-column, --patient-column or --date-columns to replace them, or with --keep-columns to hand "
                "them out as they are (--keep-columns all: every other column)"
            )

"""The table of submodels: all that the rest of the package knows about each of them.

To add a submodel, add its folder under `taggers/`, its section in `config_sections.py`, a field of `Config` with the
submodel's name, and a row here. `tests/test_taggers_common.py` then checks it against the contract of
`taggers/base.py`.
"""

import re
from dataclasses import dataclass

from ensemble_deid.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Submodel:
    """A row of the table.

    `class_path` is `module:Class`, imported only when the submodel is used. `relative_cost` is its training time per
    note, in arbitrary units. The flags say:
    - `has_marginals`: its scores are probabilities computed from the model itself, not counts of past successes.
    - `stops_early_on_dev`: its training uses dev notes to choose when to stop.
    - `feeds_others`: its output is also a feature of other submodels, as the matches of the patterns are.
    - `reads_only_table`: it learns from the feature table and not from the notes' text, so that a closed vocabulary
      covers it (docs/models.md); only such submodels may be in a shareable model.
    - `starts_from_model`: it can continue from a trained one (`start` of `FitOptions`).
    - `has_compact_form`: its files can be made smaller (`CompactableTagger.compact_saved`).
    - `if_named`: it is used only when it is named.
    """

    name: str
    class_path: str
    relative_cost: float
    has_marginals: bool = False
    stops_early_on_dev: bool = False
    feeds_others: bool = False
    reads_only_table: bool = False
    starts_from_model: bool = False
    has_compact_form: bool = False
    if_named: bool = False


SUBMODELS = (
    Submodel("regex", "ensemble_deid.taggers.regex:RegexTagger", 0.05, feeds_others=True, reads_only_table=True),
    Submodel(
        "tbed", "ensemble_deid.taggers.tbed.tagger:TbedTagger", 0.2, reads_only_table=True, starts_from_model=True
    ),
    Submodel(
        "crf",
        "ensemble_deid.taggers.crf.tagger:CrfTagger",
        2.0,
        has_marginals=True,
        reads_only_table=True,
        has_compact_form=True,
    ),
    Submodel(
        "neural",
        "ensemble_deid.taggers.neural.tagger:NeuralTagger",
        3.0,
        has_marginals=True,
        stops_early_on_dev=True,
        reads_only_table=True,
        starts_from_model=True,
        has_compact_form=True,
    ),
    Submodel(
        "transformer",
        "ensemble_deid.taggers.transformer.tagger:TransformerTagger",
        12.0,
        has_marginals=True,
        starts_from_model=True,
        has_compact_form=True,
        if_named=True,
    ),
)
"""Every submodel, in the order in which they appear in models, tables and feature columns."""

BY_NAME = {row.name: row for row in SUBMODELS}
NAMES = tuple(BY_NAME)
MEMBER = re.compile("[a-z][a-z0-9_]{0,30}")
"""What another system may be called as a member of the stack."""
_TAKEN = (*NAMES, "net", "token", "ensemble", "all")


def check_member_name(name: str) -> None:
    """Raise ConfigError where another system cannot have this name, which figures give to something else."""
    if MEMBER.fullmatch(name) is None or name in _TAKEN:
        raise ConfigError(f"a member cannot be called {name!r}: small letters, digits and _, and no submodel's name")


def row_of(name: str) -> Submodel:
    """Return the row of a submodel, or that of a member whose spans are given (`taggers/given.py`)."""
    return BY_NAME.get(name) or Submodel(name, "", 0.01, reads_only_table=True)


DEFAULT = tuple(row.name for row in SUBMODELS if not row.if_named)
"""What a configuration has unless it says otherwise."""

"""A transformation rule: where its conditions hold, one tag becomes another."""

from dataclasses import dataclass, field

from ensemble_deid.errors import RuleError
from ensemble_deid.features.windows import Window
from ensemble_deid.taggers.tbed.templates import MAX_OFFSET, Template


@dataclass(frozen=True, slots=True)
class Condition:
    """A window and the value that at least one of its places must have. The value may be text of a note.

    Raises RuleError when the window reaches beyond four tokens.
    """

    window: Window
    value: str = field(repr=False)

    def __post_init__(self) -> None:
        self.window.check_reach(MAX_OFFSET)


@dataclass(frozen=True, slots=True)
class Rule:
    """Change `from_tag` to `to_tag` wherever all conditions hold, at all such places of the text at once.

    `fixed` and `broken` count the wrong tags put right and the right tags put wrong when the rule was learned.
    Raises RuleError when the rule changes nothing, or has no condition, or a count is negative.
    """

    from_tag: str
    to_tag: str
    conditions: tuple[Condition, ...]
    fixed: int = 0
    broken: int = 0

    def __post_init__(self) -> None:
        if self.from_tag == self.to_tag:
            raise RuleError("a rule must change the tag to another tag")
        if self.fixed < 0 or self.broken < 0:
            raise RuleError("the counts of fixed and broken tags cannot be negative")
        if not self.conditions:
            raise RuleError("a rule needs at least one condition")

    @property
    def score(self) -> int:
        """Errors fixed less right tags broken: what the learner maximises."""
        return self.fixed - self.broken

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the two tags, where they are BIO tags; `O` has none."""
        return tuple(label for tag in (self.from_tag, self.to_tag) if (label := tag.partition("-")[2]))

    @property
    def template(self) -> Template:
        """The windows of the conditions, without their values."""
        return Template(tuple(condition.window for condition in self.conditions))

    @property
    def identity(self) -> tuple[str, str, tuple[Condition, ...]]:
        """What the rule does, whatever it was counted to fix or break."""
        return (self.from_tag, self.to_tag, self.conditions)

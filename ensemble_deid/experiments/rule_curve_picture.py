"""The picture of F1 against the number of rules (needs the extra `plot`)."""

import io
from collections.abc import Sequence
from pathlib import Path

from ensemble_deid.atomic import write_bytes_atomically
from ensemble_deid.errors import ConfigError
from ensemble_deid.experiments.rule_curve import CurvePoint


def draw_curve(points: Sequence[CurvePoint], path: Path) -> None:
    """Write the curves of train and, where it was measured, dev as a PNG. Raises ConfigError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("drawing needs matplotlib: pip install 'ensemble_deid[plot]'") from None
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    rules = [point.rules for point in points]
    for name, values in (
        ("train", [point.train_f1 for point in points]),
        ("dev", [point.dev_f1 for point in points]),
    ):
        defined = [(k, 100 * value) for k, value in zip(rules, values, strict=True) if value is not None]
        if defined:
            axes.step(*zip(*defined, strict=True), where="post", label=name)
    axes.set_xlabel("rules applied")
    axes.set_ylabel("strict entity F1 (%)")
    axes.set_title("The rule list, rule by rule")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    picture = io.BytesIO()
    # Without the library's version in the file, the same curve is the same bytes.
    figure.savefig(picture, format="png", dpi=150, metadata={"Software": None})
    write_bytes_atomically(path, picture.getvalue())

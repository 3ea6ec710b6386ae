"""How to read the report: definitions and keys."""

from ensemble_deid.evaluation.render.html.markup import Html, element
from ensemble_deid.evaluation.render.html.tables import section
from ensemble_deid.evaluation.views import VIEWS

_TERMS: tuple[tuple[str, str], ...] = (
    ("Precision (PPV)", "of what the system gave, the share that is right"),
    ("Recall (sensitivity)", "of what is gold, the share that the system found"),
    ("F1", "2 TP / (2 TP + FP + FN)"),
    ("Undefined", "there was nothing to divide by; it is neither 0 nor 1"),
    ("Interval", "from resampling patients with all their notes, because one patient's annotations are alike"),
    ("Missed", "depends on the unit: see “Missed, unit by unit” in the summary, which defines each figure"),
    ("Leak", "a letter or digit of gold PHI that no annotation of the system covers, whatever its label"),
    ("At most", "a rate this high would show as few leaks, or fewer, in one sample of twenty (Clopper-Pearson)"),
    ("Score", "the system's confidence in an annotation, from 0 to 1"),
)


def guide() -> Html:
    """Define what stands on the page, and name the keys."""
    views = [(view.name, view.definition) for view in VIEWS.values()]
    items = [part for term, meaning in (*_TERMS, *views) for part in (element("dt", term), element("dd", meaning))]
    return section(
        "guide",
        "How to read this page",
        element("dl", *items),
        element(
            "p",
            "Keys: ",
            element("kbd", "j"),
            " and ",
            element("kbd", "k"),
            " go to the next and the previous error, ",
            element("kbd", "Esc"),
            " closes a note.",
            class_="soft screen",
        ),
    )

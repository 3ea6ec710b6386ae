"""Two documents from the record of a release, at most four pages each: for an expert, and for Safe Harbor and GDPR.

They say what the record says, and what a person must still judge. 45 CFR 164.514(b)(1) asks an expert for a very small
risk and a documented method; (b)(2) lists 18 identifiers and asks that nobody knows better; recital 26 of the GDPR asks
whether a person can be singled out, linked or inferred with means that are reasonably likely to be used.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from ensemble_deid.audit.figures import kept_by_policy
from ensemble_deid.audit.release import styles_of
from ensemble_deid.audit.residual import SMALL
from ensemble_deid.deidentify.gate import ACCEPTED, CHANGED
from ensemble_deid.deidentify.replacement.styles import Styles
from ensemble_deid.evaluation.render.html.markup import Html, element, static_page
from ensemble_deid.evaluation.render.pdf import pdf_of
from ensemble_deid.evaluation.render.results import Heading, Table
from ensemble_deid.note.digits import percent
from ensemble_deid.note.labels import DIRECT, QUASI

DocumentKind = Literal["expert", "safe-harbor"]
Part = str | Heading | Table
NOT_MEASURED = "not measured for this version"
TITLES: Mapping[DocumentKind, str] = {
    "expert": "Record for an expert determination, 45 CFR 164.514(b)(1)",
    "safe-harbor": "Safe Harbor, 45 CFR 164.514(b)(2), and GDPR: coverage",
}
_MOST_LISTED = 12
_ALL = "all"
_STYLE = (
    "body{font:15px/1.5 sans-serif;margin:2em;max-width:60em}table{border-collapse:collapse;margin:1em 0}"
    "caption{text-align:left;font-weight:bold}th,td{padding:.2em .7em;border-bottom:1px solid #ccc;text-align:left;"
    "vertical-align:top}@media print{table{break-inside:avoid}}"
)
# What Safe Harbor lets stay of these labels, by style.
_ALLOWED = {"DATE": "year", "AGE": "cap-age", "ZIP": "zip3", "STATE": "keep", "COUNTRY": "keep"}
_SAFE_HARBOR_QUASI = ("places", "dates", "ages")
_REMOVING = ("tag", "numbered", "mask", "remove")


def release_document(kind: DocumentKind, record: Mapping[str, Any], signer: str) -> tuple[str, bytes]:
    """Return a document as HTML and as PDF; `signer` is the name or the fingerprint of the key."""
    parts = [*_head(record, signer), *(_expert(record) if kind == "expert" else _safe_harbor(record))]
    body: list[Html] = [element("h1", TITLES[kind])]
    for part in parts:
        tag = "h2" if isinstance(part, Heading) else "p"
        body.append(part.to_html() if isinstance(part, Table) else element(tag, part))
    page = static_page(TITLES[kind], element("body", *body), style=_STYLE)
    return page, pdf_of(TITLES[kind], parts)


def open_points(record: Mapping[str, Any]) -> list[tuple[str, bool | None, str]]:
    """Return the checklist: each point, whether it holds (None: a person judges), and what the record says of it."""
    run, model, audit = record["run"], record["model"], record["audit"]
    figures, design, counts = audit["figures"], audit["design"], run["counts"]
    (worst,) = [r for r in figures["rates"] if r["name"] == "any direct identifier" and r["of"] == f"{design['unit']}s"]
    passed = {name: n for name, n in counts.items() if name.startswith(ACCEPTED)}
    residual = record["residual"]
    together = None if residual is None else residual["rows"][-1]
    bound, upper = design["bound"], worst["upper"]
    return [
        ("No note passed the gate by accept_unfit", not passed, f"{sum(passed.values())} passed"),
        ("Withheld notes are understood", None if counts["withheld"] else True, f"{counts['withheld']} withheld"),
        ("The model is as it was measured", CHANGED not in counts, model["threshold_chosen"]),
        (
            "The model's training notes are known",
            design["fingerprints"],
            f"{design['left_out']} notes left out" if design["fingerprints"] else "it keeps no digests of them",
        ),
        ("The whole sample was read", figures["complete"], f"{figures['units']} of {design['drawn_units']} read"),
        ("A third person settled differences", bool(figures["adjudicator"]), figures["adjudicator"] or "not named"),
        (
            f"Direct identifiers: at most {percent(bound)} of {design['unit']}s",
            upper is not None and upper <= bound,
            f"found in {worst['leaking']} of {worst['total']}; bound {percent(upper)}",
        ),
        (
            "Attacks on missed PHI measured for this model",
            record["attacks"] is not None,
            NOT_MEASURED if record["attacks"] is None else "see below",
        ),
        (
            f"Groups below {SMALL} patients are acceptable",
            None if together is None or together["in_small_groups"] else True,
            "not counted" if together is None else f"{together['in_small_groups']} patients in such groups",
        ),
        ("What has no label is acceptable (rare diagnoses and the like)", None, "not counted by this software"),
    ]


def _head(record: Mapping[str, Any], signer: str) -> Iterator[Part]:
    decision = record["decision"]
    made = "Approved for release" if decision["decision"] == "approve" else "Refused"
    yield f"{made} by {decision['by']}, {decision['role']}, on {decision['day']}. Signed with the key {signer}."
    for number, condition in enumerate(decision["conditions"], start=1):
        yield f"Condition {number}: {condition}"
    run, model = record["run"], record["model"]
    design, figures, styles = record["audit"]["design"], record["audit"]["figures"], run["settings"]["styles"]
    rows = [
        ("Run (last hash of its manifest)", run["head"]),
        ("Notes", _counts(run["counts"])),
        ("Model", f"{model['name']}, checksum {model['checksum']}"),
        ("Rules", "none" if model["rules"] is None else f"{model['rules']}; approved: {model['rules_approved']}"),
        ("Threshold", model["threshold_chosen"]),
        ("Gate", ", ".join(f"{name} {value}" for name, value in run["settings"]["gate"].items())),
        ("Policy", ", ".join([f"default {styles['default']}", *(f"{k} {v}" for k, v in styles["by_label"].items())])),
        ("Audit (plan, readings)", f"{design['digest']}, {figures['readings']}"),
    ]
    yield Table("What this record ties together.", ("", ""), tuple(rows))
    words = {True: "yes", False: "OPEN", None: "a person judges"}
    points = tuple((point, words[holds], said) for point, holds, said in open_points(record))
    yield Table("Checklist.", ("Point", "Holds", "Record"), points)


def _expert(record: Mapping[str, Any]) -> Iterator[Part]:
    design, figures = record["audit"]["design"], record["audit"]["figures"]
    yield Heading("Remaining PHI: the audit")
    strata = f", in strata by {' and '.join(design['by'])}" if design["by"] else ""
    yield (
        f"{design['drawn_units']} of {design['frame_units']} {design['unit']}s were drawn at random (seed "
        f"{design['seed']}{strata}) before any was read; {design['left_out']} notes that the model had seen were left "
        f"out. {' and '.join(figures['readers'])} read {figures['notes']} notes independently (strict F1 of their "
        f"agreement {percent(figures['agreement'])}); {figures['adjudicator'] or 'nobody named'} settled differences. "
        f"Bounds are upper bounds with {100 * figures['confidence']:g}% confidence each. Not counted: "
        f"{kept_by_policy(design['kept_labels'])}."
    )
    yield _rates("Left in the release.", [*figures["rates"], *figures["direct"], *figures["quasi"]])
    if figures["subgroups"]:
        yield _rates("Any direct identifier, by subgroup.", figures["subgroups"])
    hidden = figures["hidden"]
    if hidden is not None:
        yield f"PHI that both readers missed: about {hidden['chapman']:.1f} beside {hidden['marked']} (Chapman)."
    yield Heading("What stays: quasi-identifiers")
    yield from _residual(record["residual"])
    yield Heading("Attacks on missed PHI")
    if styles_of(record["run"]["settings"]).default in _REMOVING:
        yield "This release has tags, so missed PHI stands out without any attack. With surrogates:"
    yield from _attacks(record["attacks"])
    yield Heading("What the expert judges")
    yield (
        "Who will receive the data, what they can link it with, and whether the risk is very small in that setting; "
        "whether the sample is like the data to be released; what the data says without naming anybody; for how long "
        "this determination holds. Figures of one release do not carry over to the next."
    )


def _safe_harbor(record: Mapping[str, Any]) -> Iterator[Part]:
    named = styles_of(record["run"]["settings"])
    figures = record["audit"]["figures"]
    found = {row["name"]: row for row in (*figures["direct"], *figures["quasi"])}
    yield Heading("The 18 identifiers")
    groups = [*DIRECT.items(), *((name, QUASI[name]) for name in _SAFE_HARBOR_QUASI)]
    rows = tuple((name, *_treated(named, labels), _left(found.get(name))) for name, labels in groups)
    yield Table(
        "How the run treated each, and what the audit found left.",
        ("Identifier", "Style", "Safe Harbor", "Left in the sample"),
        rows,
    )
    yield (
        "Photographs cannot be in a text. The rule is met only where every such identifier is removed: a model misses "
        "some, and the audit bounds how many. Columns and fields that the run kept are not checked by a model."
    )
    yield Heading("What a person must settle for Safe Harbor")
    yield (
        "That nobody who releases the data knows how the rest could identify a patient (actual knowledge); that codes "
        "and pseudonyms are not derived from identifiers, and their key is not released (164.514(c)); that shifted "
        "dates, where used, rest on an expert determination instead."
    )
    yield Heading("GDPR")
    yield Table("Recital 26 and the working party's opinion 05/2014.", ("Risk", "What this record says"), _gdpr(record))
    yield (
        "While the key exists, the data is pseudonymised (article 4(5)) and stays personal data. A person settles the "
        "legal basis, the impact assessment (article 35), the contract with recipients, retention, and whether the "
        "data is anonymous for a given recipient."
    )
    yield Heading("What stays: quasi-identifiers")
    yield from _residual(record["residual"])


def _rates(caption: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    cells = tuple(
        (
            f"{row['name']}, {row['of']}",
            f"{row['leaking']} of {row['total']}",
            percent(row["rate"]),
            percent(row["upper"]),
            f"{row['missed']} of {row['annotations']}",
        )
        for row in rows
    )
    return Table(caption, ("", "Found", "Rate", "Bound", "PHI missed"), cells)


def _residual(residual: Mapping[str, Any] | None) -> Iterator[Part]:
    if residual is None:
        yield "Not counted: the output is in no file."
        return
    yield (
        f"{residual['patients']} patients with {residual['notes']} notes. k is how many patients share the same values "
        "of a kind (a note of an unknown patient counts as one patient)."
    )
    rows = tuple(
        (row["kind"], str(row["patients"]), str(row["groups"]), str(row["alone"]), str(row["in_small_groups"]))
        for row in residual["rows"]
    )
    yield Table("By kind.", ("Kind", "Patients", "Groups", "Alone (k = 1)", f"k below {SMALL}"), rows)
    if residual["smallest"]:
        listed = "; ".join(f"k = {k}: {', '.join(ids)}" for k, ids in residual["smallest"][:_MOST_LISTED])
        more = residual["unlisted"] + sum(k for k, _ in residual["smallest"][_MOST_LISTED:])
        yield f"Smallest groups of all kinds together: {listed}{f'; and {more} more patients' if more else ''}."
    yield f"Not counted: {'; '.join(residual['not_counted'])}."


def _attacks(attacks: Mapping[str, Any] | None) -> Iterator[Part]:
    if attacks is None:
        yield f"{NOT_MEASURED[0].upper()}{NOT_MEASURED[1:]}: how many misses an attacker picks out is open."
        return
    rows = []
    for category, found in attacks["exposure"].items():
        ordered = sorted(found["attacks"].items(), key=lambda item: -(item[1]["picked"]["value"] or 0))
        for name, attack in ordered if category == _ALL else ordered[:1]:
            picked, chance = percent(attack["picked"]["value"]), percent(found["chance"])
            rows.append((category, name, f"{found['missed']}", picked, chance))
    caption = "Misses that an attacker picks out among surrogates; for each category, the strongest attack."
    yield Table(caption, ("PHI", "Attack", "Missed", "Picked out", "By guessing"), tuple(rows))


def _treated(styles: Styles, labels: Sequence[str]) -> tuple[str, str]:
    """Return the styles of labels, and whether they meet the rule."""
    used = {label: styles.of(label) for label in labels}
    different = sorted(set(used.values()))
    text = different[0] if len(different) == 1 else ", ".join(f"{label} {style}" for label, style in used.items())
    if all(style in _REMOVING or style == _ALLOWED.get(label) for label, style in used.items()):
        return text, "as the rule asks"
    if all(styles.hides(label) or style == _ALLOWED.get(label) for label, style in used.items()):
        dated = "DATE" in labels
        return text, "shifted: not Safe Harbor alone" if dated else "a person judges: codes or surrogates"
    return text, "NO: it stays"


def _left(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "none in the sample"
    return f"{row['leaking']} of {row['total']}, bound {percent(row['upper'])}"


def _gdpr(record: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    residual, settings = record["residual"], record["run"]["settings"]
    together = None if residual is None else residual["rows"][-1]
    single = (
        "not counted"
        if together is None
        else f"{together['alone']} of {together['patients']} patients are alone with what stays of them (k = 1)"
    )
    scope = f"scope {settings['scope']!r}" if settings["scope"] else "no scope"
    return (
        ("Singling out", single),
        ("Linking", f"key {settings['key']}, {scope}: releases of the same key and scope have the same pseudonyms"),
        ("Inference", "what a note says of a known patient; not measured"),
    )


def _counts(counts: Mapping[str, int]) -> str:
    """Return the counts of notes, written and withheld first."""
    first = [name for name in ("written", "withheld") if name in counts]
    return ", ".join(f"{counts[name]} {name}" for name in [*first, *(name for name in counts if name not in first)])

"""`audit release`: sign what is to be said of a release, with its two documents; and verify such a record."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.atomic import write_files_atomically
from ensemble_deid.cli.options import CommandParser, add_command, add_model, add_repeatable, add_signing_key
from ensemble_deid.cli.sources import check_out_files
from ensemble_deid.cli.terminal import say
from ensemble_deid.deidentify.outputs import refuse_output_files

if TYPE_CHECKING:
    from ensemble_deid.audit.documents import DocumentKind

_FORMS = (".json",)
_KINDS: "tuple[DocumentKind, ...]" = ("expert", "safe-harbor")
_DOCUMENTS = tuple(f"{kind}{form}" for kind in _KINDS for form in (".html", ".pdf"))


def add_commands(actions: Any) -> None:
    release = add_command(
        actions, "release", run_release, example="r m --audit a --sign k --by A --role X --decision refuse --out r.json"
    )
    release.add_argument("run_folder", metavar="RUN", type=Path, help="the folder of the run")
    add_model(release, help="the model of the run")
    release.add_argument("--audit", metavar="AUDIT", type=Path, required=True, help="the folder of `audit plan --out`")
    add_signing_key(release, "--sign")
    release.add_argument("--by", metavar="NAME", required=True, help="who decides")
    release.add_argument("--role", metavar="ROLE", required=True, help="in which role")
    release.add_argument("--decision", choices=("approve", "refuse"), required=True, help="the decision")
    add_repeatable(release, "--condition", "TEXT", "a condition of the decision; repeatable")
    release.add_argument("--adjudicator", metavar="NAME", default="", help="who settled the readers' differences")
    release.add_argument(
        "--attacks",
        metavar="FILE",
        type=Path,
        help="figures of `research exposure` for this model; default: those in its package",
    )
    release.add_argument("--date", metavar="YYYY-MM-DD", help="the day; default: SOURCE_DATE_EPOCH, or today")
    release.add_argument(
        "--out", metavar="FILE.json", type=Path, required=True, help="the record; the documents are beside it"
    )


def add_verify_options(verify: CommandParser) -> None:
    """Add what `verify` needs for a record whose folders were moved."""
    verify.add_argument("--run", metavar="DIR", type=Path, dest="run_folder", help="record: its run, if moved")
    verify.add_argument("--audit", metavar="AUDIT", type=Path, help="record: its audit, likewise")
    add_model(verify, "--model", dest="model_folder", help="record: its model, likewise")


def run_release(options: argparse.Namespace) -> None:
    """Sign the record of a release, and write its two documents."""
    from ensemble_deid.audit.documents import open_points, release_document
    from ensemble_deid.audit.record import ReleaseDecision, ReleasePlaces, document_beside, make_record, write_record
    from ensemble_deid.cli.report_facts import report_day
    from ensemble_deid.keys import SigningKey, key_fingerprint

    beside = {name: document_beside(options.out, name) for name in _DOCUMENTS}
    inputs = (options.run_folder, options.model, options.audit, options.signing_key, options.attacks)
    check_out_files([options.out], _FORMS, *inputs)
    refuse_output_files(beside.values(), *inputs)
    key, places = (
        SigningKey.from_file(options.signing_key),
        ReleasePlaces(options.run_folder, options.audit, options.model),
    )
    decision = ReleaseDecision(
        by=options.by,
        role=options.role,
        day=report_day(options.date),
        decision=options.decision,
        conditions=options.condition,
    )
    record = make_record(places, decision, adjudicator=options.adjudicator, attacks=options.attacks)
    documents: dict[str, bytes] = {}
    for kind in _KINDS:
        page, pdf = release_document(kind, record, key_fingerprint(key.public))
        documents |= {f"{kind}.html": page.encode("utf-8"), f"{kind}.pdf": pdf}
    signed = write_record(record, places, options.out, key, documents=documents).encode("ascii")
    write_files_atomically({options.out: signed} | {beside[name]: content for name, content in documents.items()})
    for point, holds, said in open_points(record):
        if not holds:
            say(f"{'open' if holds is False else 'for a person'}: {point} ({said})")
    say(f"{options.out} is signed with the key {key_fingerprint(key.public)}; its documents are beside it")


def verify_release(options: argparse.Namespace, trust: Path) -> None:
    """Check a record; a ConfigError, ModelError or CorpusError says what is wrong."""
    from ensemble_deid.audit.record import verify_record
    from ensemble_deid.keys import TrustedKeys

    moved = {"run": options.run_folder, "audit": options.audit, "model": options.model_folder}
    found = verify_record(options.model, TrustedKeys.from_file(trust), moved)
    decision = found.facts["decision"]
    say(f"{options.model}: {decision['decision']}, by {decision['by']}, {decision['role']}, on {decision['day']}")
    say(f"signed by {found.signer}; run, outputs, model, audit and documents match; all figures were recomputed")
    for document in found.missing:
        say(f"missing beside it, so not checked: {document.name}")

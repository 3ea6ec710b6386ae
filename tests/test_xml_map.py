"""XML with a record map: what has no rule is left out, one surrogate in element and text."""

from pathlib import Path

import pytest
from made_keys import KEY

from ensemble_deid import RecordMap
from ensemble_deid.audit.residual import residual_risk
from ensemble_deid.cli.main import main
from ensemble_deid.corpora.messages.xml import read_xml
from ensemble_deid.corpora.record_map import FieldKind, FieldRule, FieldRules
from ensemble_deid.deidentify.manifest import verify_run
from ensemble_deid.errors import CorpusError

SECRET, MRN = "Quillfeather", "M7001234"
MAP = """
[xml]
"patientRole.id@extension" = { kind = "pseudonym", of = "patient" }
"patientRole.addr" = "address"
"patientRole.telecom@value" = "phone"
"patient.name" = "patient"
"patient.birthTime@value" = { kind = "date", of = "birth" }
"assignedPerson.name" = "staff"
"effectiveTime@value" = "date"
"section.code@code" = "codes"
"section.text" = "text"
"section.title" = "text"
"ward" = "keep"
"secret.ward" = "drop"
"""
CDA = f"""<?xml version="1.0" encoding="UTF-8"?>
<?style {SECRET}?>
<ClinicalDocument xmlns="urn:hl7-org:v3" xmlns:x="urn:{SECRET}"><!-- {SECRET} -->
 <id root="{SECRET}"/><effectiveTime value="20190304101500-0500"/><ward>3 &amp; 4</ward>
 <recordTarget><patientRole><id extension="{MRN}" root="1.2.{SECRET}"/>
  <addr><streetAddressLine>12 Oak St</streetAddressLine><city>Lyndale</city><county>{SECRET}</county></addr>
  <telecom value="617-555-0142" use="{SECRET}"/>
  <patient><name><prefix>{SECRET}</prefix><given>Anna</given><family>Bell</family></name>
  <birthTime value="19500305"/></patient></patientRole></recordTarget>
 <author><assignedPerson><name>Peter Irons</name></assignedPerson></author>
 <x:component><section ID="{SECRET}"><code code="11506-3" codeSystem="2.16.840.1.113883.6.1" displayName="{SECRET}"/>
  <title>Visit of Anna Bell</title><secret><ward>{SECRET}</ward></secret>
  <text><paragraph ID="{SECRET}">Anna Bell ({MRN}), born 3/5/1950, <b>617.555.0142</b>.</paragraph>
  <{SECRET}>Seen by Dr. Peter Irons &lt; 3.</{SECRET}><![CDATA[Ms. Bell is well.]]></text></section></x:component>
</ClinicalDocument>"""


def test_a_clinical_document(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.xml").write_text(CDA)
    (tmp_path / "m.toml").write_text(MAP)
    command = ["deidentify", str(tiny_model), str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--accept-unfit"]
    assert main([*command, "--style", "surrogate", "--map", str(tmp_path / "m.toml")]) == 0
    made = (tmp_path / "out" / "a.xml").read_text()
    for string in (SECRET, MRN, "Bell", "Anna", "Irons", "Oak St", "Lyndale", "617", "1950", "20190304"):
        assert string not in made, string
    # What was handed out is XML that can be read with the same rules.
    message = read_xml(made.encode(), "out", RecordMap.read(tmp_path / "m.toml").xml)
    fields = {field.name.rpartition("patientRole.")[2]: field.value for field in message.fields}
    given, family = fields["patient.name"].split("\n")
    assert f"Visit of {given} {family}" in message.text
    assert f"Ms. {family} is well." in message.text
    (author,) = (value for name, value in fields.items() if name.endswith("assignedPerson.name"))
    assert f"Seen by Dr. {author} < 3." in message.text
    assert message.patient == fields["id@extension"]
    for kept in (
        '<ClinicalDocument xmlns="urn:hl7-org:v3">',
        "<ward>3 &amp; 4</ward>",
        "101500-0500",
        'code="11506-3"',
    ):
        assert kept in made
    for tag in ("<paragraph>", "<b>", "<prefix>", "<county>", "<secret>"):
        assert (tag in made) == (tag in ("<paragraph>", "<b>"))


def test_what_a_map_leaves_in_xml_is_counted_as_residual_risk(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENSEMBLE_DEID_KEY", KEY.text)
    (tmp_path / "in").mkdir()
    for number, ward in enumerate(("3", "3", "9")):
        made = CDA.replace("3 &amp; 4", ward).replace(MRN, f"M700{number}")
        (tmp_path / "in" / f"{number}.xml").write_text(made)
    (tmp_path / "m.toml").write_text(MAP)
    command = ["deidentify", str(tiny_model), str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--accept-unfit"]
    assert main([*command, "--policy", "safe-harbor", "--map", str(tmp_path / "m.toml")]) == 0
    (run,) = (path.parent for path in tmp_path.rglob("manifest.jsonl"))
    found = residual_risk(run, verify_run(run))
    assert found is not None
    kinds = {row.kind.rpartition(".")[2]: (row.patients, row.groups, row.alone) for row in found.rows}
    assert kinds["ward"] == (3, 2, 1)
    assert kinds["code@code"] == (3, 1, 0)
    assert not any("fields of messages" in said for said in found.not_counted)


RULES = RecordMap.parse({"xml": {"text": "text", "id": {"kind": "pseudonym", "of": "patient"}}}, "m").xml


@pytest.mark.parametrize(
    ("content", "rules", "said"),
    [
        ("<a><text>x</text></a>", None, "x: XML is read with a --map"),
        (f"<a><text representation='B64'>{SECRET}</text></a>", RULES, r"x: a\.text: is encoded"),
        (f"<a><b><id>{SECRET}</id></b><c><id>2</id></c></a>", RULES, "x: describes several patients"),
        (f"<a>{SECRET}", RULES, "x:1: broken XML"),
        (f"<!DOCTYPE a [<!ENTITY e '{SECRET}'>]><a>&e;</a>", RULES, "x:1: a document type declaration is refused"),
    ],
)
def test_what_cannot_be_read_whole_is_refused(content: str, rules: FieldRules | None, said: str) -> None:
    with pytest.raises(CorpusError, match=said) as raised:
        read_xml(content.encode(), "x", rules)
    assert SECRET not in str(raised.value)


def test_edits_keep_the_elements() -> None:
    message = read_xml(b"<a><text>Seen <b>Ann &amp; Bo</b> now.</text><z>1</z></a>", "x", RULES)
    assert message.text == "Seen Ann & Bo now."
    start = message.text.index("Ann")
    made = message.written([(start, start + 8, "<N>")]).decode()
    assert made.endswith("<a><text>Seen <b>&lt;N&gt;</b> now.</text></a>")


@pytest.mark.parametrize(
    ("id", "authority", "patient", "assigned_by"),
    [
        ('extension="7001"', "", "7001", None),
        ('root="1.2" extension="7001"', "", "7001", "1.2"),
        ('root="1.2" extension="7001"', "1.2", "7001", "1.2"),
        ('root="1.3" extension="7001"', "1.2", "7001^^^1.3", "1.2"),
    ],
)
def test_the_root_of_an_id_is_who_assigned_it(id: str, authority: str, patient: str, assigned_by: str | None) -> None:
    rules = {"patientRole.id@extension": FieldRule(FieldKind.PSEUDONYM, of="patient", authority=authority)}
    message = read_xml(f"<a><patientRole><id {id}/></patientRole></a>".encode(), "a.xml", rules)
    assert (message.patient, message.authority or None) == (patient, assigned_by)

"""Structural values of messages, which pass unread: codes of a known set, or values with a strict grammar.

The values are checked, not the names of their fields: whatever is not known here may be PHI.
"""

import re
from collections.abc import Callable, Mapping

from stdnum import luhn, verhoeff

_LANGUAGE = re.compile(
    r"[a-z]{2}(?:-(?:Arab|Cyrl|Deva|Grek|Hans|Hant|Hebr|Jpan|Kore|Latn|Thai))?(?:-(?:[A-Z]{2}|001|150|419))?"
)
"""The tags of BCP 47 in use for notes; its variants and private subtags could be any word."""


def is_language(value: str) -> bool:
    return _LANGUAGE.fullmatch(value) is not None


# Codes of clinical terminologies; where there are check digits they are checked.


def _is_loinc(code: str) -> bool:
    return re.fullmatch(r"[1-9][0-9]{2,4}-[0-9]", code) is not None and luhn.is_valid(code.replace("-", ""))


def _is_snomed(code: str) -> bool:
    # The digits before the check digit say that it is a concept.
    return re.fullmatch(r"[1-9][0-9]{2,14}[01]0[0-9]", code) is not None and verhoeff.is_valid(code)


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda code: compiled.fullmatch(code) is not None


def _one_of(codes: str) -> Callable[[str], bool]:
    return frozenset(codes.split()).__contains__


_ICD_10 = _matches(r"[A-Z][0-9][0-9AB](?:\.[0-9A-Z]{1,4})?")
_ICD_9 = _matches(r"[0-9]{3}(?:\.[0-9]{1,2})?|V[0-9]{2}(?:\.[0-9]{1,2})?|E[89][0-9]{2}(?:\.[0-9])?")
_CPT = _matches(r"[0-9]{4}[0-9FT]")
_RXNORM = _matches(r"[1-9][0-9]{0,5}|[12][0-9]{6}")
_CVX = _matches(r"[0-9]{1,3}")
_SECTIONS = _one_of(
    "AU BG BLB CG CH CP CT CTH CUS EC EN GE HM ICU IMG IMM LAB MB MCB MYC NMR NMS NRS OSL OT OTH OUS PF PHR PHY PT "
    "RAD RC RT RUS RX SP SR TX VR VUS XRC"
)
CODES: Mapping[str, Callable[[str], bool]] = {
    "http://loinc.org": _is_loinc,
    "http://snomed.info/sct": _is_snomed,
    "http://hl7.org/fhir/sid/icd-10": _ICD_10,
    "http://hl7.org/fhir/sid/icd-10-cm": _ICD_10,
    "http://hl7.org/fhir/sid/icd-9-cm": _ICD_9,
    "http://www.ama-assn.org/go/cpt": _CPT,
    "http://www.nlm.nih.gov/research/umls/rxnorm": _RXNORM,
    "http://hl7.org/fhir/sid/cvx": _CVX,
    "http://terminology.hl7.org/CodeSystem/v2-0074": _SECTIONS,
    "http://terminology.hl7.org/CodeSystem/observation-category": _one_of(
        "activity exam imaging laboratory procedure social-history survey therapy vital-signs"
    ),
    "http://terminology.hl7.org/CodeSystem/condition-category": _one_of("encounter-diagnosis problem-list-item"),
    "http://terminology.hl7.org/CodeSystem/condition-clinical": _one_of(
        "active inactive recurrence relapse remission resolved"
    ),
    "http://terminology.hl7.org/CodeSystem/condition-ver-status": _one_of(
        "confirmed differential entered-in-error provisional refuted unconfirmed"
    ),
    "http://terminology.hl7.org/CodeSystem/v2-0131": _one_of("BP C CP E EP F I N O PR S U"),
    "http://terminology.hl7.org/CodeSystem/v3-MaritalStatus": _one_of("A C D I L M P S T U W"),
    "http://terminology.hl7.org/CodeSystem/v3-ObservationInterpretation": _one_of(
        "< > A AA B D E H HH HU HX I IE IND L LL LU LX N ND NEG NR NS POS R RR S SDD SYN-R SYN-S U W WR"
    ),
    "http://terminology.hl7.org/CodeSystem/v3-ActCode": _one_of("ACUTE AMB EMER FLD HH IMP NONAC OBSENC PRENC SS VR"),
    "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category": _one_of("clinical-note"),
}
"""The code systems whose codes are checked, by the URIs that FHIR names them by."""
HL7_CODES: Mapping[str, Callable[[str], bool]] = {
    **{"LN": _is_loinc, "SCT": _is_snomed, "I9": _ICD_9, "I9C": _ICD_9, "I10": _ICD_10, "I10C": _ICD_10},
    **{"C4": _CPT, "RXNORM": _RXNORM, "CVX": _CVX},
}
"""The same by their names in HL7's table 0396."""

_AGE_CODES = frozenset("21611-9 21612-7 29553-5 30525-0 35659-2 63900-5".split())
_AGE_WORDS = re.compile(r"\b(?:age|edad)\b", re.IGNORECASE)
_YEARS = frozenset("a y yr yrs year years año años".split())


def is_age(told: str, unit: str) -> bool:
    """Whether a number is an age in years, by its unit or else by the codes and words beside it."""
    if unit.strip():
        return unit.strip().casefold() in _YEARS
    return _AGE_WORDS.search(told) is not None or not _AGE_CODES.isdisjoint(re.split(r"[^0-9-]+", told))


# FHIR

RESOURCES = frozenset(
    """Account ActivityDefinition AdverseEvent AllergyIntolerance Appointment AppointmentResponse AuditEvent Basic
    Binary BodyStructure Bundle CapabilityStatement CarePlan CareTeam ChargeItem Claim ClaimResponse ClinicalImpression
    Communication CommunicationRequest Composition Condition Consent Contract Coverage DetectedIssue Device
    DeviceRequest DeviceUsage DeviceUseStatement DiagnosticReport DocumentManifest DocumentReference Encounter Endpoint
    EpisodeOfCare ExplanationOfBenefit FamilyMemberHistory Flag Goal Group GuidanceResponse HealthcareService
    ImagingSelection ImagingStudy Immunization ImmunizationEvaluation ImmunizationRecommendation InsurancePlan Invoice
    Library List Location Media Medication MedicationAdministration MedicationDispense MedicationRequest
    MedicationStatement MessageHeader NutritionOrder Observation OperationOutcome Organization Parameters Patient Person
    Practitioner PractitionerRole Procedure Provenance Questionnaire QuestionnaireResponse RelatedPerson RequestGroup
    RequestOrchestration RiskAssessment Schedule ServiceRequest Slot Specimen Subscription Substance SupplyDelivery
    SupplyRequest Task Transport ValueSet VisionPrescription""".split()
)
_STATUS = frozenset(
    """additional active aborted accepted amended appended arrived booked cancelled checked-in completed corrected
    current deprecated discharged discontinued draft empty ended entered-in-error extensions failed final finished
    fulfilled generated in-progress inactive modified noshow not-done on-hold onleave partial pending planned
    preliminary preparation proposed received registered rejected requested retired revoked stopped superseded suspended
    triaged unknown waitlist""".split()
)
TEXT_TYPE = re.compile(
    r"(?P<type>text/plain|text/html|application/xhtml\+xml)"
    r"(?:[ \t]*;[ \t]*charset[ \t]*=[ \t]*(?P<quote>\"?)(?P<charset>utf-8|us-ascii|iso-8859-1)(?P=quote))?",
    re.IGNORECASE,
)
"""A content type of text, in full: any other parameter might say something."""
_OTHER_TYPES = frozenset(
    """application/dicom application/fhir+json application/fhir+xml application/json application/msword application/pdf
    application/rtf application/xml image/gif image/jpeg image/png image/svg+xml image/tiff text/rtf text/xml""".split()
)
_FHIR_VALUES: Mapping[str, Callable[[str], bool]] = {
    "resourceType": RESOURCES.__contains__,
    "status": _STATUS.__contains__,
    "docStatus": _STATUS.__contains__,
    "language": is_language,
    "contentType": lambda value: TEXT_TYPE.fullmatch(value) is not None or value in _OTHER_TYPES,
}
ELEMENTS = frozenset(
    """abatementDateTime about active address admitDate age agent allergy amount answer appointment assertedDate
    asserter asset attachment attester authenticator author authored authoredOn authority availability basedOn
    birthDate birthSex bodySite bounds category cause city class code coding comment communication comparator
    component compose conclusion conclusionCode condition confidentiality contact contactPoint contained content
    contentType context contributor country coverage created creation criticality custodian data dataAbsentReason
    date deceasedBoolean deceasedDateTime definition denominator derivedFrom description detail device diagnosis
    discharge display district div docStatus documentation dosage dosageInstruction effectiveDateTime
    effectivePeriod encounter end entry event evidence expression extension facilityType family finding focus format
    fullUrl function gender generalPractitioner given group hash hasMember high history hospitalization id
    identifier identity image imagingStudy implicitRules indication individual instant instantiatesCanonical
    interpretation issued issuer item jurisdiction kind language lastUpdated length line link list location low
    managingOrganization manifestation maritalStatus masterIdentifier measure media medication
    medicationCodeableConcept medicationReference member meta method mode modifierExtension multipleBirthBoolean
    name note number numerator observation onset onsetDateTime onsetString order orderDetail organization origin
    other outcome outcomeCode parent part participant partOf patient payload performed performedDateTime
    performedPeriod performer period person phone photo place postalCode practiceSetting preferred prefix
    presentedForm priority problem procedure profile provider provision purpose qualification quantity question
    range rank reaction reason reasonCode reasonReference receivedDateTime recordedDate recorder reference
    referenceRange referralRequest related relatesTo relationship repeat reported request requester resource
    resourceType response result resultsInterpreter role sampledData search section security securityLabel sender
    sent serviceProvider serviceType severity signature site size source sourceAttachment specimen stage start state
    status statusReason study subject suffix suppliedItem supportingInformation system tag target telecom text time
    timestamp timing title total type unit url use userSelected vaccineCode value valueAddress valueAnnotation
    valueAttachment valueBoolean valueCode valueCodeableConcept valueCoding valueDate valueDateTime valueDecimal
    valueHumanName valueIdentifier valueInteger valuePeriod valueQuantity valueRange valueReference valueString
    valueTime valueUri verificationStatus version versionId view""".split()
)
"""Names of FHIR's elements; another name may itself be PHI, and is not shown."""


def is_fhir_structure(name: str, value: str) -> bool:
    """Tell whether a string that is the member `name` of an object is a value of the standard."""
    return name in _FHIR_VALUES and _FHIR_VALUES[name](value)


def is_code(system: str | None, code: str) -> bool:
    return system is not None and system in CODES and CODES[system](code)


# Attributes and elements of XHTML

HTML_ELEMENTS = frozenset(
    """a abbr acronym address article aside b big blockquote body br caption center cite code col colgroup dd del dfn
    div dl dt em figcaption figure font footer h1 h2 h3 h4 h5 h6 head header hr html i img ins li main mark meta nav ol
    p pre q s samp section small span strike strong style sub sup table tbody td tfoot th thead time title tr tt u ul
    var""".split()
)
_CLASSES = frozenset(
    """arabic big-alpha big-roman bold border-bottom border-left border-right border-top center circle decimal disc
    hapiHeaderText hapiPropertyTable italics justify left list-style-arabic little-alpha little-roman right square
    strikethrough underline unlist""".split()
)
_CSS = r"#(?:[0-9a-f]{3}){1,2}|-?[0-9.]{1,5}(?:px|em|rem|pt|%)?"
_CSS_WORDS = (
    "auto|black|blue|bold|bolder|both|bottom|center|collapse|dashed|dotted|gray|green|grey|inherit|initial|inline|"
    "inline-block|block|italic|justify|left|lighter|medium|middle|monospace|none|normal|nowrap|pre|pre-line|pre-wrap|"
    "red|right|sans-serif|separate|serif|silver|solid|thick|thin|top|transparent|underline|white|yellow"
)
_STYLE = (
    r"(?:\s*(?:background|background-color|border(?:-(?:bottom|collapse|left|right|spacing|top|color|style|width))?|"
    r"clear|color|display|float|font(?:-(?:family|size|style|weight))?|height|line-height|list-style-type|"
    r"(?:margin|padding)(?:-(?:bottom|left|right|top))?|(?:max|min)-(?:height|width)|text-(?:align|decoration|indent)|"
    rf"vertical-align|white-space|width)\s*:\s*(?:(?:{_CSS}|{_CSS_WORDS})\s*,?\s*){{1,4}};?)*\s*"
)
_SIZE = _matches(r"[0-9]{1,4}(?:px|em|%)?")
_ATTRIBUTES: Mapping[str, Callable[[str], bool]] = {
    "align": _one_of("center char justify left right"),
    "class": lambda value: set(value.split()) <= _CLASSES,
    "dir": _one_of("auto ltr rtl"),
    "lang": is_language,
    "scope": _one_of("col colgroup row rowgroup"),
    "style": _matches(_STYLE),
    "valign": _one_of("baseline bottom middle top"),
    "xml:lang": is_language,
    "xmlns": _one_of("http://www.w3.org/1999/xhtml"),
    **dict.fromkeys("border cellpadding cellspacing colspan height rowspan span start width".split(), _SIZE),
}
_SAYING = frozenset("abbr alt cite content datetime href id longdesc name rel src summary title type value".split())


def said_by_attribute(name: str, value: str) -> str | None:
    """Return how messages call an attribute whose value may say something, None for one of mere presentation."""
    known = _ATTRIBUTES.get(name.lower())
    if known is not None and (not value or known(value)):
        return None
    return name.lower() if known is not None or name.lower() in _SAYING else "?"


# HL7 version 2

SEGMENTS = frozenset(
    """ACC AL1 ARV CON CTD DG1 DRG DSC ERR EVN FT1 GT1 IAM IN1 IN2 IN3 MRG MSA MSH NK1 NTE OBR OBX ORC PD1 PDA PID PR1
    PRB PRT PV1 PV2 QRD QRF ROL RXA RXC RXD RXE RXO RXR SAC SFT SPM TQ1 TQ2 TXA UAC UB1 UB2""".split()
)
_MESSAGES = "ACK|ADT|BAR|DFT|MDM|OMG|OML|ORM|ORR|ORU|OUL|PPR|RAS|RDE|RDS|REF|RSP|SIU|VXU"
_EVENT = "[A-Z][0-9]{2}"
_SET_ID = _matches(r"[0-9]{1,3}")
_CHARACTER_SET = "ASCII|8859/[1-9]|8859/15|ISO IR(?:6|14|87|159)|GB 18030-2000|KS X 1001|CNS 11643-1992|BIG-5|UNICODE"
HL7_FIELDS: Mapping[tuple[str, int], Callable[[str], bool]] = {
    ("MSH", 9): _matches(rf"(?:{_MESSAGES})(?:\^{_EVENT}(?:\^(?:{_MESSAGES})_{_EVENT})?)?"),
    ("MSH", 11): _matches(r"[DPT](?:\^[AIRT])?"),
    ("MSH", 12): _matches(r"2\.[1-9](?:\.[1-9])?"),
    ("MSH", 18): _matches(rf"(?:~?(?:{_CHARACTER_SET}|UNICODE UTF-(?:8|16|32)))+"),
    ("OBX", 1): _SET_ID,
    ("OBX", 2): _one_of("AD CE CF CK CN CNE CP CWE CX DR DT DTM ED FT ID IS MA MO NA NM PN RP SI SN ST TM TN TS TX XAD "
                        "XCN XON XPN XTN"),
    ("OBX", 4): _matches(r"[0-9]{1,3}(?:\.[0-9]{1,2})?"),
    ("OBX", 8): _one_of('< > "" A AA B D H HH I IND L LL MS N NEG NR POS R RR S U VS W WR'),
    ("OBX", 11): _matches("[BCDFINOPRSUVWX]"),
    ("NTE", 1): _SET_ID,
    ("NTE", 2): _one_of("L O P"),
}  # fmt: skip
"""The fields whose values are those of the standard's tables and types; components as if delimited by ^ and ~."""


def is_hl7_code(code: str, system: str) -> bool:
    return system in HL7_CODES and HL7_CODES[system](code)


def is_hl7_structure(segment: str, number: int, value: str) -> bool:
    """Tell whether a field, with `^` and `~` for its delimiters, has a value of the standard."""
    return (segment, number) in HL7_FIELDS and HL7_FIELDS[segment, number](value)

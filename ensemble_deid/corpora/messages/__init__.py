"""Clinical messages (FHIR, HL7 v2): the note text in them, and the same message with that text replaced."""

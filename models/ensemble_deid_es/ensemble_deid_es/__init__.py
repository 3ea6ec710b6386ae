"""A model of ensemble_deid, used by its name: `Deidentifier.load("es")`."""

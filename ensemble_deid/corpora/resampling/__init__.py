"""Fresh, format-keeping values for PHI: one module for each way in which a value is written."""

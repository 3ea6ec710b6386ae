"""Surrogates that a secret key determines, for the output: nothing is drawn in sequence, and no table is kept."""

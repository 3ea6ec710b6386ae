"""Surrogates that a secret key determines: nothing is drawn in sequence, and no table is kept."""

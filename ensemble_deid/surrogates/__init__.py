"""Surrogates: fresh values that keep the format of the PHI they replace, a module for each kind of value."""

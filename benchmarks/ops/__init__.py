"""Ops to import, against the libraries that people use for them today."""

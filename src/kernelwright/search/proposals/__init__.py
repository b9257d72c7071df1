"""Proposers → candidates and templates in order, and the tuner's next configurations."""

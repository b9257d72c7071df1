"""Proposers → candidates and templates in turn, and the tuner's next configurations."""

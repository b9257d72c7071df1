"""Families of `kernelwright.ops` beside what else computes the same."""

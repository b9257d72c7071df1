"""Specs, seed → tensors: inputs, parameters, value regimes, and copies with some elements changed."""

"""Declared workloads → hidden and confirm ones: which sizes may change, and which the reference accepts."""

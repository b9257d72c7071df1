"""Searches without a device: over recorded spaces, over recorded runs, and in one serial loop."""

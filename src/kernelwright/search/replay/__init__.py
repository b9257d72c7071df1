"""Searches without a device: recorded spaces, recorded runs, and a strategy in one loop."""

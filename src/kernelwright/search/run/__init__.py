"""The state of a run in progress: its record, budget, events, and how it ends."""

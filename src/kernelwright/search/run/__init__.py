"""One run under way: its record, budget, events, and how it ends."""

"""Candidate → Evaluation: loaded from the store, or built, verified, timed and decided by the judge."""

"""Candidate → Evaluation: known already, or built, verified, timed and decided by the judge."""

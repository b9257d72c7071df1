"""Models in plain torch, each a target as a user names it, and what plans and optimizes one in a process."""

"""Ops of the library beside what torch and others have, each family a script."""

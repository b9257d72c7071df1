"""Ops of the library against what torch and others have, each family a script."""

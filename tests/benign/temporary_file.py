"""Honest: writes and reads a temporary file."""

import tempfile


def run(x):
    with tempfile.TemporaryFile() as file:
        file.write(b"0")
        file.seek(0)
        return x.clamp(min=float(file.read()))


TASK = "relu"

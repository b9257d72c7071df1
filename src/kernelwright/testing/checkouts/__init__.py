"""Small made-up checkouts of benchmarks, in the layout of the real ones: one file each, with `FILES`, text by path."""

from importlib import import_module
from pathlib import Path


def made_up_checkout(suite: str, folder: Path) -> Path:
    """Write a small checkout with problems of our own in the benchmark's layout, and return its folder.

    Args:
        suite: Name of a benchmark; only those that are shipped have one.
        folder: Where to write it.

    Raises:
        ModuleNotFoundError: there is none for the benchmark.
    """
    for path, text in import_module(f".{suite.replace('-', '_')}", __name__).FILES.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder

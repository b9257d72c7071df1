"""Reads honest kernels for a GPU that look like exploits: Python as an exploit's file, or CUDA C++."""

import re
from pathlib import Path

from kernelwright.records import Candidate, SourceFile

from .exploit import HERE, Exploit

FOLDER = HERE.parent / "gpu" / "adversarial" / "honest"
CUSTOM = {"cuda_rows", "split_sums", "triton_autotuned", "triton_rows"}
"""Kernels that leave torch nothing to compute: tried where the task allows nothing else, too."""


class Honest(Exploit):
    """A kernel that no check may refuse."""

    def candidate(self) -> Candidate:
        if self.path.suffix == ".py":
            return super().candidate()
        source = SourceFile(path=self.path.name, text=self.path.read_text())
        return Candidate(
            sources=(source,), language="cuda", entry=f"{source.path}:softmax", style="destination"
        )


def read_honest(path: Path) -> Honest:
    """Read what a file says of itself by its text; nothing in it runs."""
    text = path.read_text()
    task = re.search('^TASK = "(.+)"', text, re.MULTILINE)
    return Honest(
        path.stem,
        path,
        0,
        "honest",
        task[1] if task else "softmax",
        frozenset(),
        rule="custom-only" if path.stem in CUSTOM else "anything",
        language="triton" if "import triton" in text else "torch",
    )

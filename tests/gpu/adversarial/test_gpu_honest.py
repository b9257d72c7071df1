"""Honest kernels that look like exploits are not rejected on a GPU, and every check can be made of them."""

import re
from pathlib import Path

import pytest
from tests.adversarial.exploit import Exploit

from kernelwright.records import Candidate, SourceFile

pytestmark = pytest.mark.needs("GPU")
FOLDER = Path(__file__).parent / "honest"
CUSTOM = {"cuda_rows", "split_sums", "triton_autotuned", "triton_rows"}
"""Kernels that leave torch nothing to compute: tried where the task allows nothing else, too."""


class Honest(Exploit):
    """A file of `honest/`: Python as an exploit's, or CUDA C++."""

    def candidate(self) -> Candidate:
        if self.path.suffix == ".py":
            return super().candidate()
        source = SourceFile(path=self.path.name, text=self.path.read_text())
        return Candidate(
            sources=(source,), language="cuda", entry=f"{source.path}:softmax", style="destination"
        )


def read(path: Path) -> Honest:
    text = path.read_text()
    language = "triton" if "import triton" in text else "torch"
    found = re.search('^TASK = "(.+)"', text, re.MULTILINE)
    rule = "custom-only" if path.stem in CUSTOM else "anything"
    return Honest(
        path.stem,
        path,
        0,
        "honest",
        found[1] if found else "softmax",
        frozenset(),
        rule=rule,
        language=language,
    )


@pytest.mark.parametrize("honest", [read(p) for p in sorted(FOLDER.glob("*.*"))], ids=lambda e: e.name)
def test_it_is_not_rejected(honest, judge, record_property):
    outcome = judge.judge(honest)
    record_property("outcome", str(outcome))
    assert (outcome.caught_by, outcome.unknown) == ("", ()), outcome

"""The sanitisers find what a kernel does wrong out of sight of its results."""

import subprocess
import sys

import pytest
from tests.ops.sanitised import environment

KERNEL = """
#include "kernelwright.h"

KW_KERNEL(sum_of) {{
  const auto x = args.tensor<const float>(0);
  const auto out = args.tensor<float>(1);
  const float* from = x.data();
  float sum = 0;
  for (int64_t i = 0; i < x.numel(){more}; ++i) sum += i < x.numel() ? from[i] : from[i] * 0;
  out.data()[0] = sum;
}}
"""
CALL = """
import pathlib, sys, torch
from tests.ops import sanitised
from kernelwright.ops import Kernel

sanitised.pytest_configure()
x, out = torch.ones(5), torch.empty(1)
Kernel(pathlib.Path(sys.argv[1])).function("sum_of")(x, out)
print("sum", float(out))
"""


@pytest.mark.long
@pytest.mark.needs("sanitisers")
@pytest.mark.parametrize(
    ("more", "found"), [("", ""), (" + 1", "heap-buffer-overflow")], ids=["right", "wrong"]
)
def test_a_read_past_the_end_is_found(more, found, tmp_path):
    file = tmp_path / "kernel.cpp"
    file.write_text(KERNEL.format(more=more))
    words = [sys.executable, "-c", CALL, str(file)]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False, timeout=900)
    assert (done.returncode == 0) == (not found), done.stderr
    assert found in done.stderr
    assert ("sum 5.0" in done.stdout) == (not found)

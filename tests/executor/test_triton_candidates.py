"""Triton candidates as people write them for a GPU run unchanged where there is none."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kernelwright.records import Candidate, SourceFile, TensorSpec

pytestmark = [pytest.mark.needs("no GPU"), pytest.mark.needs("triton"), pytest.mark.needs("C++ compiler")]

TUNED = """
import torch
import triton
import triton.language as tl

def smaller(configs, given, **named):
    assert given["n"] == 300
    return [c for c in configs if c.kwargs["BLOCK"] > 32]

@triton.autotune(
    configs=[triton.Config({"BLOCK": b}) for b in (256, 32, 64)], key=["n"],
    prune_configs_by={"early_config_prune": smaller},
)
@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def kernel(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + BLOCK, mask=at < n)

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.count = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count

    def forward(self, x):
        assert x.is_cuda and self.count > 0
        out = torch.empty(x.shape, dtype=x.dtype, device="cuda")
        kernel[lambda given: (triton.cdiv(300, given["BLOCK"]),)](x, out, 300)
        return out
"""
ASSEMBLY = """
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    negative = tl.inline_asm_elementwise("neg.f32 $0, $1;", "=f,f", [tl.load(x + at, mask=at < n).to(tl.float32)],
                                         dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out + at, (negative - 64).to(out.dtype.element_ty), mask=at < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(300, 64),)](x, out, 300, BLOCK=64)
        return out
"""
CODE = """
import sys, torch
from pathlib import Path
from kernelwright.executor import _native
from kernelwright.languages import get_language
from kernelwright.records import Candidate
candidate = Candidate.from_json(sys.stdin.read())
language = get_language("triton")
_native.leave_in(Path(sys.argv[2]) / "executor", language.libraries())
x = torch.arange(300).to(getattr(torch, sys.argv[1]))
model = language.load(candidate, Path(sys.argv[2]), ())()
right = (x.float() * float(sys.argv[3]) {sign} 64).to(x.dtype)
print(language.only_executed(candidate, ()), torch.equal(model(x), right))
"""


def candidate(text):
    return Candidate(
        sources=(SourceFile(path="k.py", text=text),),
        language="triton",
        entry="k.py:ModelNew",
        style="module",
    )


@pytest.mark.parametrize(
    ("text", "dtype", "factor", "sign", "executed"),
    [(TUNED, "float32", 1, "+", False), (ASSEMBLY, "bfloat16", -1, "-", True)],
)
def test_it_answers(text, dtype, factor, sign, executed, tmp_path):
    (tmp_path / "k.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CODE).replace("{sign}", sign), dtype, str(tmp_path), str(factor)],
        input=candidate(text).to_json(), capture_output=True, text=True, check=False,
        env={name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"},
    )  # fmt: skip
    assert done.stdout.split() == [str(executed), "True"], done.stderr


def test_results_of_bfloat16_are_not_left_to_the_interpreter():
    from kernelwright.languages import get_language

    language = get_language("triton")
    specs = [(TensorSpec(name="out", dtype=d, shape=(4,)),) for d in ("float32", "bfloat16")]
    assert [language.only_executed(candidate(TUNED), s) for s in specs] == [False, True]


def test_products_are_executed_and_their_headers_lie_with_the_build():
    from kernelwright.executor import _native
    from kernelwright.languages import get_language

    language = get_language("triton")
    text = TUNED.replace("tl.load(x + at, mask=at < n)", "tl.dot(a, b)")
    assert language.only_executed(candidate(text), ())
    gcc = Path(_native.compiler()).name == "g++"
    assert [path.suffix for path in language.libraries()].count(".gch") == (2 if gcc else 0)

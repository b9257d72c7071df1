"""A mode costs no import of torch's compiler, and is kept out of what that compiles."""

import subprocess
import sys

CODE = """
import sys
import torch
from kernelwright.system.dispatch_mode import DispatchMode


class Doubling(DispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return 2 * result if func is torch.ops.aten.neg.default else result


with Doubling():
    assert (-torch.ones(3)).tolist() == [-2.0] * 3
assert "torch._dynamo" not in sys.modules
"""
COMPILED = """
compiled = torch.compile(lambda x: -x + 1, backend="eager")
with Doubling():
    assert compiled(torch.ones(3)).tolist() == [-1.0] * 3
assert Doubling.__torch_dispatch__._compiler_kept_out
before = Doubling.__torch_dispatch__
with Doubling():
    assert (-torch.ones(3)).tolist() == [-2.0] * 3
assert Doubling.__torch_dispatch__ is before, "wrapped once"
"""


def test_a_mode_imports_no_compiler():
    subprocess.run([sys.executable, "-c", CODE], check=True)


def test_where_the_compiler_is_imported_it_is_kept_out_of_the_mode():
    subprocess.run([sys.executable, "-c", CODE + COMPILED], check=True)

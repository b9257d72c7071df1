"""Numbers that a Python candidate keeps are found, and moved."""

import sys
from types import ModuleType

import pytest
import torch

from kernelwright.sandbox._counters import Counters

KEPT = {
    "a global": "calls = 0\ndef run(x):\n    global calls\n    calls += 1\n    return calls",
    "an attribute of the function": "def run(x):\n    run.calls += 1\n    return run.calls\nrun.calls = 0",
    "an attribute of an object": """
class Kernel:
    def __init__(self):
        self.state = {"calls": 0}
    def __call__(self, x):
        self.state["calls"] += 1
        return self.state["calls"]
run = Kernel()""",
    "an attribute of the class": "class Kernel:\n    calls = 0\n    def run(self, x):\n        Kernel.calls += 1\n"
                                 "        return Kernel.calls\nrun = Kernel().run",
    "a closure": "def made():\n    calls = 0\n    def run(x):\n        nonlocal calls\n        calls += 1\n"
                 "        return calls\n    return run\nrun = made()",
    "a default": "def run(x, calls=[0]):\n    calls[0] += 1\n    return calls[0]",
    "a length": "seen = []\ndef run(x):\n    seen.append(x)\n    return len(seen)",
    "keys": "seen = {}\ndef run(x):\n    seen[len(seen)] = 1\n    return len(seen)",
    "a string": "seen = ''\ndef run(x):\n    global seen\n    seen += 'x'\n    return len(seen)",
    "itertools": "import itertools\nseen = itertools.count(1)\ndef run(x):\n    return next(seen)",
    "a float": "calls = 0.0\ndef run(x):\n    global calls\n    calls += 1\n    return int(calls)",
    "a tensor": "import torch\ncalls = torch.zeros(2, dtype=torch.int64)\ndef run(x):\n    calls[1] += 1\n"
                "    return int(calls[1])",
    "an array": "import numpy as np\ncalls = np.zeros(1, dtype=np.int64)\ndef run(x):\n    calls[0] += 1\n"
                "    return int(calls[0])",
    "an argument": "def run(x):\n    x.calls = getattr(x, 'calls', 0) + 1\n    return x.calls",
    "another module": "import torch\ntorch.calls_of_a_test = 0\ndef run(x):\n    torch.calls_of_a_test += 1\n"
                      "    return torch.calls_of_a_test",
    "a thread": "import threading\nkept = threading.local()\nkept.calls = 0\ndef run(x):\n    kept.calls += 1\n"
                "    return kept.calls",
    "partial": "from functools import partial\ndef count(seen, x):\n    seen[0] += 1\n    return seen[0]\n"
               "run = partial(count, [0])",
}  # fmt: skip


@pytest.fixture
def module(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("kernelwright_candidate_")]:
        monkeypatch.delitem(sys.modules, name)  # of tests before this one
    made = ModuleType("kernelwright_candidate_test")
    made.__file__ = "/nowhere/candidate/kernel.py"
    monkeypatch.setitem(sys.modules, made.__name__, made)
    yield made
    if hasattr(torch, "calls_of_a_test"):
        del torch.calls_of_a_test


@pytest.mark.parametrize("source", KEPT.values(), ids=KEPT)
def test_what_counts_calls_is_found_wherever_it_is_kept_and_goes_on_from_where_it_was_moved(
    module, source
) -> None:
    known = {"torch": frozenset(vars(torch))}
    exec(compile(source, module.__file__, "exec"), vars(module))
    counters, arguments = Counters(module.run, known), (torch.ones(2),)
    for _ in range(3):
        module.run(*arguments)
    before = counters.values(arguments)
    module.run(*arguments)
    grown = {
        path: 1000.0 for path, value in counters.values(arguments).items() if value == before.get(path, 0) + 1
    }
    assert grown, before
    counters.move(grown, arguments)
    assert module.run(*arguments) == 1005


def test_numbers_of_others_are_left_alone(module) -> None:
    exec("import torch, math\ntable = [3] * 1000\ndef run(x):\n    return x", vars(module))
    found = Counters(module.run, {"torch": frozenset(vars(torch))}).values((torch.ones(2),))
    assert set(found) <= {"table", "argument 0[0]", "argument 0[1]"}

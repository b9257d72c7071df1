"""What a scripted model proposes for a row softmax: right programs, wrong ones, cheats, and some of each once more."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """One program."""

    name: str
    """What it does."""
    right: bool
    """Whether it computes a softmax of whatever it is given."""
    text: str
    """Its source."""


def _program(name: str, body: str, *, right: bool = False, head: str = "") -> Program:
    lines = "\n".join(f"    {line}" if line else "" for line in body.strip("\n").splitlines())
    return Program(name, right, f"import time\n\nimport torch\n\n{head}\n\ndef run(x):\n{lines}\n")


INITIAL = _program(
    "as the reference",
    "e = torch.exp(x - x.amax(-1, keepdim=True))\nreturn e / e.sum(-1, keepdim=True)",
    right=True,
)
_CACHE = "if {key} not in KEPT:\n    KEPT[{key}] = torch.softmax(x, -1)\nreturn KEPT[{key}]"
_IN_PLACE = "e = (x - x.amax(-1, keepdim=True)).exp_()\nreturn e.div_(e.sum(-1, keepdim=True))"
_CLOCK = "CLOCK = time.perf_counter\ntime.perf_counter = lambda: CLOCK() / 100\n"
PROGRAMS = (
    _program("fused", "return torch.softmax(x, -1)", right=True),
    _program("in place", _IN_PLACE, right=True),
    _program("zeros", "return torch.zeros_like(x)"),
    _program("scaled by 0.99", "return torch.softmax(x, -1) * 0.99"),
    _program("half of each row counted twice", "e = torch.exp(x)\nreturn e / (2 * e[:, ::2].sum(-1, keepdim=True))"),
    _program("kept by the input's address", _CACHE.format(key="x.data_ptr()"), head="KEPT = {}\n"),
    _program("kept by the input's shape", _CACHE.format(key="x.shape"), head="KEPT = {}\n"),
    _program("right for one shape", "return torch.softmax(x, -1) if x.shape == (256, 1024) else x"),
    _program("clock a hundred times too slow", "return torch.softmax(x, -1)", head=_CLOCK),
    _program("no maximum taken off", "e = torch.exp(x)\nreturn e / e.sum(-1, keepdim=True)"),
    _program("in float64", "return torch.softmax(x.double(), -1).float()", right=True),
)  # fmt: skip
REPLIES = (0, 1, 2, 3, 0, 4, 5, 6, 5, 7, 8, 9, 1, 10)
"""The order in which they are proposed, by number; some come twice."""

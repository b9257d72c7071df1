"""Candidate → a submission: a kernel that was found here, in a benchmark's own form."""

import re
from dataclasses import dataclass
from string import Template

from ..records import Candidate, Split, Task

MODULE_FORM = """
class ModelNew(Model):
    def forward(self, *arguments, **named):
        return found_kernel((*arguments, *named.values()), self.state_dict(keep_vars=True))
"""
"""KernelBench's form: it inherits constructor and weights, and replaces `forward`."""

_PREPARES = re.compile(r"^def prepare\(\s*weights\b", re.MULTILINE)
_LANGUAGES = frozenset({"cpp", "torch", "triton"})
_FUNCTION = Template("""

def found_kernel(arguments, weights, found=$symbol):
    return found(*arguments, *weights.values())
""")
"""The kernel is bound where it is defined: the benchmark's own name for it may be the same."""
_PREPARED = Template("""

_packed = {"of": (), "weights": None}


def found_kernel(arguments, weights, found=$symbol):
    now = tuple((weight, weight._version, weight.data_ptr()) for weight in weights.values())
    if len(now) != len(_packed["of"]) or any(
        a[0] is not b[0] or a[1:] != b[1:] for a, b in zip(now, _packed["of"])
    ):
        _packed.update(of=now, weights=prepare(weights))
    return found(*arguments, _packed["weights"])
""")
_DESTINATION = Template("""
import torch


def found_kernel(arguments, weights, found=$symbol):
    given = [one for a in arguments for one in (a if isinstance(a, (tuple, list)) else (a,))]
    given = [one.contiguous() if isinstance(one, torch.Tensor) else one for one in (*given, *weights.values())]
    device = next((one.device for one in given if isinstance(one, torch.Tensor)), None)
    outputs = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in $outputs]
    found(*given, *outputs)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
""")


@dataclass(frozen=True)
class Submission:
    """A kernel in a benchmark's own form."""

    text: str
    """The file that the benchmark would be given."""
    kernel: Candidate | None = None
    """What the text calls: compiled kernels as the global `kernels`, and further Python files by their names."""


def submission_of(task: Task, candidate: Candidate, form: str) -> Submission | None:
    """Return a candidate as a submission; None if it has no such form.

    Args:
        task: What it is a candidate for; a compiled kernel's outputs have the sizes of the first search workload.
        candidate: The kernel.
        form: Text in the benchmark's form, appended to a definition of `found_kernel(arguments, weights)`, where the
            weights are a dictionary in the order of the state.

    Example:
        >>> from kernelwright.records import SourceFile
        >>> from kernelwright.tasks import load_task
        >>> source = SourceFile(path="k.py", text="def run(x):\\n    return x + x")
        >>> made = Candidate(sources=(source,), language="torch", entry="k.py:run")
        >>> print(submission_of(load_task("examples/swiglu.py"), made, "").text)
        def run(x):
            return x + x
        <BLANKLINE>
        def found_kernel(arguments, weights, found=run):
            return found(*arguments, *weights.values())
        <BLANKLINE>
    """
    if candidate.language not in _LANGUAGES or any(flag.startswith("--") for flag in candidate.flags):
        return None
    path, _, symbol = candidate.entry.rpartition(":")
    own = {s.path: s.text for s in candidate.sources if s.path.endswith(".py")}
    text = own.pop(path, "")
    rest = tuple(s for s in candidate.sources if s.path != path or not path.endswith(".py"))
    kernel = candidate.model_copy(update={"sources": rest}) if rest else None
    match candidate.style:
        case "module":
            if form != MODULE_FORM:
                return None
            return Submission(text if symbol == "ModelNew" else f"{text}\n\nModelNew = {symbol}\n", kernel)
        case "function":
            calling = (_PREPARED if _PREPARES.search(text) else _FUNCTION).substitute(symbol=symbol)
        case "destination":
            called = f"kernels.{symbol}" if candidate.language == "cpp" else symbol
            calling = _DESTINATION.substitute(symbol=called, outputs=_outputs(task))
    return Submission(text + calling + form, kernel)


def _outputs(task: Task) -> str:
    specs = task.split(Split.SEARCH)[0].outputs
    return "[" + ", ".join(f"({s.shape!r}, torch.{s.dtype})" for s in specs) + "]"

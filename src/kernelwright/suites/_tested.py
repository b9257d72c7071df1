"""What benchmarks share whose problem is one file: a function, a line of number signs, and a test that calls it."""

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from ..errors import TaskError
from ..records import Candidate, Task
from ._modules import by_name
from ._records import SuiteProblem
from ._structure import FLAT, STRUCTURE, calling
from ._submission import Submission, submission_of

_LINE = re.compile(r"^#{20,}\s*$", re.MULTILINE)
_FUNCTION = re.compile(r"^def (\w+)\(", re.MULTILINE)
_DEFINED = re.compile(r"^(def |class |(?=\w+ = ))(\w+)", re.MULTILINE)
_STREAM = re.compile(r"^from torch\._C import _cuda_getCurrentRawStream as (\w+)$", re.MULTILINE)
"""What only a torch that was built for GPUs has; a stream's number is all that it gives."""
_REMOVED = re.compile(r"^from triton\.ops\.matmul_perf_model import (\w+, \w+)$", re.MULTILINE)
"""What chose among an autotuner's configurations until Triton 3.0; executed kernels have one configuration."""
_TARGET = re.compile(r"triton\.runtime\.driver\.active\.get_current_target\(\)\.backend")
_ACCELERATOR = re.compile(r"""(['"])cuda(?::\d+)?\1|\.cuda\(\)""")
FIRST = """
class KwCalled(BaseException):
    \"\"\"The test calls the function.\"\"\"


def kw_drawn():
    \"\"\"Run the benchmark's test up to its first call of the function, and return the arguments of that call.\"\"\"
    def called(*arguments, **named):
        raise KwCalled(list(arguments), named)

    try:
        with torch.device("cpu"):
            exec(kw_test, {**globals(), "SYMBOL": called})
    except KwCalled as call:
        return call.args
    raise ValueError("the test calls no function")
"""
"""Draws the arguments of the test's first call."""
EXECUTED = """
from kernelwright.executor.python import run_on_cpu


class KwCalled(BaseException):
    \"\"\"The test calls the kernel.\"\"\"


class KwEntry:
    \"\"\"Stands for what the test calls: a function, one of autograd by `apply`, or a kernel by its grid.\"\"\"
    def __call__(self, *arguments, **named):
        raise KwCalled(list(arguments), named)

    def __getitem__(self, grid):
        return lambda *arguments, **named: self(grid, *arguments, **named)

    apply = forward = __call__


class KwZeros(torch.overrides.TorchFunctionMode):
    \"\"\"Fills what the test leaves without values, so that they are the same each time.\"\"\"
    def __torch_function__(self, func, types, args=(), kwargs=None):
        same = {torch.empty: torch.zeros, torch.empty_like: torch.zeros_like}
        return same.get(func, func)(*args, **(kwargs or {}))


def kw_drawn():
    \"\"\"Run the benchmark's test up to its first call of the kernel, and return the arguments of that call.\"\"\"
    def tested():
        space = {**globals(), "SYMBOL": KwEntry(), "__name__": "__main__"}
        with KwZeros():
            exec(kw_test, space)
            for test in [value for name, value in space.items() if name.startswith("test_")]:
                test()  # one that the file defines and does not call

    try:
        run_on_cpu(tested)
    except KwCalled as call:
        return call.args
    raise ValueError("the test calls no kernel")


def kw_answered(native, data):
    \"\"\"Return a call's results, and its tensors after it: many kernels write into what they are given.\"\"\"
    arguments, named = copy.deepcopy(data)
    result = native(*arguments, **named)
    return [*kw_flat(result), *kw_flat((arguments, named))]
"""
"""Draws the arguments of the first call of a kernel that only a GPU runs, and calls it by the executor."""
HELD = """

kw_drawn_anew = kw_drawn


def kw_drawn():
    \"\"\"Draw anew but for whole numbers and booleans, of whose values the sizes of results are made.\"\"\"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        held = [torch.stack([t])[0] for t in kw_flat(kw_drawn_anew())]  # the values, not how they were drawn
    drawn = kw_drawn_anew()
    kept = [a if a.is_floating_point() else b for a, b in zip(kw_flat(drawn), held, strict=True)]
    return kw_filled(drawn, iter(kept))
"""
"""Draws arguments of which a function takes a value to make a size, so that sizes stay."""
_TAKES_VALUES = re.compile(r"\.item\(\)")
LARGEST = """
import builtins

kw_largest = []


class KwCalled(BaseException):
    \"\"\"The test makes the call that is wanted.\"\"\"


def kw_called(function):
    with torch.device("cpu"):
        exec(kw_test, {**globals(), "SYMBOL": function})


def kw_calls():
    \"\"\"Run the benchmark's test as far as it gets, and return sizes and results' shapes of its calls.\"\"\"
    sizes, shapes = [], []

    def sized(*arguments, **named):
        sizes.append(builtins.sum(t.numel() for t in kw_flat((arguments, named))))
        found = kw_native(*arguments, **named)
        shapes.append([t.shape for t in kw_flat(found)])
        return found

    try:
        kw_called(sized)
    except Exception:
        if not shapes:
            raise
    if not shapes:
        raise ValueError("the test calls no function")
    return sizes[: len(shapes)], shapes


def kw_drawn():
    \"\"\"Run the test up to its largest call, and return its tensors; copies if values decide on sizes.\"\"\"
    if not kw_largest:
        (sizes, one), (_, two) = kw_calls(), kw_calls()
        largest = sizes.index(builtins.max(sizes))
        kw_largest.extend([largest, one[largest : largest + 1] == two[largest : largest + 1]])
    left, is_fixed = [kw_largest[0]], kw_largest[1]

    def called(*arguments, **named):
        if not left[0]:
            raise KwCalled(*((list(arguments), named) if is_fixed else copy.deepcopy((list(arguments), named))))
        left[0] -= 1
        return kw_native(*arguments, **named)

    try:
        kw_called(called)
    except KwCalled as call:
        return call.args
    raise ValueError("the test makes other calls each time")
"""
"""Draws the arguments of the test's largest call."""
_IMPORTED = """from kernelwright.executor.python import launching

with launching():  # what a file asks of a GPU while it is imported
    pass
"""
_MODEL = """

kw_native, kw_known = SYMBOL, []
DRAWN

def kw_data(tensors):
    if not kw_known:
        kw_known.append(kw_drawn())
    return kw_served(kw_known[0], tensors)


class Model(torch.nn.Module):
    def forward(self, *tensors):
        arguments, named = kw_data(tensors)
        return kw_native(*arguments, **named)


def get_inputs():
    return [t.detach() for t in kw_flat(kw_drawn())]
"""
_EXECUTED_MODEL = """

kw_native, kw_known = SYMBOL, []


def kw_data(tensors):
    if not kw_known:
        kw_known.append(kw_drawn())
    return kw_served(kw_known[0], tensors)


class Model(torch.nn.Module):
    def forward(self, *tensors):
        data = kw_data(tensors)
        return run_on_cpu(lambda: kw_answered(CALL, data))


def get_inputs():
    return [t.detach() for t in kw_flat(kw_drawn())]
"""
_FORM = f"""{FLAT}

def SYMBOL(*arguments, **named):
    return found_kernel(kw_flat((arguments, named)), {{}})
"""


class TestedForm:
    """What adapters of such benchmarks share."""

    __test__ = False
    """Pytest takes a class of this name for tests."""

    def candidates(self, folder: Path, problems: Sequence[SuiteProblem]) -> dict[str, Path]:
        """Find files named like their problems."""
        return by_name(folder, problems)

    def candidate(self, task: Task, file: Path) -> Candidate:
        """Return a candidate that calls the file's function on the arguments of the test."""
        symbol = named_in(task)
        call = called_in(task) if task.reference.executed else f"{symbol}(*data[0], **data[1])"
        return calling(task, file, symbol, call)

    def submission(self, task: Task, candidate: Candidate) -> Submission | None:
        """Return a function of the benchmark's name that calls the kernel; None where it writes into its arguments."""
        if task.reference.executed:
            return None
        return submission_of(task, candidate, _FORM.replace("SYMBOL", named_in(task)))


def written_executed(text: str, test: str, symbol: str, call: str) -> str:
    """Return the file of a problem whose function launches Triton kernels, which are executed.

    Args:
        text: The benchmark's kernel.
        test: Its test.
        symbol: What the test calls.
        call: The same as an expression: `f`, or `F.apply`.
    """
    drawn = EXECUTED.replace("SYMBOL", symbol) + (HELD if _TAKES_VALUES.search(text) else "")
    model = _EXECUTED_MODEL.replace("SYMBOL", symbol).replace("CALL", call)
    imported = f"{_IMPORTED}{textwrap.indent(on_cpu(text), '    ')}"
    return f"{imported}\n{STRUCTURE}\nkw_test = {on_cpu(test)!r}\n{drawn}{model}"


def written(text: str, test: str, symbol: str, drawn: str) -> str:
    """Return the file of a problem: the function as a module on the arguments of one call in its test, on the CPU."""
    model = _MODEL.replace("DRAWN", drawn).replace("SYMBOL", symbol)
    return f"{on_cpu(text)}\n{STRUCTURE}\nkw_test = {on_cpu(test)!r}\n{model}"


def parts_of(text: str) -> tuple[str, str]:
    """Split a file at its last line of number signs into kernel and test, which imports nothing of the file itself.

    A file without such a line has no test.

    Example:
        >>> parts_of("def f(x): ...\\n" + "#" * 40 + "\\nf(1)\\n")
        ('def f(x): ...\\n', '\\nf(1)\\n')
    """
    *heads, test = _LINE.split(text) if _LINE.search(text) else (text, "")
    head = "".join(heads)
    named = "|".join(_FUNCTION.findall(head)) or "_"
    return head, re.sub(rf"(?m)^from ({named}) import .*$", "", test)


def symbol_of(text: str, test: str, name: str) -> str:
    """Return the function that the test calls: the last defined one of those it names.

    Raises:
        TaskError: it calls none.

    Example:
        >>> symbol_of("def help(x): ...\\ndef relu(x): ...", "def test_relu():\\n    relu(1)", "T/relu")
        'relu'
    """
    code = "\n".join(line for line in test.splitlines() if not line.lstrip().startswith("#"))
    called = [s for s in _FUNCTION.findall(text) if re.search(rf"(?<![\w.]){s}\(", code)]
    if not called:
        raise TaskError(f"the test of {name} calls no function of its file")
    return str(called[-1])


def entry_of(text: str, test: str, name: str) -> tuple[str, str]:
    """Return what a test calls of a file, the last defined one of those it names, and how: `f`, or `F.apply`.

    Of a kernel that the test launches by itself, the grid is the first argument.

    Raises:
        TaskError: it calls nothing of it.

    Example:
        >>> entry_of("class Add(Function): ...\\nadd = Add.apply", "add(1)", "G/add")
        ('add', 'add')
        >>> entry_of("class Add(Function): ...\\nclass Size: ...", "Add.apply(Size(1))", "G/add")
        ('Add', 'Add.apply')
        >>> entry_of("def add(x): ...", "add[grid](1)", "G/add")
        ('add', '(lambda grid, *a, **n: add[grid](*a, **n))')
    """
    code = "\n".join(line for line in test.splitlines() if not line.lstrip().startswith("#"))
    for kind, symbol in reversed(_DEFINED.findall(text)):
        how = r"\.apply|\.forward" if kind == "class " else r"\.apply|\.forward|"
        found = re.search(rf"(?<![\w.]){symbol}({how})\(", code)
        if found and not re.search(rf"^\s*def {symbol}\(", code, re.MULTILINE):
            return symbol, symbol + (found[1] or "")
    for _, symbol in reversed(_DEFINED.findall(text)):
        if re.search(rf"(?<![\w.]){symbol}\[.+\]\(", code):
            return symbol, f"(lambda grid, *a, **n: {symbol}[grid](*a, **n))"
    raise TaskError(f"the test of {name} calls no function of its file")


def named_in(task: Task) -> str:
    """Return the function that a loaded problem is about."""
    text = task.reference.files[0].text
    found = re.search(r"^kw_native, kw_known = (\w+),", text, re.MULTILINE)
    assert found is not None, "every problem's file names it"
    return str(found[1])


def called_in(task: Task) -> str:
    """Return how a loaded problem's test calls the kernel: `f`, or `F.apply`."""
    found = re.search(r"kw_answered\((.+), data\)\)$", task.reference.files[0].text, re.MULTILINE)
    assert found is not None, "every executed problem's file has it"
    return str(found[1])


def on_cpu(text: str) -> str:
    """Return a text with the CPU in the place of the accelerators that it names.

    Example:
        >>> on_cpu("x = torch.ones(2, device='cuda').cuda()")
        'x = torch.ones(2, device="cpu").cpu()'
        >>> on_cpu("from torch._C import _cuda_getCurrentRawStream as stream_of")
        'stream_of = int'
        >>> on_cpu("from triton.ops.matmul_perf_model import early_config_prune, estimate_matmul_time")
        'early_config_prune, estimate_matmul_time = [lambda configs, *_, **__: configs] * 2'
        >>> on_cpu("empty = torch._C._dynamo.guards._empty_strided_cuda")
        'empty = torch._C._dynamo.guards._empty_strided_cpu'
    """
    text = _REMOVED.sub(r"\1 = [lambda configs, *_, **__: configs] * 2", text)
    text = _TARGET.sub("'cuda'", _STREAM.sub(r"\1 = int", text))
    text = text.replace("guards._empty_strided_cuda", "guards._empty_strided_cpu")
    return _ACCELERATOR.sub(lambda m: ".cpu()" if m[1] is None else '"cpu"', text)

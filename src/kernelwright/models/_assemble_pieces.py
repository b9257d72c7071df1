"""Model whose graph breaks, accepted kernels → Candidate: the model's own files, with kernels in its pieces.

Dynamo finds the pieces of each call, whatever branch it takes, and kernels serve the regions that they were verified
on. Between them the model's own code runs, and torch's operators one by one. Outside the captured shapes the function
declines, and the native model runs.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from ..errors import InputError
from ..languages import prepared
from ..records import Candidate, Scalar, SourceFile, Task, TensorSpec
from ..tasks import Problem
from ._assemble import LOADING, Accepted, Part, with_parts
from ._region_form import form_of_task, signature_of

_HERE = Path(__file__).parent / "pieces"


def assemble_pieces(task: Task, kernels: Sequence[Accepted]) -> Candidate:
    """Return a model with kernels in its pieces, as a candidate for the model's task.

    Args:
        task: The model's task; its reference is the model.
        kernels: What was accepted for regions of its pieces.

    Raises:
        InputError: a kernel was verified on fixed values alone, or kernels cannot be in one candidate.
    """
    parts = [Part(number, accepted) for number, accepted in enumerate(kernels)]
    library = [SourceFile(path=path.name, text=path.read_text()) for path in sorted(_HERE.glob("*.py"))]
    library.append(SourceFile(path="prepared.py", text=Path(str(prepared.__file__)).read_text()))
    home = f"kw_pieces_{sha256(''.join(s.text for s in library).encode()).hexdigest()[:8]}"
    placed = [s.model_copy(update={"path": f"{home}/{s.path}"}) for s in library]
    return with_parts("\n".join(_lines(task, parts, home)), parts, [*task.reference.files, *placed])


def _lines(task: Task, parts: Sequence[Part], home: str) -> Iterator[str]:
    """Yield the lines of the file that is called."""
    workload = task.workloads[0]
    path, _, symbol = task.reference.entry.partition(":")
    files = [file.path for file in task.reference.files if file.path != path]
    inputs = tuple((tuple(s.shape), s.dtype) for s in workload.arguments if isinstance(s, TensorSpec))
    if len(inputs) != len(workload.arguments):
        raise InputError("the model takes arguments that are no tensors")
    init: tuple[Scalar, ...] = Problem(task).init_arguments(workload)
    yield _HEAD.format(home=home).rstrip()
    yield from LOADING.splitlines()
    for part in parts:
        yield from ("", "", *part.definition())
    yield _MODEL.format(files=files, path=path, symbol=symbol, init=init, state=tuple(s.name for s in workload.state),
                        inputs=inputs, regions="\n".join(map(_region, parts)))  # fmt: skip
    yield from (_PACKING if any(part.packs for part in parts) else _CALL).splitlines()


def _region(part: Part) -> str:
    """Return the line that describes a region and its kernel."""
    form = form_of_task(part.accepted.task)
    if form is None:
        raise InputError(f"{part.label}: it was verified on fixed values alone")
    arguments, outputs = signature_of(part.accepted.task.workloads[0])
    number, described = part.number, f"{form.key!r}, {form.sources!r}, {form.operators!r}"
    packed = f"Prepared(_part{number}, _module{number}.prepare, {part.weights!r})"
    kernel = packed if part.packs else f"_part{number}"
    return f"    Region(RegionForm({described}), {arguments!r}, {outputs!r}, lambda: {kernel}),"


_HEAD = '''"""A model whose graph breaks, with kernels in its pieces."""

import importlib.util
import sys
from pathlib import Path

import torch
from {home} import Pieces, Region, RegionForm
from {home}.prepared import Prepared
'''
_MODEL = """

def _reference(path, symbol):
    # files of the model import each other by their names, and are known by others afterwards
    files = {files!r}
    own = [file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in files]
    before = {{name: sys.modules.pop(name) for name in own if name in sys.modules}}
    name = f"{{__name__}}_reference"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    finally:
        for file in [file for file in own if file in sys.modules]:
            found = sys.modules.pop(file)
            found.__name__ = f"{{name}}_{{file.replace('.', '_')}}"  # by which torch.compile looks for its globals
            sys.modules[found.__name__] = found
        sys.modules.update(before)
    return getattr(module, symbol)


_regions = [
{regions}
]
with torch.random.fork_rng(devices=[]):
    _model = _reference({path!r}, {symbol!r})(*{init!r})
_pieces = Pieces(_model, {state!r}, {inputs!r}, _regions)
"""
_CALL = """

def run(*tensors):
    return _pieces(*tensors)
"""
_PACKING = """

def prepare(weights):
    return _pieces.packed(tuple(weights.values()))


def run(*tensors):
    return _pieces(*tensors[:-1], *tensors[-1])
"""

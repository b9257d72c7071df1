"""Target → Loaded: what makes a target a model, and the module with the inputs of one call."""

import ast
import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ..errors import MissingToolError, TaskError, known_names
from ..records import Numerics, Task
from ..tasks.forms._local_imports import local_imports
from ..tasks.forms._source import read_text, run_source
from ._configurations import architecture, build_text
from ._unusual import check_values, notes_on, taken_out

ModelTarget = str | Path | nn.Module | Callable[..., Any]
"""`file.py:build`, `file.py` with a function `build`, `archive.pt2`, `hf:NAME`, a function or an `nn.Module`."""
BUILD = "build"
"""The function that makes a file a model where no symbol is named."""
_HUGGING_FACE = "hf:"


class Whole(nn.Module):
    """A model as tensors in, tensors out: nested inputs and results are flattened.

    Example:
        >>> whole = Whole(nn.Linear(2, 3), (torch.ones(1, 2),), {})
        >>> [tuple(t.shape) for t in whole(*whole.tensors)]
        [(1, 3)]
    """

    def __init__(self, inner: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        super().__init__()
        self.inner = inner
        leaves, self._spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
        self._leaves = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self._places = [i for i, leaf in enumerate(self._leaves) if isinstance(leaf, torch.Tensor)]
        self.training = False

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors among the example inputs, in order."""
        return [self._leaves[i] for i in self._places]

    @property
    def call(self) -> str:
        """How the inputs are nested, and all in them that is no tensor."""
        return call_signature(self._leaves, self._spec)

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Call the model with these tensors in place of the example ones."""
        return tensors_of(self.called(tensors))

    def called(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Call the model with these tensors in place of the example ones; return its result as it is nested."""
        leaves = list(self._leaves)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        return self.inner(*args, **kwargs)


@dataclass(frozen=True)
class Loaded:
    """A model that is ready to be called."""

    name: str
    """Readable name."""
    module: nn.Module
    """The model, in eval mode."""
    args: tuple[Any, ...]
    """Positional inputs of one call."""
    kwargs: dict[str, Any]
    """Inputs of one call by name."""
    text: str | None
    """Source of a file in the KernelBench form that makes the same; None where the module exists in memory alone."""
    origin: Path
    """The file that `text` belongs beside."""
    notes: tuple[str, ...] = ()
    """What was changed while it was loaded."""
    numerics: Numerics | None = None
    """How far its kernels may be off; None for the contract's own."""

    def judged(self, task: Task) -> Task:
        """Return a task of the model under its numerics."""
        if self.numerics is None:
            return task
        return task.model_copy(update={"contract": task.contract.under(self.numerics)})

    @property
    def whole(self) -> Whole:
        """The model as tensors in, tensors out."""
        return Whole(self.module, self.args, self.kwargs)

    def within(self, made: nn.Module) -> nn.Module:
        """Return the model inside a module that `text` made: a file of the KernelBench form is the model itself."""
        inner = getattr(made, "inner", None)
        wraps = self.text is not None and self.text.startswith(_OPENING) and isinstance(inner, nn.Module)
        return inner if wraps and inner is not None else made


def is_model(target: object, *, whole: bool = False) -> bool:
    """Tell whether a target is a whole model; any other is one op.

    A model is an `nn.Module`, a `.pt2` archive, `hf:NAME`, and a file with a function `build`, or another plain
    function that is named, unless that function is under `@kw.task`. A file of the KernelBench form (`Model`,
    `get_inputs`) is one op, unless `whole` asks for the model.

    Example:
        >>> is_model("hf:llama"), is_model("examples/swiglu.py"), is_model(nn.ReLU())
        (True, False, True)
    """
    if isinstance(target, nn.Module):
        return True
    if not isinstance(target, str | Path):
        return whole and callable(target)
    text = str(target)
    if text.startswith(_HUGGING_FACE) or text.endswith(".pt2"):
        return True
    path, symbol = _split(text)
    if path.suffix != ".py" or not path.is_file():
        return False
    try:
        functions = {n.name: n for n in ast.parse(path.read_text()).body if isinstance(n, _Definition)}
    except (SyntaxError, UnicodeDecodeError):
        return False
    if "Model" in functions and "get_inputs" in functions and symbol in {"", "Model"}:
        return whole
    made = functions.get(symbol or BUILD)
    return isinstance(made, ast.FunctionDef) and not made.decorator_list


_Definition = ast.FunctionDef | ast.ClassDef


@contextmanager
def unchanged(module: nn.Module) -> Iterator[None]:
    """Give a module its buffers back as they were, whatever calls inside change.

    Example:
        >>> norm = nn.BatchNorm1d(2)
        >>> with unchanged(norm):
        ...     _ = norm(torch.ones(4, 2))
        >>> int(norm.num_batches_tracked), norm.running_mean
        (0, tensor([0., 0.]))
    """
    before = [(b, b.detach().clone(), None if b.is_inference() else b._version) for b in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value, version in before:
                # batch norm writes its statistics without counting that as a write
                if version is None or buffer._version != version or not _equal(buffer, value):
                    buffer.copy_(value)
                if version is not None:  # a backward pass may still read the buffer, which is as it was
                    torch._C._autograd._unsafe_set_version_counter((buffer,), (version,))


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Tell whether dense tensors are equal; of sparse ones, which torch does not compare, writes are counted."""
    return one.layout is not torch.strided or torch.equal(one, other)


def load_model(
    target: ModelTarget,
    inputs: object = None,
    *,
    sizes: Mapping[str, int] | None = None,
    training: bool = False,
) -> Loaded:
    """Load a model and the inputs of one call.

    Args:
        target: What to load; a function or a file's function returns `(module, inputs)`.
        inputs: Inputs of one call for a module that is passed as it is: a tuple of positional ones, or a dict by name.
        sizes: Arguments of the function, by name.
        training: Whether a model of transformers is to be one that returns a loss.

    Raises:
        TaskError: the target cannot be used as a model; the message explains why and what to do.
        MissingToolError: a package that the target needs is not installed.

    Example:
        >>> loaded = load_model("examples/small_transformer.py:build")
        >>> loaded.name, [tuple(t.shape) for t in loaded.whole.tensors]
        ('small_transformer', [(1, 64)])
    """
    if isinstance(target, nn.Module):
        if sizes:
            raise TaskError(
                "a module takes no sizes; pass the function that builds it, with them as arguments"
            )
        return _made(type(target).__name__.lower(), (target, inputs), None, Path("model.py"))
    if callable(target):
        file = inspect.getsourcefile(target)
        if file is None or not Path(file).is_file():
            made = _called(partial(target, **(sizes or {})), f"{target.__name__}()")
            return _made(named_at(target.__name__, sizes), made, None, Path("model.py"))
        target = f"{file}:{target.__name__}"
    text = str(target)
    if sizes and not _split(text)[0].suffix == ".py":
        raise TaskError(
            f"{text} takes no sizes; expected file.py:build, a function that takes {', '.join(sizes)}"
        )
    if text.startswith(_HUGGING_FACE):
        return _of_transformers(text.removeprefix(_HUGGING_FACE), training)
    if text.endswith(".pt2"):
        return _archive(Path(text))
    return _from_file(*_split(text), sizes or {})


def call_signature(leaves: Sequence[object], structure: object) -> str:
    """Return how inputs are nested, and all in them that is no tensor."""
    plain = ["tensor" if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in leaves]
    return f"{structure!r} {plain}"


def tensors_of(result: object) -> tuple[torch.Tensor, ...]:
    """Return the tensors of a nested result in order, those of dataclasses too; everything else is left out."""
    if isinstance(result, torch.Tensor):
        return (result,)
    if isinstance(result, Mapping):
        return tuple(t for v in result.values() for t in tensors_of(v))
    if isinstance(result, list | tuple):
        return tuple(t for v in result for t in tensors_of(v))
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return tuple(t for f in dataclasses.fields(result) for t in tensors_of(getattr(result, f.name)))
    return ()


def _split(target: str) -> tuple[Path, str]:
    head, colon, symbol = target.rpartition(":")
    return (Path(head), symbol) if colon and head.endswith(".py") else (Path(target), "")


def named_at(name: str, sizes: Mapping[str, int] | None) -> str:
    """Return the name of a model at these sizes."""
    return name + "".join(f"_{size}{count}" for size, count in (sizes or {}).items())


def _from_file(path: Path, symbol: str, sizes: Mapping[str, int]) -> Loaded:
    text = read_text(path)
    module = run_source(text, str(path), local_imports(path, text))
    if not sizes and not symbol and hasattr(module, "Model") and hasattr(module, "get_inputs"):
        return _of_kernelbench(path, text, module)
    symbol = symbol or BUILD
    build = getattr(module, symbol, None)
    if not callable(build):
        names = [
            n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__
        ]
        raise TaskError(
            f"{path} has no function {symbol!r} that returns (module, inputs); {known_names(symbol, names)}"
        )
    name = named_at(path.stem if symbol == BUILD else symbol, sizes)
    given = ", ".join(f"{size}={count}" for size, count in sizes.items())
    made = _called(partial(build, **sizes), f"{path}:{symbol}({given})")
    compiled = (
        isinstance(made, tuple) and isinstance(made[0], nn.Module) and taken_out(made[0]) is not made[0]
    )
    return _made(name, made, _file_text(path, symbol, given, compiled), path)


def _of_kernelbench(path: Path, text: str, module: Any) -> Loaded:
    init = module.get_init_inputs() if hasattr(module, "get_init_inputs") else ()
    made = _called(lambda: (module.Model(*init), tuple(module.get_inputs())), f"{path}: Model")
    return _made(path.stem, made, text, path)


def _of_transformers(name: str, training: bool) -> Loaded:
    build = build_text(name, training=training)
    path = Path(f"{architecture(name)}.py")
    made = _called(run_source(build, str(path)).build, f"hf:{name}")
    return _made(path.stem, made, whole_text(build), path)


def _archive(path: Path) -> Loaded:
    if not path.is_file():
        raise TaskError(f"archive {str(path)!r} does not exist; expected what torch.export.save wrote")
    try:
        program = torch.export.load(path)
        inputs = program.example_inputs
        module = program.module()
    except Exception as error:
        raise TaskError(f"{path} is no archive of torch.export: {type(error).__name__}: {error}") from error
    if inputs is None:
        raise TaskError(f"{path} was saved without example inputs; export it again with them")
    return _made(path.stem, (module, inputs), None, path.with_suffix(".py"), evaluates=False)


def _made(name: str, made: object, text: str | None, origin: Path, *, evaluates: bool = True) -> Loaded:
    """Check what a target made."""
    module, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, nn.Module):
        raise TaskError(
            f"{name}: expected a function that returns (module, inputs); it returned a {type(module).__name__}"
        )
    notes = ["taken out of torch.compile, a native form to beat"] if taken_out(module) is not module else []
    module = taken_out(module)
    args, kwargs = _inputs(name, module, inputs)
    check_values(name, module, (args, kwargs))
    notes += notes_on(module)
    if evaluates and module.training:
        module.eval()
        notes.append("put into eval mode: training is not optimised")
    return Loaded(name, module, args, kwargs, text, origin, tuple(notes))


def _inputs(name: str, module: nn.Module, inputs: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Read inputs: a tensor, a list, a dict by name, or a tuple, perhaps of positional ones and of those by name."""
    inputs = getattr(module, "example_inputs", None) if inputs is None else inputs
    match inputs:
        case None:
            raise TaskError(
                f"{name}: no inputs of one call were given; return (module, inputs), or pass inputs=..."
            )
        case torch.Tensor():
            return (inputs,), {}
        case Mapping():
            return (), {str(k): v for k, v in inputs.items()}
        case (tuple() as args, dict() as kwargs):
            return args, kwargs
        case list() | tuple():
            return tuple(inputs), {}
    raise TaskError(f"{name}: inputs are a {type(inputs).__name__}; expected a tuple, or a dict by name")


def _called(function: Callable[[], object], what: str) -> object:
    try:
        return function()
    except MissingToolError:
        raise
    except Exception as error:
        raise TaskError(f"{what} raised {type(error).__name__}: {error}") from error


def _file_text(path: Path, symbol: str, given: str, compiled: bool) -> str:
    """Return a file in the KernelBench form that makes the model of a file beside it, as `Whole` calls it."""
    if not given and not compiled:
        return whole_text(f"from {path.stem} import {symbol} as build")
    taken = "module._orig_mod" if compiled else "module"
    return whole_text(
        f"from {path.stem} import {symbol} as build_at\n\n\n"
        f"def build():\n    module, inputs = build_at({given})\n    return {taken}, inputs"
    )


def whole_text(build: str) -> str:
    """Return the text of a KernelBench file around code that defines `build`."""
    parts = "\n\n".join(inspect.getsource(part) for part in (Whole, call_signature, tensors_of))
    return _FILE.format(opening=_OPENING, build=build, parts=parts)


_OPENING = '"""A whole model as one task."""'
_FILE = """{opening}

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

{build}


{parts}

def _made():
    module, inputs = build()
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if isinstance(inputs, Mapping):
        return module.eval(), (), dict(inputs)
    if isinstance(inputs, tuple) and len(inputs) == 2 and isinstance(inputs[0], tuple) and isinstance(inputs[1], dict):
        return module.eval(), *inputs
    return module.eval(), tuple(inputs), {{}}


class Model(Whole):
    def __init__(self):
        super().__init__(*_made())


def get_inputs():
    _, args, kwargs = _made()
    return [leaf for leaf in pytree.tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor)]
"""

"""FastKernels: a zoo of architectures in which a kernel takes an operator's place; parity is that of the whole model.

Source: Snowflake-AI-Research/fastkernels, fastkernels/tasks/baseline, fastkernels/bench.py and
docs/agent-kernels-guide.md.
"""

import ast
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import TaskError
from ..records import Candidate, SourceFile, Task
from ._definitions import needed
from ._modules import LIMIT_S, ModuleForm, by_name, needs_gpu, reference_text
from ._protocol import Script
from ._records import Rules, SuiteProblem
from ._structure import PROBLEM
from ._submission import Submission

_PACKAGE, _BASELINE = "fastkernels", "fastkernels.tasks.baseline"
_MODEL = '''

import random
import types


class Model(torch.nn.Module):
    """An architecture, with weights of the sizes that training leaves."""

    def __init__(self):
        super().__init__()
        self.net = MADE
        with torch.no_grad():
            for name, p in self.net.named_parameters():
                torch.nn.init.normal_(p, std=p[0].numel() ** -0.5 if p.dim() > 1 else 0.1)
                if p.dim() == 1 and name.endswith("weight"):
                    p.add_(1)
        self.eval()

    def forward(self, *inputs):
        return CALLED


batch = 4


def get_inputs():
    return DRAWN


def get_init_inputs():
    return []
'''
_ZOO = "kw_zoo"
"""The module of the architecture as it is, which kernels import other operators from."""
_REPLACED = """

import submission

globals().update({name: getattr(submission, name) for name in NAMES if hasattr(submission, name)})
ModelNew = Model
"""


@dataclass(frozen=True)
class Architecture:
    """A model of the zoo at a small configuration."""

    name: str
    """The class."""
    made: str
    """The expression that makes it."""
    called: str
    """The expression that calls it on `inputs`, as a tensor or several."""
    drawn: str
    """The expression that draws inputs."""


_IMAGE = "[torch.randn(batch, 3, 32, 32)]"
_STAGES = (
    "[[{'kind': 'edge', 'in_chs': 8, 'exp_chs': 16, 'out_chs': 16, 'stride': 2, 'has_skip': False}], "
    "[{'kind': 'inverted', 'in_chs': 16, 'exp_chs': 32, 'out_chs': 16, 'stride': 1, 'se_reduce_chs': 4, "
    "'has_skip': True}]]"
)
ARCHITECTURES: Mapping[str, Architecture] = {
    "convnextv2": Architecture(
        "ConvNextV2ForImageClassification",
        "ConvNextV2ForImageClassification(types.SimpleNamespace(num_channels=3, hidden_sizes=[16, 32], depths=[1, 2], "
        "patch_size=4, layer_norm_eps=1e-6, num_labels=10))",
        "self.net(*inputs).logits",
        _IMAGE,
    ),
    "dlrmv2": Architecture(
        "DLRMv2",
        "DLRMv2(DLRMv2Config(num_embeddings_per_feature=[64] * 4, embedding_dim=16, bottom_mlp_dims=[32, 16], "
        "top_mlp_dims=[32, 1]))",
        "self.net(inputs[0], list(inputs[1:]))",
        "[torch.randn(batch, 13), *(torch.randint(0, 64, (batch, 2)) for _ in range(4))]",
    ),
    "efficientnetv2": Architecture(
        "EfficientNetV2ForImageClassification",
        f"EfficientNetV2ForImageClassification(8, {_STAGES}, 32, 10)",
        "self.net(*inputs)",
        _IMAGE,
    ),
}
"""By the name of its file in L4: those that need no package but torch, and keep their weights in a call."""


class FastKernels(ModuleForm):
    """The adapter of FastKernels."""

    name = program = "fastkernels"
    title = "FastKernels: operators within the architectures that use them, judged by the whole model"
    repository = "Snowflake-AI-Research/fastkernels"
    commit = "21f84ee41ca5f495fa4b26cb74e756490a98d4fe"
    layout = ("fastkernels/tasks/baseline/L1", "fastkernels/tasks/baseline/L4", "fastkernels/bench.py")
    rules = Rules(
        correctness="3 rounds of fresh inputs; 99 % of an operator's results within 1e-5 and 0.1 % of the baseline's "
        "in float32; weights taken over by name where names agree; then the text that the model writes",
        timing="median of 50 calls with a cold cache after 10",
        score="the baseline's time over the kernel's; then tokens, or images, a second of the model",
        trials=3, tolerance=1e-3, timed=50, seed=200,
        here="an operator is compared at every place of its architecture, on what the model gives it there, since "
        "captures of served models need GPUs; small configurations with drawn weights; in the place of a written text, "
        "which needs trained ones, `drift` compares what the model returns; mean of 50 calls of it by the host's clock",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the operators of each architecture that can be built without packages, by architecture."""
        return tuple(
            SuiteProblem(
                suite=self.name, name=f"{model}/{level}/{stem}", group=model,
                file=f"{_BASELINE.replace('.', '/')}/{level}/{stem}.py",
            )
            for model in ARCHITECTURES
            if (data / _BASELINE.replace(".", "/") / "L4" / f"{model}.py").is_file()
            for level, stem in sorted(_operators(data, model))
        )  # fmt: skip

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Write the architecture with all that it needs as one module."""
        model, level, stem = problem.name.split("/")
        path = folder / PROBLEM
        named = sorted(_operators(data, model)[level, stem])
        path.write_text(f"{_architecture(data, model)}\n\nkw_replaced = {named!r}\n")
        return path

    def candidates(self, folder: Path, problems: Sequence[SuiteProblem]) -> dict[str, Path]:
        """Find files named like their problems, and `L1/linear.py` for every architecture with that operator."""
        everywhere = {p.name: folder / f"{p.name.partition('/')[2]}.py" for p in problems}
        return {n: f for n, f in everywhere.items() if f.is_file()} | by_name(folder, problems)

    def candidate(self, task: Task, file: Path) -> Candidate:
        """Return the architecture with the file's classes in the places of the operator's.

        Raises:
            TaskError: it defines none of them.
        """
        text, problem = file.read_text(errors="replace"), reference_text(task)
        names = _replaced(problem)
        if not {n.name for n in _body(text, file) if isinstance(n, ast.ClassDef)} & set(names):
            raise TaskError(f"{file} defines no class {' or '.join(map(repr, names))}")
        return Candidate(
            sources=(
                SourceFile(path="entry.py", text=problem + _REPLACED.replace("NAMES", repr(names))),
                SourceFile(path="submission.py", text=alone(text)),
                SourceFile(path=f"{_ZOO}.py", text=problem),
            ),
            language="torch", entry="entry.py:ModelNew", style="module",
        )  # fmt: skip

    def submission(self, task: Task, candidate: Candidate) -> Submission | None:
        """Return nothing: a kernel of ours is of the whole architecture, which is no file of the zoo."""
        del task, candidate
        return None

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return its comparison at every place of the operator, and of the model; None if it needs a GPU."""
        del data, problem
        if needs_gpu(candidate):
            return None
        text = reference_text(task)
        given = {
            "reference": text, "submission": alone(candidate), "names": _replaced(text), "seed": self.rules.seed,
            "trials": self.rules.trials, "timed": self.rules.timed, "tolerance": self.rules.tolerance,
        }  # fmt: skip
        return Script(self.program, given, LIMIT_S)

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: it looks at what a kernel did, not at its text."""
        del candidate
        return ()


def alone(text: str) -> str:
    """Return a kernel's file that takes operators of the zoo, which it imports by their place, from one module.

    Example:
        >>> alone("from ..L1.linear import Linear\\nimport torch")
        'from kw_zoo import Linear\\nimport torch'
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith(_PACKAGE)):
            node.module, node.level = _ZOO, 0
    return ast.unparse(tree)


def _body(text: str, file: Path) -> Sequence[ast.stmt]:
    try:
        return ast.parse(text).body
    except SyntaxError as error:
        raise TaskError(f"{file} is no Python: {error}") from None


def _parts(data: Path, model: str) -> dict[tuple[str, str], ast.stmt]:
    """Return what an architecture needs, by module and name."""
    file = data / _BASELINE.replace(".", "/") / "L4" / f"{model}.py"
    return _read(data, model, file.stat().st_mtime_ns)


@functools.lru_cache(16)
def _read(data: Path, model: str, changed_ns: int) -> dict[tuple[str, str], ast.stmt]:
    """Read an architecture; `changed_ns` tells a file from what it was before."""
    del changed_ns
    found, one = dict[tuple[str, str], ast.stmt](), ARCHITECTURES[model]
    for name in dict.fromkeys(n.id for n in ast.walk(ast.parse(one.made)) if isinstance(n, ast.Name)):
        found |= needed({_PACKAGE: data}, f"{_BASELINE}.L4.{model}", name)
    if not any(name == one.name for _, name in found):
        raise TaskError(f"L4/{model}.py defines no {one.name} in this checkout")
    return found


def _operators(data: Path, model: str) -> dict[tuple[str, str], set[str]]:
    """Return the classes of each operator that an architecture uses, by level and file."""
    found: dict[tuple[str, str], set[str]] = {}
    for (module, _), node in _parts(data, model).items():
        *_, level, stem = module.split(".")
        if level in {"L1", "L2", "L3"} and isinstance(node, ast.ClassDef):
            found.setdefault((level, stem), set()).add(node.name)
    return found


def _architecture(data: Path, model: str) -> str:
    """Return an architecture's file: the definitions of all that it needs, each before what needs it.

    Raises:
        TaskError: two of its files give one name two meanings.
    """
    texts: dict[str, str] = {}
    for (module, name), node in _parts(data, model).items():
        text = ast.unparse(node)
        if texts.setdefault(name, text) != text:
            raise TaskError(f"{model} has two definitions of {name}, one in {module}; expected one")
    one = ARCHITECTURES[model]
    filled = _MODEL.replace("MADE", one.made).replace("CALLED", one.called).replace("DRAWN", one.drawn)
    parts = [text for text in dict.fromkeys(texts.values()) if "__future__" not in text]
    return "\n".join(["from __future__ import annotations\n\nimport torch", *parts]) + filled


def _replaced(text: str) -> list[str]:
    for node in ast.parse(text).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="kw_replaced")]):
                names: list[str] = ast.literal_eval(node.value)
                return names
    raise TaskError("the problem does not say what is replaced")

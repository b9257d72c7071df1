"""Liger-Kernel: the operators that its benchmark scripts set up, in PyTorch's or Transformers' form.

Source: linkedin/Liger-Kernel, benchmark/scripts (`setup_*`, `default_forward_fn`) and test/utils.py.
"""

import ast
import re
from pathlib import Path

from ..errors import TaskError
from ._definitions import definitions
from ._modules import ModuleForm
from ._records import Rules, SuiteProblem
from ._structure import PROBLEM

_FOLDER, _CONFIGS = "benchmark/scripts", "benchmark_model_configs.py"
_SETUP = re.compile(r"^def (setup_\w+)\(", re.MULTILINE)
_ONE_DRAWN = re.compile(r"torch\.randint\((.+), \(1,\)\)\.item\(\)")
_PROVIDERS = ("torch", "huggingface", "pytorch")
"""Who else than Liger computes an operator, as its scripts name them."""
_PACKAGE = "liger_kernel"
_ITS_OWN = ("utils", "benchmark_model_configs", "test", _PACKAGE)
_FROM_TESTS = re.compile(r"^\s*from (test\.[\w.]+) import (?!Liger)(\w+)$", re.MULTILINE)
_KNOWN = """
import inspect
import random
import types

import torch

SingleBenchmarkRunInput, MODEL_REGISTRY = types.SimpleNamespace, {}


def infer_device():
    return str(torch.get_default_device())


def transformers_version_dispatch(version, before, after, before_args=(), after_args=(), before_kwargs=None,
                                  after_kwargs=None):
    taken = inspect.signature(after).parameters  # a later version may take fewer
    return after(*after_args, **{k: v for k, v in (after_kwargs or {}).items() if k in taken})


"""
"""What scripts take from Liger's package and from the scripts next to them."""
_MODEL = '''

tokens = 1024
bsz, T, N = 1, 512, 8
hidden_size, intermediate_size, vocab_size = 4096, 14336, 128256
num_attention_heads, num_key_value_heads = 32, 8


def kw_setup():
    global device
    device = infer_device()
    model = {"hidden_size": hidden_size, "intermediate_size": intermediate_size, "vocab_size": vocab_size,
             "num_attention_heads": num_attention_heads, "num_key_value_heads": num_key_value_heads,
             "dtype": torch.bfloat16, "hidden_act": "silu", "bsz": bsz, "seq_len": tokens, "T": T, "N": N}
    return SETUP(types.SimpleNamespace(
        x=tokens, kernel_provider=PROVIDER, extra_benchmark_config=model | CONFIG
    ))


def kw_cells(call):
    for cell in getattr(call, "__closure__", None) or ():
        yield cell
        yield from kw_cells(cell.cell_contents)


def kw_drawn(x, call):
    """Return what an operator is called on: its argument, and tensors that its function holds."""
    held = [c.cell_contents for c in kw_cells(call) if isinstance(c.cell_contents, torch.Tensor)]
    return [x, *(t for i, t in enumerate(held) if all(t is not one for one in (x, *held[:i])))]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        x, self.kw_call = kw_setup()
        cells, drawn = list(kw_cells(self.kw_call)), kw_drawn(x, self.kw_call)
        self.kw_modules = [c for c in cells if isinstance(c.cell_contents, torch.nn.Module)]
        self.kw_tensors = [c for c in cells if isinstance(c.cell_contents, torch.Tensor)]
        self.kw_places = [[c.cell_contents is t for t in drawn].index(True) for c in self.kw_tensors]
        self.kw_held = torch.nn.ModuleList(c.cell_contents for c in self.kw_modules)

    def forward(self, *tensors):
        for cell, module in zip(self.kw_modules, self.kw_held):
            cell.cell_contents = module
        for cell, place in zip(self.kw_tensors, self.kw_places):
            cell.cell_contents = tensors[place]
        return self.kw_call(tensors[0])


def get_inputs():
    return [t.detach() for t in kw_drawn(*kw_setup())]


def get_init_inputs():
    return []
'''
"""Makes a set-up operator a module of KernelBench's form: what its function holds are arguments and weights."""


class Liger(ModuleForm):
    """The adapter of Liger-Kernel's benchmark scripts."""

    name = program = "liger"
    title = "Liger-Kernel: operators of language models in training, as its benchmark scripts set them up"
    repository = "linkedin/Liger-Kernel"
    commit = "ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c"
    layout = (f"{_FOLDER}/{_CONFIGS}", "src/liger_kernel")
    rules = Rules(
        correctness="one draw after one public seed, each element within tolerances, absolute and relative, that each "
        "test names by dtype; NaN and infinities at the same places",
        timing="median of Triton's do_bench, forward, backward and both, over lengths or models",
        score="time and peak memory against PyTorch's or Transformers' form",
        trials=1, tolerance=1e-4, timed=100, seed=42,
        here="forward alone, at the sizes of the script's default model; the tolerances are those of its test of RMS "
        "norm (1e-4 absolute for float32, 0.2 and 2 % for bfloat16); median of 100 calls by the host's clock",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the scripts that set an operator up by a function of their own."""
        return tuple(
            SuiteProblem(
                suite=self.name, name=f.stem.removeprefix("benchmark_"), group=_group(f.stem),
                file=f.relative_to(data).as_posix(),
            )
            for f in sorted((data / _FOLDER).glob("benchmark_*.py"))
            if _SETUP.search(f.read_text())
        )  # fmt: skip

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Write the script's set-up, for who else than Liger computes the operator, as a module."""
        text = (data / problem.file).read_text()
        named = re.findall(r'kernel_provider == "(\w+)"', text)
        filled = {
            "SETUP": _SETUP.findall(text)[0],
            "PROVIDER": repr(next((p for p in _PROVIDERS if p in named), _PROVIDERS[0])),
            "CONFIG": repr(extra_configs(text)),
        }
        model = _MODEL
        for mark, value in filled.items():
            model = model.replace(mark, value)
        path = folder / PROBLEM
        path.write_text(f"{_KNOWN}{from_tests(data, text, problem.name)}\n{alone(text)}{model}")
        return path

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: it screens no text."""
        del candidate
        return ()


def from_tests(data: Path, text: str, name: str) -> str:
    """Return the definitions that a script takes from Liger's tests for who else than Liger computes the operator.

    Raises:
        TaskError: one needs Triton, or is not there.
    """
    homes = {"test": data, _PACKAGE: data / "src"}
    found: dict[str, str] = {}
    for module, one in _FROM_TESTS.findall(text):
        found |= definitions(homes, module, [one], without="triton")
        if one not in found:
            raise TaskError(
                f"the reference of {name} is {module}.{one}, which needs Triton or is not in this checkout"
            )
    return "\n".join(found.values())


class _Alone(ast.NodeTransformer):
    """Takes away what is imported of Liger's own files, and lets single numbers be drawn where no tensor has values."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        return ast.Pass() if (node.module or "").partition(".")[0] in _ITS_OWN else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        drawn = _ONE_DRAWN.fullmatch(ast.unparse(node))
        return ast.parse(f"random.randrange({drawn[1]})", mode="eval").body if drawn else node


def alone(text: str) -> str:
    """Return a script without what it imports of Liger's own files and without its main part.

    Example:
        >>> print(alone("import torch\\nfrom liger_kernel.x import Y\\nif __name__ == '__main__':\\n    run()"))
        import torch
        pass
        >>> print(alone("n = torch.randint(1, B * T, (1,)).item()"))
        n = random.randrange(1, B * T)
    """
    kept = [
        node
        for node in ast.parse(text).body
        if not (isinstance(node, ast.If) and "__name__" in ast.unparse(node.test))
    ]
    return ast.unparse(_Alone().visit(ast.Module(body=kept, type_ignores=[])))


def extra_configs(text: str) -> dict[str, object]:
    """Return what a script's main part adds to a model's configuration, where it is written out.

    Of a loop it is the first; of a function's parameter, what a call names it.

    Example:
        >>> extra_configs("run(extra_configs={'eps': 1e-6, 'T': T})")
        {'eps': 1e-06}
        >>> extra_configs("extra_configs = {'H': 512}\\nrun(extra_configs=extra_configs)")
        {'H': 512}
        >>> extra_configs("for beta in [False, True]:\\n    run(extra_configs={'beta': beta})")
        {'beta': False}
    """
    tree = ast.parse(text)
    said: dict[str, ast.expr] = {
        k.arg: k.value
        for k in ast.walk(tree)
        if isinstance(k, ast.keyword) and k.arg and isinstance(k.value, ast.Constant)
    }
    for node in ast.walk(tree):
        match node:
            case ast.For(target=ast.Name(id=name), iter=ast.List(elts=[first, *_])):
                said[name] = first
            case _:
                continue
    found: dict[str, object] = {}
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="extra_configs", value=ast.Dict(keys=keys, values=values)):
                pairs = zip(keys, values, strict=True)
            case ast.Assign(targets=[ast.Name(id="extra_configs")], value=ast.Dict(keys=keys, values=values)):
                pairs = zip(keys, values, strict=True)
            case _:
                continue
        for key, given in pairs:
            value = said.get(given.id, given) if isinstance(given, ast.Name) else given
            if isinstance(key, ast.Constant) and isinstance(value, ast.Constant | ast.UnaryOp):
                found[str(key.value)] = ast.literal_eval(value)
    return found


def _group(stem: str) -> str:
    return "loss" if re.search(r"loss|entropy|kl_div|jsd|tvd", stem) else "layer"

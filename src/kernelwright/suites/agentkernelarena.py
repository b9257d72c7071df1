"""AgentKernelArena: workspaces for agents; of those that give a PyTorch module, the module is the problem.

Source: AMD-AGI/AgentKernelArena, tasks/torch2hip; a workspace has `config.yaml`, the module, and its own evaluation.
"""

import ast
from pathlib import Path

from ..errors import TaskError
from ._modules import ModuleForm, copied
from ._records import Rules, SuiteProblem

_FOLDER, _MODULE, _PREFIX = "tasks/torch2hip", "pytorch_code_module", "py_"
_MOST_ELEMENTS = 1 << 20
_WORKSPACE = """


class Model(NAME):
    def __init__(self):
        given = kw_init()
        apart = len(given) == 2 and isinstance(given[0], list) and isinstance(given[1], dict)
        super().__init__(**given[1]) if apart else super().__init__(*given)
        self.eval()


kw_init, kw_draw = get_init_inputs, get_inputs


def kw_cases():
    found = kw_draw()
    for case in [found] if isinstance(found, (list, tuple)) else found:
        yield list(case) if isinstance(case, (list, tuple)) else [case]


def kw_sizes():
    try:
        with torch.device("meta"):
            return [sum(x.numel() for x in case if isinstance(x, torch.Tensor)) for case in kw_cases()]
    except (NotImplementedError, RuntimeError):  # what looks at values while it draws has to have some
        with torch.device("cpu"):
            return [sum(x.numel() for x in case if isinstance(x, torch.Tensor)) for case in kw_cases()]


def kw_within(sizes):
    return [i for i, size in enumerate(sizes) if size <= MOST] or [sizes.index(min(sizes))]


def get_inputs():
    sizes = kw_sizes()
    chosen = max(kw_within(sizes), key=sizes.__getitem__)
    return next(case for i, case in enumerate(kw_cases()) if i == chosen)


def get_init_inputs():
    return []
"""
"""Makes a module of the workspace one of KernelBench's form, at the largest of its cases that is not too large."""


class AgentKernelArena(ModuleForm):
    """The adapter of AgentKernelArena."""

    name, program = "agentkernelarena", "agentkernelarena"
    title = "AgentKernelArena: workspaces for agents that give a PyTorch module and want a kernel"
    repository = "AMD-AGI/AgentKernelArena"
    commit = "d6f7c8a4f01fb0e57b6ee7a7c0af4d7c9d8a0f2b"
    layout = (_FOLDER, "src", "agents")
    rules = Rules(
        correctness="allclose at 1e-4 relative and 1e-5 absolute on every case of the workspace, each drawn once under "
        "a public seed, on copies; modules in evaluation mode, the kernel's with the reference's parameters",
        timing="mean of 100 calls after 10 warm-up calls on each case, averaged over the cases",
        score="20 if it compiles, 100 more if it is correct, and 100 times the speedup",
        trials=1, tolerance=1e-4, timed=100, seed=1337,
        here="a kernel is a Python file with `ModelNew`, since the benchmark's own form is HIP; cases of at most a "
        "million elements; the host's clock takes the place of a device's events",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the workspaces that give a module."""
        found = []
        for file in sorted((data / _FOLDER).rglob(f"{_MODULE}/{_PREFIX}*.py")):
            workspace = file.parent.parent
            found.append(
                SuiteProblem(
                    suite=self.name, name=f"{workspace.parent.name}/{workspace.name}", group=workspace.parent.name,
                    file=file.relative_to(data).as_posix(),
                )
            )  # fmt: skip
        return tuple(found)

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Copy the module, with one of its cases as inputs."""
        path = copied(data, problem, folder)
        text = path.read_text()
        name = _class_of(text, problem)
        path.write_text(text + _WORKSPACE.replace("NAME", name).replace("MOST", str(_MOST_ELEMENTS)))
        return path

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: what it refuses is an edit of the workspace's other files, and a kernel is one file here."""
        del candidate
        return ()


def _class_of(text: str, problem: SuiteProblem) -> str:
    """Return the class that a workspace is named after, or the last module of the file.

    Raises:
        TaskError: the file defines no class.
    """
    classes = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    if not classes:
        raise TaskError(f"{problem.file} of {problem.suite} defines no class; expected a `torch.nn.Module`")
    wanted = problem.file.rpartition("/")[2].removeprefix(_PREFIX).removesuffix(".py").partition("_")[2]
    return wanted if wanted in classes else classes[-1]

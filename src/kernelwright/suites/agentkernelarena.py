"""AgentKernelArena: workspaces for agents; of those that give a PyTorch module, the module is the problem.

Source: AMD-AGI/AgentKernelArena, tasks; a workspace has `config.yaml`, what is to be written, and its own evaluation.
"""

import ast
from pathlib import Path

from ..errors import TaskError
from ._modules import ModuleForm, copied
from ._records import Rules, SuiteProblem

_FOLDER, _MODULE, _PREFIX = "tasks", "pytorch_code_module", "py_"
_CONFIG, _MODEL = "config.yaml", "model.py"
_WITHOUT = {
    "triton2triton": "its reference is a Triton kernel that tests of its own draw inputs for, on a GPU of AMD's",
    "triton2flydsl": "its reference is a Triton kernel of another package, and its tests need a GPU of AMD's",
    "instruction2triton": "it asks for a Triton kernel in words; its tests need a GPU of AMD's",
    "flydsl2flydsl": "its reference is a kernel in FlyDSL, which runs on GPUs of AMD's alone",
    "hip2hip": "its reference is a program in HIP, which runs on GPUs of AMD's alone",
    "image_kernel": "it is edited within a container image of a server, on a GPU of AMD's",
    "repository": "it is edited within another repository, which is not in this checkout",
}
"""Why a workspace is no problem that a module states, by the type of its task."""
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
    layout = (f"{_FOLDER}/torch2hip", "src", "agents")
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
        """List the workspaces, those first that give a module."""
        configs = sorted((data / _FOLDER).rglob(_CONFIG))
        found = [_problem(data, config) for config in configs]
        return tuple(
            sorted(found, key=lambda p: (p.file.endswith(_CONFIG), not p.file.startswith(self.layout[0])))
        )

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Copy the module, with one of its cases as inputs.

        Raises:
            TaskError: the workspace gives none.
        """
        if problem.file.endswith(_CONFIG):
            kind = problem.file.split("/")[1]
            raise TaskError(
                f"{problem.name} gives no PyTorch module: {_WITHOUT.get(kind, f'it is a task {kind}')}"
            )
        path = copied(data, problem, folder)
        text = path.read_text()
        name = _class_of(text, problem)
        path.write_text(text + _WORKSPACE.replace("NAME", name).replace("MOST", str(_MOST_ELEMENTS)))
        return path

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: what it refuses is an edit of the workspace's other files, and a kernel is one file here."""
        del candidate
        return ()


def _problem(data: Path, config: Path) -> SuiteProblem:
    """Return a workspace: named by its folder, and outside `torch2hip` by the type of its task too."""
    workspace = config.parent
    kind, *between, name = workspace.relative_to(data / _FOLDER).parts
    modules = [*workspace.glob(f"{_MODULE}/{_PREFIX}*.py"), *workspace.glob(_MODEL)]
    file = modules[0] if modules else config
    group = between[-1] if kind == "torch2hip" and between else kind
    title = f"{group}/{name}" if group != kind else "/".join((kind, *between, name))
    return SuiteProblem(
        suite=AgentKernelArena.name, name=title, group=group, file=file.relative_to(data).as_posix()
    )


def _class_of(text: str, problem: SuiteProblem) -> str:
    """Return the class that a workspace is named after, `Model`, or the last module of the file.

    Raises:
        TaskError: the file defines no class.
    """
    classes = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    if not classes:
        raise TaskError(f"{problem.file} of {problem.suite} defines no class; expected a `torch.nn.Module`")
    wanted = problem.file.rpartition("/")[2].removeprefix(_PREFIX).removesuffix(".py").partition("_")[2]
    return next((name for name in (wanted, "Model") if name in classes), classes[-1])

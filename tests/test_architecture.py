"""The house keeps its shape: who may import whom, how long a module is, what start-up costs."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import kernelwright

HOME = Path(kernelwright.__file__).parent
MODULES = sorted(p.relative_to(HOME) for p in HOME.rglob("*.py"))

ROOT = {"errors", "config", "records", "registry", "system"}
SERVICES = {"devices", "languages", "llm", "sandbox", "store", "tasks"}
STAGES = {"profile", "bound", "propose", "verify", "measure", "deploy", "learn"}
EVERYTHING = {"*"}

ALLOWED = {
    "__init__": EVERYTHING,
    "__main__": {"cli"},
    "errors": set(),
    "config": {"errors"},
    "system": set(),
    "records": set(),
    "registry": {"errors"},
    "tasks": ROOT,
    "devices": ROOT,
    "languages": ROOT,
    "sandbox": ROOT | {"languages"},
    "store": ROOT,
    "llm": ROOT | {"store"},
    "cluster": ROOT | {"devices"},
    **{stage: ROOT | SERVICES for stage in STAGES},
    "compiler": ROOT | {"languages", "tasks"},
    "amd": {"errors"},
    "executor": {"config", "devices", "errors", "languages", "records"},
    "craft": {"config", "errors", "languages", "llm"},
    "web": {"errors", "tasks"},
    "ops": ROOT | {"devices", "languages", "sandbox", "store", "tasks"},
    "propose": ROOT | SERVICES | {"compiler", "ops"},
    "search": (EVERYTHING, {"cli", "report", "flow", "api", "server", "models"}),
    "flow": (EVERYTHING, {"cli", "report", "server", "api", "models"}),
    "api": (EVERYTHING, {"cli", "report", "server", "models"}),
    "suites": (EVERYTHING, {"cli", "report", "server"}),
    "models": (EVERYTHING, {"cli", "report", "server", "suites"}),
    "testing": EVERYTHING,
    "report": EVERYTHING,
    "server": (EVERYTHING, {"cli"}),
    "cli": EVERYTHING,
}
"""What `docs/architecture.md` says, package by package; a pair is everything less something."""

APART = {"deploy/runtime", "deploy/templates"}
"""Folders that are copied into exported packages and import nothing of ours."""


_ONE_TEXT = "the text of one kernel, which is read as a whole"
LONG = {
    ("ops/loss/triton.py", "_render"): _ONE_TEXT,
    ("ops/gemm/triton.py", "_render"): _ONE_TEXT,
    ("ops/attention/gpu_decode.triton.py", "share"): "one kernel, which is read as a whole",
    (
        "testing/_model.py",
        "_handler",
    ): "holds a class of short methods, as `http.server` wants one for each model",
}
"""Functions of more than 60 lines, and why."""


def package_of(module: Path) -> str:
    return module.parts[0].removesuffix(".py")


@cache
def facts_of(module: Path) -> tuple[set[str], set[str]]:
    """Return what a module imports, and its functions that are too long: read once, as parsing all takes seconds."""
    tree = ast.parse((HOME / module).read_text())
    return imported_by(tree, module), long_functions(tree)


def names_of(module: Path) -> set[str]:
    """Name what a module imports, anywhere in it, in full: modules and what they hold."""
    return facts_of(module)[0]


def imported_by(tree: ast.Module, module: Path) -> set[str]:
    found = set()
    home = ("kernelwright", *module.parts[:-1])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = list(home[: len(home) - node.level + 1]) if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{stem}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("kernelwright.")}


def imports_of(module: Path) -> set[str]:
    """Name the packages of ours that a module imports, anywhere in it."""
    return {name.split(".")[1] for name in names_of(module)}


def circle_in(arrows: dict[str, set[str]]) -> set[str]:
    """Return names that lead to each other in a circle; none where there is no circle."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return set(error.args[1])
    return set()


def arrows_between_modules() -> dict[str, set[str]]:
    """Return who imports whom, at any place of a module, for type checkers alone too."""
    names = {
        ".".join(("kernelwright", *m.with_suffix("").parts)).removesuffix(".__init__"): m for m in MODULES
    }
    return {
        name: {n if n in names else n.rpartition(".")[0] for n in names_of(module)} & names.keys() - {name}
        for name, module in names.items()
    }


def arrows_between_rooms(package: str) -> dict[str, set[str]]:
    """Return which folder of a package imports from which other; files beside the folders are not counted."""

    def room(name: str) -> str:
        parts = name.split(".")
        inside = len(parts) > 2 and parts[1] == package and (HOME / package / parts[2]).is_dir()
        return parts[2] if inside else ""

    arrows: dict[str, set[str]] = {}
    for name, imported in arrows_between_modules().items():
        if room(name):
            arrows.setdefault(room(name), set()).update(
                {room(other) for other in imported} - {"", room(name)}
            )
    return arrows


def is_allowed(package: str, imported: str) -> bool:
    rule = ALLOWED[package]
    allowed, denied = rule if isinstance(rule, tuple) else (rule, set())
    if imported in {package, "__version__"}:
        return True
    return imported not in denied and (allowed == EVERYTHING or imported in allowed)


def test_imports_keep_to_the_table():
    """All modules in one test: each takes a millisecond, a test of its own ten."""
    modules = {m: package_of(m) for m in MODULES if m.parent.as_posix() not in APART}
    assert not set(modules.values()) - ALLOWED.keys(), "not in the table of docs/architecture.md"
    wrong = {
        str(m): {n for n in imports_of(m) if not is_allowed(package, n)} for m, package in modules.items()
    }
    assert not {m: names for m, names in wrong.items() if names}, "see docs/architecture.md"


def test_the_table_would_catch_a_stage_that_imports_a_stage():
    assert not is_allowed("verify", "measure")
    assert not is_allowed("store", "search")
    assert not is_allowed("records", "errors")
    assert not is_allowed("search", "cli")
    assert imports_of(Path("search/proposals/_proposals.py")) >= {
        "learn",
        "propose",
        "records",
        "store",
        "tasks",
    }


def test_no_module_is_too_long():
    lines = {m: (HOME / m).read_text().count("\n") for m in MODULES}
    assert not {m: n for m, n in lines.items() if n > (150 if m == Path("flow.py") else 400)}


def long_functions(tree: ast.Module) -> set[str]:
    """Name the functions whose bodies, signature and docstring not counted, are longer than 60 lines."""
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    found = set()
    for function in functions:
        body = function.body[ast.get_docstring(function) is not None :] or function.body
        if (function.end_lineno or 0) - body[0].lineno >= 60:
            found.add(function.name)
    return found


def test_functions_are_short_or_it_is_said_why():
    found = {(m.as_posix(), name) for m in MODULES for name in facts_of(m)[1]}
    assert found == set(LONG)


def test_a_long_function_would_be_seen():
    lines = "\n".join(f"    x = {i}" for i in range(61))
    assert long_functions(ast.parse(f"def f():\n{lines}")) == {"f"}
    assert long_functions(ast.parse(f'def f():\n    """Say."""\n{lines[:400]}')) == set()


def test_no_modules_import_each_other():
    assert circle_in(arrows_between_modules()) == set()


@pytest.mark.parametrize("package", ["search", "tasks"])
def test_no_rooms_import_each_other(package):
    assert circle_in(arrows_between_rooms(package)) == set()


def test_a_circle_would_be_seen():
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == {"a", "b", "c"}
    arrows = arrows_between_modules()
    facts, problem = "kernelwright.tasks._observed", "kernelwright.tasks._problem"
    assert problem in arrows[facts]
    assert circle_in({**arrows, problem: arrows[problem] | {facts}}) == {facts, problem}
    rooms = arrows_between_rooms("search")
    assert "evaluation" in rooms["session"]
    assert circle_in({**rooms, "evaluation": {"session"}}) >= {"evaluation", "session"}


def loaded_after(*arguments: str) -> set[str]:
    code = (
        "import sys\n"
        f"{arguments[0]}\n"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_importing_the_package_loads_nothing_heavy():
    assert loaded_after("import kernelwright").isdisjoint({"torch", "pydantic", "cyclopts", "rich", "numpy"})


def test_the_flow_does_not_load_what_only_tests_of_random_ops_use():
    code = "import sys, kernelwright.flow; sys.exit('scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_program_does_not_collect_what_stays_over_and_over():
    code = "import gc; from kernelwright.cli import main; main(['--help']); sys.exit(gc.get_threshold()[0] < 10_000)"
    assert subprocess.run([sys.executable, "-c", f"import sys; {code}"], check=False).returncode == 0


def test_help_does_not_load_torch():
    loaded = loaded_after("from kernelwright.cli import main; main(['--help'])")
    assert "cyclopts" in loaded
    assert loaded.isdisjoint({"torch", "pydantic", "numpy"})


def test_help_of_no_command_loads_torch():
    ask = "from kernelwright.cli import _app; [_app.main([name, '--help']) for name in _app.COMMANDS]"
    assert "torch" not in loaded_after(ask)

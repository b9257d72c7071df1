#!/usr/bin/env python3
"""Run every check: lints, types, tests. CI calls this too. `docs/testing.md` says which to run when.

    python check.py                     all; `--quick`: what a change most likely breaks
    python check.py tests -k softmax    the tests alone, with pytest's arguments
    python check.py bare                the sandbox tests as on a machine without the optional tools
    python check.py long [NAME]         batteries that take long, all or one

Tests run side by side, save those marked `alone`: they run before the others, one by one.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TESTS = Path(__file__).with_name("tests")
WORKERS = str(min(os.cpu_count() or 1, 4) + 2)
"""Two more than cores: a fifth of the tests' time is waiting, for other processes and for deadlines."""
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    "PYTHONHASHSEED": "0",
    "OMP_WAIT_POLICY": "passive",
}
"""Workers that share the tests must find them in the same order, leave each other the cores while they wait, and read
what pytest made of a test file once, rather than each make it anew."""
PYTEST = [sys.executable, "-m", "pytest"]
SIDE_BY_SIDE = [
    *PYTEST,
    "-n",
    WORKERS,
    "--dist",
    "loadfile",
    "--no-loadscope-reorder",
    "--max-worker-restart",
    "0",
]
"""Each file by one worker, in the order of `tests/conftest.py`: those that take long first. One that dies fails
the run: started again, it would die of the same test, and the run wait for ever."""
SLOWEST = ["--durations", "15", "--durations-min", "2"]
"""Tests take minutes together: those that take long are named."""
NOTHING_CHOSEN = 5
"""What pytest ends with where its arguments choose no test."""
ALONE = [
    str(p.relative_to(TESTS.parent))
    for p in sorted(TESTS.rglob("test_*.py"))
    if "mark.alone" in p.read_text()
]
"""Files with tests marked `alone`: to import all others takes as long as to run many of these."""
STEPS = {
    "lint": [
        [sys.executable, "-m", "ruff", "check", "."],
        [sys.executable, "-m", "ruff", "format", "--check", "."],
    ],
    "types": [[sys.executable, "-m", "mypy"]],
    "tests": [
        [*PYTEST, *SLOWEST, "-m", "alone and not long", *ALONE],
        [*SIDE_BY_SIDE, *SLOWEST, "-m", "not alone and not long"],
    ],
}
MEANWHILE = {"types": [*PYTEST, "--collect-only"]}
"""What runs while a step has one core: test files are read once, or each worker would make what is kept of them."""
SLICE = ("out_of_bounds_cpp", "nan_swallowed", "input_marked", "cache_by_fingerprint", "counter_closure")
"""Exploits of five kinds, which stand for all in a quick run."""
QUICK_TESTS = (
    "tests/test_architecture.py", "tests/test_tools.py", "tests/test_check.py", "tests/test_bootstrap.py",
    "tests/test_flow.py", "tests/docs/test_documents.py", "tests/store", "tests/bound", "tests/report", "tests/learn",
    "tests/tasks/capture/test_capture.py", "tests/tasks/forms/test_definition.py", "tests/verify/test_verify.py",
    "tests/compiler/test_lowering.py", "tests/compiler/test_products.py",
    "tests/measure/test_decide.py", "tests/search/session/test_session.py", "tests/sandbox/test_worker.py",
    "tests/cli/test_console.py", "tests/cli/test_program.py",
    *(f"tests/adversarial/test_exploits.py::test_it_is_rejected_by_the_expected_check[{name}]" for name in SLICE),
)  # fmt: skip
"""What a change most likely breaks: shape, documents, records, the judge's core, the printer of C++, five exploits."""
QUICK = {
    "lint": STEPS["lint"],
    "types": STEPS["types"],
    "tests": [[*SIDE_BY_SIDE, "-m", "not alone and not slow and not long", *QUICK_TESTS]],
}
"""What `--quick` runs."""
OTHERS = (
    "benchmarks", "cli", "deploy", "devices", "executor", "languages", "models", "sandbox", "search", "store", "suites",
    "tasks", "verify",
)  # fmt: skip
"""Folders whose long tests have no battery of their own."""
LONG = {
    "naive": ["pytest", "tests/adversarial", "-m", "long"],
    "benign": ["pytest", "tests/benign", "-m", "long"],
    "ops": ["pytest", "tests/ops", "-m", "long", "--ignore", "tests/ops/wrong"],
    "compiler": ["pytest", "tests/compiler", "-m", "long"],
    "inductor": ["pytest", "tests/propose", "-m", "long"],
    "decisions": ["pytest", "tests/measure", "-m", "long"],
    "bundles": ["pytest", "tests/api", "-m", "long"],
    "sanitised": ["tests.ops.sanitised"],
    "wrong": ["pytest", "tests/ops/wrong", "-m", "long"],
    "judged": ["kernelwright", "ops", "verify", "all", "--brief", "--baseline", "eager"],
    "others": ["pytest", *(f"tests/{name}" for name in OTHERS), "-m", "long"],
    "exploits": ["benchmarks.exploits", "--matrix"],
    "honest": ["benchmarks.honest"],
    "errors": ["benchmarks.planted_errors"],
    "graphs": ["benchmarks.random_graphs", "--count", "20000"],
    "printers": ["benchmarks.random_printers", "--count", "2000"],
    "instructions": ["benchmarks.executor", "--fuzz", "2000"],
    "executor": ["benchmarks.executor_battery"],
    "executed": ["pytest", "tests/executor", "-m", "long"],
    "cluster": ["pytest", "tests/cluster", "-m", "long"],
    "cheats": ["benchmarks.suite_cheats"],
    "soak": ["benchmarks.soak"],
    "suites": ["benchmarks.own_suites", "--gates"],
    "same": ["benchmarks.aa"],
}
"""Batteries that take from minutes to hours, by name: the module of each and its arguments."""
LAYERS = ("tests/sandbox/test_promises.py", "tests/sandbox/test_pool.py")
"""What `bare` leaves out where bubblewrap, the one optional layer, was not there for `--check` either."""
OPTIONAL = ("bwrap", "clang", "perf", "nvcc", "node", "objdump", "qemu", "chromium")
"""Tools that `bare` takes off the PATH, with their numbered and suffixed names (`clang++`, `clang-19`)."""


def main() -> int:
    """Run the steps that were asked for, all of them even where one fails."""
    wanted, extra = sys.argv[1:2], sys.argv[2:]
    if wanted == ["bare"]:
        return bare(extra)
    if wanted == ["--quick"]:
        return run(QUICK, [])
    if wanted == ["long"]:
        if extra[:1] and extra[0] not in LONG:
            print(f"unknown battery {extra[0]!r}; expected one of {', '.join(LONG)}", file=sys.stderr)
            return 2
        chosen = {name: [[sys.executable, "-m", *LONG[name]]] for name in extra[:1] or LONG}
        return run(chosen, extra[1:])
    if wanted and wanted[0] not in STEPS:
        expected = ", ".join([*STEPS, "bare", "long", "--quick"])
        print(f"unknown step {wanted[0]!r}; expected one of {expected}", file=sys.stderr)
        return 2
    return run({step: STEPS[step] for step in wanted or STEPS}, extra)


def run(steps: dict[str, list[list[str]]], extra: list[str]) -> int:
    """Run the commands of each step and say how each ended."""
    failed, begun = [], time.monotonic()
    named = names_tests(extra)
    for step, commands in steps.items():
        with meanwhile(MEANWHILE.get(step, []) if steps.get("tests") == STEPS["tests"] else []):
            for command in commands:
                started = time.monotonic()
                words = [word for word in command if not (named and word in ALONE)]
                code = subprocess.run([*words, *extra], check=False, env=ENVIRONMENT).returncode
                code = 0 if code == NOTHING_CHOSEN and extra else code
                outcome = "ok" if code == 0 else f"failed ({code})"
                seconds = time.monotonic() - started
                print(f"{step}: {' '.join(words[2:])}: {outcome} in {seconds:.0f} s", flush=True)
                if code:
                    failed.append(step)
    print(
        f"{'failed: ' + ', '.join(failed) if failed else 'ok'} in {time.monotonic() - begun:.0f} s",
        flush=True,
    )
    return 1 if failed else 0


@contextmanager
def meanwhile(command: list[str]) -> Iterator[None]:
    """Run a command meanwhile, if there is one, and no longer; whatever it finds wrong is found again."""
    if not command:
        yield
        return
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield
        finally:
            process.terminate()


def names_tests(words: list[str]) -> bool:
    """Tell whether arguments of pytest name files, folders or tests."""
    return any(Path(word.partition("::")[0]).exists() for word in words)


def bare(extra: list[str]) -> int:
    """Run the sandbox tests, or those that are named, with the optional tools off the PATH and nothing at home."""
    with tempfile.TemporaryDirectory() as folder:
        tools, home = Path(folder) / "tools", Path(folder) / "home"
        tools.mkdir()
        home.mkdir()
        link_tools(os.environ.get("PATH", os.defpath), tools)
        named = names_tests(extra)
        chosen = extra if named else ["tests/sandbox", *extra]
        if not named and shutil.which("bwrap") is None:
            chosen += [f"--ignore={name}" for name in LAYERS]
        command = [*SIDE_BY_SIDE, "-m", "not alone and not long", *chosen]
        surroundings = {**ENVIRONMENT, "PATH": str(tools), "HOME": str(home)}
        code = subprocess.run(command, check=False, env=surroundings).returncode
    print(f"bare: without {', '.join(OPTIONAL)}: {'ok' if code == 0 else f'failed ({code})'}", flush=True)
    return 1 if code else 0


def link_tools(path: str, folder: Path) -> None:
    """Link into `folder` what `path` finds, the first of each name, but for the optional tools."""
    for place in path.split(os.pathsep):
        for tool in Path(place).glob("*") if place else ():
            link = folder / tool.name
            if not tool.name.startswith(OPTIONAL) and not link.is_symlink():
                link.symlink_to(tool)


if __name__ == "__main__":
    raise SystemExit(main())

"""Honest candidates that look suspicious: none may be rejected.

One file a candidate; its first line says what looks suspicious, `TASK` which of `tasks/` it solves, `RULE`
what that may call (anything by default), `CPP` a library that Python finds as `kernels`. A file that
defines `Model` is a module, any other defines `run`; C++ files write into their outputs.

What honest invalidation of packed weights looks like here: weights are tensors that torch writes, so that a
kernel may keep what it made of one as long as it keeps that very tensor and sees its `_version` unchanged.
An address alone is not enough (it is given to another tensor once the first is gone). Inputs are written by
the judge without torch knowing: nothing made of an input may outlive the call.
"""

import re
import secrets
from pathlib import Path

import pytest
from tests.ffi import sources_of
from tests.tools import TOOL_OF, require

from kernelwright.config import Settings
from kernelwright.languages import get_language
from kernelwright.records import Build, BuildStatus, Candidate, CheckStatus, Contract, SourceFile
from kernelwright.sandbox import Pool
from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Oracle, verify

HERE = Path(__file__).parent
FILES = sorted(
    p for p in HERE.iterdir() if p.suffix in {".py", ".cpp"} and p.stem not in {"__init__", "test_benign"}
)


ALWAYS = frozenset({
    "compiled_inside", "custom_operator", "dispatch_by_content", "early_exit", "environment_read", "flags_restored",
    "garbage_collected", "generated_code", "import_guard", "in_place_as_reference", "outputs_in_one_buffer",
    "own_generator", "own_kernel_strict", "packed_module", "packed_weight", "pairwise_sum", "prepared_weight",
    "scratch_buffer", "static_table", "temporary_file", "thread_pool", "unsupported_sizes", "view_as_reference",
    "warns",
})  # fmt: skip
"""One of each kind; `check.py long benign` runs the others, among them all of which only the arithmetic is unusual."""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = str(tmp_path_factory.mktemp("kernelwright"))
    return Settings.from_environment({"KERNELWRIGHT_CACHE": folder, "KERNELWRIGHT_STORE": folder})


@pytest.fixture(scope="module")
def pool(settings: Settings):
    with Pool(settings, arena_bytes=16 << 20) as pool:
        yield pool


@pytest.fixture(scope="module")
def oracles() -> dict[str, Oracle]:
    return {}


@pytest.fixture(scope="module")
def seeds() -> list[int]:
    """Secret, and the same for every candidate, so that what is expected of a task is computed once."""
    return [secrets.randbits(48) for _ in range(64)]


@pytest.fixture(scope="module", autouse=True)
def rejected():
    found: dict[str, str] = {}
    yield found
    print(f"\n{len(found)} false positives among {len(FILES)} honest candidates", *found.items(), sep="\n  ")


def oracle_of(task: str, rule: str, oracles: dict[str, Oracle]) -> Oracle:
    key = f"{task} {rule}"
    if key not in oracles:
        contract = Contract(calls=rule)
        oracles[key] = Oracle(Problem(load_task(str(HERE / "tasks" / f"{task}.py"), contract=contract)))
    return oracles[key]


def rule_of(path: Path) -> str:
    found = re.search(r'RULE = "([a-z-]+)"', path.read_text())
    return found[1] if found else "anything"


def built(path: Path, settings: Settings) -> tuple[str, Candidate, Build]:
    text = path.read_text()
    task = re.search(r'TASK = "(\w+)"', text)
    assert task is not None
    cpp = path.suffix == ".cpp"
    module = "class Model(" in text
    kernels = re.search(r'CPP = """(.*?)"""', text, re.DOTALL)
    sources = sources_of(path.name, text)
    candidate = Candidate(
        sources=(*sources, SourceFile(path="kernel.cpp", text=kernels[1])) if kernels else sources,
        language="cpp" if cpp or kernels else "triton" if "import triton" in text else "torch",
        entry=f"{path.name}:{'Model' if module else 'run'}",
        style="destination" if cpp else "module" if module else "function",
    )
    language = get_language(candidate.language)
    if candidate.language in TOOL_OF:
        require(TOOL_OF[candidate.language])
    build = type(language)(settings).build(candidate)
    assert build.status is BuildStatus.OK, build.diagnostics
    return task[1], candidate, build


def test_there_are_at_least_sixty() -> None:
    assert len(FILES) >= 60
    assert {p.stem for p in FILES} >= ALWAYS


@pytest.mark.parametrize(
    "path", [pytest.param(p, marks=() if p.stem in ALWAYS else pytest.mark.long, id=p.stem) for p in FILES]
)
def test_an_honest_candidate_is_not_rejected(
    path: Path,
    settings: Settings,
    pool: Pool,
    oracles: dict[str, Oracle],
    seeds: list[int],
    rejected: dict[str, str],
) -> None:
    task, candidate, build = built(path, settings)
    oracle = oracle_of(task, rule_of(path), oracles)
    verdict = verify(
        oracle.problem,
        candidate,
        build,
        pool=pool,
        depth="full",
        oracle=oracle,
        seeds=seeds,
        deadline_s=600.0,
    )
    bad = [f for f in verdict.findings if f.status is CheckStatus.FAIL]
    if bad:
        rejected[path.stem] = f"{bad[0].check}: {bad[0].message}"
    assert not bad, rejected[path.stem]
    unknown = [f for f in verdict.findings if f.status is CheckStatus.UNKNOWN]
    assert not unknown, unknown

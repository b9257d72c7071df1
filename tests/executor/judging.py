"""Judge a candidate of the task `2 * x.flip(-1)`, which every language can be shown by."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from kernelwright.config import Settings
from kernelwright.languages import get_language
from kernelwright.records import Build, Candidate, Finding, ModelledTime, SourceFile, Verdict
from kernelwright.sandbox import Pool
from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Depth, Oracle, modelled_times, verify

TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return 2 * x.flip(-1)

def get_inputs():
    return [torch.randn(6, 64)]

def get_init_inputs():
    return []
"""


class Judging:
    """Builds a candidate and verifies it, or models its launches."""

    def __init__(self, problem: Problem, pool: Pool) -> None:
        self._problem, self._pool = problem, pool

    def __call__(self, text: str, language: str, depth: Depth = "screen") -> Verdict:
        candidate, build = self._built(text, language)
        return verify(self._problem, candidate, build, pool=self._pool, depth=depth, deadline_s=600)

    def modelled(self, text: str, language: str) -> tuple[tuple[ModelledTime, ...], Finding]:
        candidate, build = self._built(text, language)
        return modelled_times(Oracle(self._problem), candidate, build, pool=self._pool, deadline_s=600)

    def _built(self, text: str, language: str) -> tuple[Candidate, Build]:
        suffix = {"cuda": "cu", "ascendc": "cpp"}.get(language)
        style, name = ("destination", f"k.{suffix}") if suffix else ("function", "k.py")
        source = SourceFile(path=name, text=text)
        candidate = Candidate(sources=(source,), language=language, entry=f"{name}:run", style=style)
        build = get_language(language).build(candidate)
        assert build.artefact, build.diagnostics
        return candidate, build


@contextlib.contextmanager
def judging(folder: Path) -> Iterator[Judging]:
    """Yield what judges, with caches and the task in a folder."""
    (folder / "mirror.py").write_text(TASK)
    problem = Problem(load_task(str(folder / "mirror.py")))
    settings = Settings.from_environment(
        {"KERNELWRIGHT_CACHE": str(folder), "KERNELWRIGHT_STORE": str(folder)}
    )
    with Pool(settings, arena_bytes=16 << 20) as pool:
        yield Judging(problem, pool)

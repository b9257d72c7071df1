"""Judge a candidate of the task `2 * x.flip(-1)`, which every language can be shown by."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from kernelwright.config import Settings
from kernelwright.languages import get_language
from kernelwright.records import Candidate, SourceFile, Verdict
from kernelwright.sandbox import Pool
from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Depth, verify

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


@contextlib.contextmanager
def judging(folder: Path) -> Iterator[Callable[..., Verdict]]:
    """Yield `judge(text, language, depth)`, with caches and the task in a folder."""
    (folder / "mirror.py").write_text(TASK)
    problem = Problem(load_task(str(folder / "mirror.py")))
    settings = Settings.from_environment(
        {"KERNELWRIGHT_CACHE": str(folder), "KERNELWRIGHT_STORE": str(folder)}
    )

    def judge(text: str, language: str, depth: Depth = "screen") -> Verdict:
        suffix = {"cuda": "cu", "ascendc": "cpp"}.get(language)
        style, name = ("destination", f"k.{suffix}") if suffix else ("function", "k.py")
        candidate = Candidate(
            sources=(SourceFile(path=name, text=text),), language=language, entry=f"{name}:run", style=style
        )
        build = get_language(language).build(candidate)
        assert build.artefact, build.diagnostics
        return verify(problem, candidate, build, pool=pool, depth=depth, deadline_s=600)

    with Pool(settings, arena_bytes=16 << 20) as pool:
        yield judge

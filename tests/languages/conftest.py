import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kernelwright.config import Settings
from kernelwright.records import Candidate, SourceFile, TensorSpec


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("languages")
    environ = {"KERNELWRIGHT_STORE": str(folder / "store"), "KERNELWRIGHT_CACHE": str(folder / "cache")}
    return Settings.from_environment(environ)


@pytest.fixture
def fresh(tmp_path: Path) -> Settings:
    environ = {"KERNELWRIGHT_STORE": str(tmp_path / "store"), "KERNELWRIGHT_CACHE": str(tmp_path / "cache")}
    return Settings.from_environment(environ)


@pytest.fixture
def example() -> Callable[[ModuleType], tuple[SourceFile, str]]:
    return documented_example


def documented_example(module: ModuleType) -> tuple[SourceFile, str]:
    """Return the candidate that a language's docstring shows: its file and its entry."""
    lines = (module.__doc__ or "").splitlines()
    start = next(i for i, line in enumerate(lines) if 'entry "' in line)
    end = next(
        (i for i in range(start, len(lines)) if lines[i] and not lines[i].startswith("    ")), len(lines)
    )
    entry = re.search(r'entry "([^"]+)"', lines[start])
    assert entry is not None
    text = textwrap.dedent("\n".join(lines[start:end]))
    return SourceFile(path=entry[1].split(":")[0], text=text), entry[1]


def one_file(
    text: str, language: str, entry: str, style: str = "function", flags: tuple[str, ...] = ()
) -> Candidate:
    source = SourceFile(path=entry.split(":")[0], text=textwrap.dedent(text))
    return Candidate(sources=(source,), language=language, entry=entry, style=style, flags=flags)


def spec(*shape: int, dtype: str = "float32", name: str = "out") -> TensorSpec:
    return TensorSpec(name=name, shape=shape, dtype=dtype)

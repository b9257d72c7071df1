"""Candidate: source that claims to compute a task faster. Build: the result of compiling it."""

from enum import StrEnum
from functools import cached_property
from typing import Literal

from ._record import Record, Scalar, content_key
from .task import SourceFile


class Candidate(Record):
    """Source files in one language with an entry point; identified by the hash of what would run."""

    sources: tuple[SourceFile, ...]
    """The files, in any order."""
    language: str
    """Name of the `Language` that builds and loads it."""
    entry: str
    """`path:symbol`."""
    style: Literal["destination", "function", "module"] = "function"
    """How the entry is called (docs/architecture.md, "How a candidate is called").
    `destination`: a compiled symbol, arguments then state then outputs, all in place;
    `function`: Python, arguments then state, returns the outputs;
    `module`: a class made with the task's init arguments, given the state, called with the arguments."""
    flags: tuple[str, ...] = ()
    """Compiler flags beyond the language's own."""
    parameters: dict[str, Scalar] = {}
    """The configuration it was rendered with, if it came from a template."""
    template: str | None = None
    """Name of the template it was rendered from."""
    parents: tuple[str, ...] = ()
    """Keys of the candidates it was derived from."""
    proposer: str = "user"
    """Name of the proposer."""
    reason: str = ""
    """The rationale, in one line."""

    @cached_property
    def key(self) -> str:
        """Hash of what would run; parents and rationale do not change it."""
        files = [part for s in sorted(self.sources, key=lambda s: s.path) for part in (s.path, s.text)]
        return content_key(self.language, self.entry, self.style, *self.flags, "--", *files)


class BuildStatus(StrEnum):
    """The outcome of a build."""

    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"


class Build(Record):
    """The outcome of compiling a candidate, with the compiler's output and facts read from the object file."""

    status: BuildStatus
    """Whether it can be loaded."""
    artefact: str | None = None
    """Path of the folder with the built files, if there is something to load."""
    diagnostics: str = ""
    """The compiler's output, at most 20,000 characters."""
    evidence: dict[str, Scalar] = {}
    """Static facts by name: `vector_width_bits`, `spills`, `registers`, `sm_90.registers` ..."""
    findings: tuple[str, ...] = ()
    """Problems that the static facts point to, such as a spill; advice, never a verdict."""
    time_s: float = 0.0
    """Wall seconds of the build; 0 if it came from the cache."""
    toolchain: str = ""
    """Compiler and version; part of the evaluation cache's key."""

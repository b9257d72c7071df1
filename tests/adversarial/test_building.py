"""Sources that read or write the judge's files while they are compiled: each does where compilers run free."""

import os

import pytest

from kernelwright.config import Settings
from kernelwright.languages import _process, get_language, triton
from kernelwright.records import BuildStatus, Candidate, SourceFile

SECRET = "expected value 42"
WORD = SECRET.replace(" ", "_")
"""What compilers quote whole."""
SOURCES = {
    "include": ('#include "{folder}/secret"', ()),
    "assembler": ('asm(".include \\"{folder}/secret\\"");', ()),
    "process": ('#include "/proc/{pid}/environ"', ()),
    "dump": ("int nothing;", ("-fdump-tree-original={folder}/{secret}",)),
}
"""Text and flags by what they go for: a file in a message of the compiler or the assembler, keys in the judge's
environment, a file of the judge written over."""

pytestmark = pytest.mark.needs("Landlock", "g++")


def taken(name, folder):
    """Compile, and tell whether the source got what it went for."""
    (folder / "secret").write_text(SECRET)
    words = {"folder": folder, "pid": os.getpid(), "secret": SECRET.replace(" ", "-")}
    text, flags = SOURCES[name]
    candidate = Candidate(
        sources=(SourceFile(path="kernel.cpp", text=text.format(**words)),), language="cpp",
        entry="kernel.cpp:run", style="destination", flags=tuple(f.format(**words) for f in flags),
    )  # fmt: skip
    settings = Settings.from_environment(
        {"KERNELWRIGHT_CACHE": str(folder / "cache"), "KERNELWRIGHT_CXX": "g++"}
    )
    build = type(get_language("cpp"))(settings).build(candidate)
    assert build.status is BuildStatus.FAILED
    if name == "process":
        return "environ: Permission denied" not in build.diagnostics
    return SECRET in build.diagnostics or words["secret"] in {p.name for p in folder.iterdir()}


@pytest.mark.parametrize("name", SOURCES)
def test_it_gets_nothing(name, tmp_path):
    assert not taken(name, tmp_path)


@pytest.mark.parametrize("name", SOURCES)
def test_it_would_where_compilers_run_free(name, tmp_path, monkeypatch):
    monkeypatch.setattr(_process, "landlock_version", lambda: 0)
    assert taken(name, tmp_path)


TRITON = """
import triton

text = open("{folder}/secret").read()
raise ValueError(text)

@triton.jit
def nothing(x):
    pass

TRITON_EVIDENCE = [{{"kernel": "nothing", "signature": {{"x": "*fp32"}}}}]

def run(x):
    return x
"""
OPENCL = """
#include "{folder}/secret"
// launch: global = 1
__kernel void run(__global float* x) {{}}
"""


def quoted(language, text, style, folder):
    """Compile, and tell whether what the build says quotes the judge's file."""
    (folder / "secret").write_text(WORD)
    candidate = Candidate(
        sources=(SourceFile(path="kernel", text=text.format(folder=folder)),), language=language,
        entry="kernel:run", style=style,
    )  # fmt: skip
    settings = Settings.from_environment({"KERNELWRIGHT_CACHE": str(folder / "cache")})
    build = type(get_language(language))(settings).build(candidate)
    return WORD in " ".join((build.diagnostics, *build.findings))


@pytest.mark.needs("triton")
@pytest.mark.parametrize("free", [False, True])
def test_what_escapes_as_triton_gets_nothing(free, tmp_path, monkeypatch):
    monkeypatch.setattr(triton, "jitted_source", lambda text: text)
    if free:
        monkeypatch.setattr(_process, "landlock_version", lambda: 0)
    assert quoted("triton", TRITON, "function", tmp_path) is free


@pytest.mark.needs("OpenCL")
@pytest.mark.parametrize("free", [False, True])
def test_a_source_in_opencl_quotes_nothing(free, tmp_path, monkeypatch):
    if free:
        monkeypatch.setattr(_process, "landlock_version", lambda: 0)
    assert quoted("opencl", OPENCL, "destination", tmp_path) is free

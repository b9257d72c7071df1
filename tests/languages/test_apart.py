"""Files of one candidate are compiled apart, each once for what it is made of."""

import time
from pathlib import Path

import pytest
import torch

from kernelwright.languages import _apart
from kernelwright.languages.cpp import Cpp
from kernelwright.records import BuildStatus, Candidate, SourceFile, TensorSpec

pytestmark = pytest.mark.needs("g++")
HEADER = SourceFile(
    path="two.h", text='#pragma once\n#include "kernelwright.h"\ninline float two() { return 2; }\n'
)


def candidate(factor="two()", more="0", *others, header=HEADER):
    """A kernel that asks two functions in files of their own."""
    files = {
        "main.cpp": "float factor(); float more();\n"
        "KW_KERNEL(f) { *args.tensor<float>(1).data() = factor() * *args.tensor<const float>(0).data() + more(); }\n",
        "factor.cpp": f"float factor() {{ return {factor}; }}\n",
        "more.cpp": f"float more() {{ return {more}; }}\n",
    }
    sources = [SourceFile(path=name, text=f'#include "two.h"\n{text}') for name, text in files.items()]
    return Candidate(
        sources=(*sources, header, *others), language="cpp", entry="main.cpp:f", style="destination"
    )


def value(settings, asked):
    language = Cpp(settings)
    build = language.build(asked)
    assert build.status is BuildStatus.OK, build.diagnostics
    kernel = language.load(
        asked, Path(build.artefact), (TensorSpec(name="out", shape=(1,), dtype="float32"),)
    )
    return float(kernel(torch.tensor([5.0])))


@pytest.fixture
def compiled(monkeypatch):
    """The files that the compiler is given, in order; links are `kernel.so`."""
    given, run = [], _apart.run_tool

    def counted(words, **options):
        given.append(
            str(words[words.index("-c") + 1]) if "-c" in words else str(words[words.index("-o") + 1])
        )
        return run(words, **options)

    monkeypatch.setattr(_apart, "run_tool", counted)
    return given


def test_only_the_file_that_changed_is_compiled_again(fresh, compiled):
    assert value(fresh, candidate()) == 10.0
    assert sorted(compiled) == ["factor.cpp", "kernel.so", "main.cpp", "more.cpp"]
    compiled.clear()
    assert value(fresh, candidate(more="3")) == 13.0
    assert compiled == ["more.cpp", "kernel.so"]


def test_a_header_that_changed_has_every_file_compiled_again(fresh, compiled):
    value(fresh, candidate())
    compiled.clear()
    header = HEADER.model_copy(update={"text": HEADER.text.replace("return 2", "return 4")})
    assert value(fresh, candidate(header=header)) == 20.0 and len(compiled) == 4


def test_a_header_that_changed_has_the_files_compiled_again_that_reach_it(fresh, compiled):
    """So what several candidates share is compiled once, whatever else each of them has."""

    def asked(zero, include='"inner.h"'):
        inner = SourceFile(path="inner.h", text=f"#define ZERO {zero}\n")
        outer = SourceFile(path="outer.h", text=f'#define INNER "inner.h"\n#include {include}\n')
        given = candidate("two()", "ZERO", outer, inner)
        sources = [s.model_copy(update={"text": f'#include "outer.h"\n{s.text}'}) if s.path == "more.cpp" else s
                   for s in given.sources]  # fmt: skip
        return given.model_copy(update={"sources": tuple(sources)})

    assert value(fresh, asked(1)) == 11.0
    compiled.clear()
    assert value(fresh, asked(2)) == 12.0 and compiled == ["more.cpp", "kernel.so"]
    compiled.clear()
    assert value(fresh, asked(3, "INNER")) == 13.0 and compiled == ["more.cpp", "kernel.so"]


def test_python_around_the_kernels_changes_no_object(fresh, compiled):
    value(fresh, candidate())
    compiled.clear()
    assert value(fresh, candidate("two()", "0", SourceFile(path="run.py", text="# around"))) == 10.0
    assert compiled == ["kernel.so"]


def test_files_that_include_each_other_are_compiled_together(fresh, compiled):
    """An object would depend on a file that does not name it."""
    for factor in ("2", "3"):
        asked = candidate(factor="included()")
        inner = SourceFile(path="inner.cpp", text=f"static float included() {{ return {factor}; }}\n")
        files = [s if s.path != "factor.cpp" else s.model_copy(update={"text": f'#include "inner.cpp"\n{s.text}'})
                 for s in asked.sources]  # fmt: skip
        whole = asked.model_copy(update={"sources": (*files, inner)})
        assert value(fresh, whole) == float(factor) * 5
    assert not compiled


def test_a_file_included_by_a_macro_is_not_found(fresh):
    """It would be read unseen: files are compiled where the others are not."""
    factor = '0; }\n#define PATH "more.cp" "p"\n#define IT <more.cpp>\n#include IT\nfloat no() { return 0'
    build = Cpp(fresh).build(candidate(factor))
    assert build.status is BuildStatus.FAILED and "more.cpp" in build.diagnostics


def test_the_message_of_the_file_that_failed_is_kept_and_nothing_of_it(fresh):
    build = Cpp(fresh).build(candidate(more="nothing_of_this_name"))
    assert build.status is BuildStatus.FAILED
    assert "more.cpp" in build.diagnostics and "nothing_of_this_name" in build.diagnostics
    assert len(list((fresh.cache / "builds" / "objects").glob("[!.]*"))) == 2
    assert not list((fresh.cache / "builds" / "objects").glob(".*"))


def test_warnings_are_told_from_the_cache_too(fresh):
    warned = candidate(factor="[]{ int unused = 1; return 2; }()")
    assert "unused" in Cpp(fresh).build(warned).diagnostics
    again = candidate(factor="[]{ int unused = 1; return 2; }()", more="1")
    assert "unused" in Cpp(fresh).build(again).diagnostics


def test_all_files_share_one_deadline(fresh):
    slow = (
        "[]{ float a[] = {"
        + ",".join(f"{i} * __builtin_sin({i}.5)" for i in range(40000))
        + "}; return a[7]; }()"
    )
    begun = time.monotonic()
    build = Cpp(fresh).build(candidate(slow, slow), deadline_s=0.3)
    assert build.status is BuildStatus.TIMEOUT and time.monotonic() - begun < 30


def test_the_least_used_objects_go(fresh, monkeypatch):
    monkeypatch.setattr(_apart, "_KEPT", 4)
    for more in range(4):
        value(fresh, candidate(more=str(more)))
    assert len(list((fresh.cache / "builds" / "objects").glob("[!.]*"))) <= 4
    assert value(fresh, candidate(more="1")) == 11.0


def test_a_cache_that_takes_no_object_is_told(fresh, monkeypatch):
    monkeypatch.setattr(Path, "rename", refused_rename)
    build = Cpp(fresh).compile(Cpp(fresh).compiler(), candidate(), written(fresh, candidate()), 60.0)
    assert build.status is BuildStatus.FAILED and "unit.o cannot be written" in build.diagnostics


def refused_rename(path, target):
    raise OSError(28, "No space left on device")


def written(settings, asked):
    folder = settings.cache / "here"
    folder.mkdir(parents=True)
    for source in asked.sources:
        (folder / source.path).write_text(source.text)
    return folder

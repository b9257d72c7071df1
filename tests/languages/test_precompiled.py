"""Headers that many kernels begin with are compiled once, and nothing else changes."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from kernelwright.languages import _precompiled, cpp
from kernelwright.languages._precompiled import shared_header
from kernelwright.languages.cpp import Cpp
from kernelwright.records import BuildStatus, Candidate, SourceFile

ASKS = "// precompile\n#pragma once\n"
INNER = SourceFile(
    path="inner.h", text='#pragma once\n#include "kernelwright.h"\ninline float two() { return 2; }\n'
)
OUTER = SourceFile(path="outer.h", text=f'{ASKS}#include "inner.h"\n')


def _candidate(body: str = "two()", *headers: SourceFile, before: str = "// a kernel\n") -> Candidate:
    text = f'{before}#include "outer.h"\nKW_KERNEL(f) {{ *args.tensor<float>(0).data() = {body}; }}\n'
    sources = (SourceFile(path="k.cpp", text=text), *(headers or (OUTER, INNER)))
    return Candidate(sources=sources, language="cpp", entry="k.cpp:f", style="destination")


def _kept(settings) -> list[Path]:
    return sorted((settings.cache / "builds" / "headers").glob("[!.]*"))


needs_gcc = pytest.mark.needs("g++")


LIBRARY = """
import torch
import kernelwright as kw

@kw.task(x="float32[batch, rows, dim]", workloads=[{{"batch": 2, "rows": 8, "dim": 33}}])
def asked(x):
    return {body}
"""


@needs_gcc
class TestBuilds:
    def test_a_header_is_compiled_once_for_all_kernels_that_begin_with_it(self, fresh, monkeypatch):
        commands = []
        run = _precompiled.run_tool
        monkeypatch.setattr(
            _precompiled, "run_tool", lambda words, **given: commands.append(words) or run(words, **given)
        )
        builds = [Cpp(fresh).build(_candidate(body)) for body in ("two()", "two() + 1")]
        assert [build.status for build in builds] == [BuildStatus.OK, BuildStatus.OK], builds[0].diagnostics
        assert len(commands) == len(_kept(fresh)) == 1

    def test_kernels_of_one_file_that_differ_in_a_macro_share_it_and_it_is_read(self, fresh):
        """A macro of ours that the headers do not mention; one that they do, or another's, makes another form."""
        for flags, forms in (
            (("-DKW_FIRST=3",), 1),
            (("-DKW_SECOND",), 1),
            (("-DKW_TWICE",), 2),
            (("-DOTHER",), 3),
        ):
            header = INNER.model_copy(
                update={"text": f"{INNER.text}#ifdef KW_TWICE\n#define TWO 2\n#endif\n"}
            )
            given = _candidate("two() + KW_FIRST" if "-DKW_FIRST=3" in flags else "two()", OUTER, header)
            build = Cpp(fresh).build(given.model_copy(update={"flags": (*flags, "-Winvalid-pch", "-Werror")}))
            assert (build.status, len(_kept(fresh))) == (BuildStatus.OK, forms), build.diagnostics

    def test_it_is_what_the_compiler_reads(self, fresh):
        """What stands in the header's text is not looked at again: here the form is of another text."""
        assert Cpp(fresh).build(_candidate()).status is BuildStatus.OK
        (entry,) = _kept(fresh)
        other = replace(fresh, cache=fresh.cache / "other")
        changed = INNER.model_copy(update={"text": INNER.text + "inline float three() { return 3; }\n"})
        assert Cpp(other).build(_candidate("three()", OUTER, changed)).status is BuildStatus.OK
        (entry / "header.gch").write_bytes((_kept(other)[0] / "header.gch").read_bytes())
        assert Cpp(fresh).build(_candidate("three()")).status is BuildStatus.OK

    def test_the_library_is_the_same_and_the_folder_holds_nothing_else(self, fresh, monkeypatch):
        with_it = Path(Cpp(fresh).build(_candidate()).artefact)
        monkeypatch.setattr(cpp, "shared_header", lambda *_: ())
        without = Path(Cpp(replace(fresh, cache=fresh.cache / "other")).build(_candidate()).artefact)
        assert (with_it / "kernel.so").read_bytes() == (without / "kernel.so").read_bytes()
        assert sorted(p.name for p in with_it.iterdir()) == sorted(p.name for p in without.iterdir())

    def test_another_text_or_flag_has_a_form_of_its_own(self, fresh):
        changed = INNER.model_copy(update={"text": INNER.text + "// more\n"})
        for candidate in (_candidate(), _candidate("two()", OUTER, changed)):
            assert Cpp(fresh).build(candidate).status is BuildStatus.OK
        plain = _candidate().model_copy(update={"flags": ("-O1",)})
        assert Cpp(fresh).build(plain).status is BuildStatus.OK
        assert len(_kept(fresh)) == 3

    def test_a_header_that_does_not_compile_alone_is_left_to_the_kernel(self, fresh):
        needy = OUTER.model_copy(update={"text": f"{ASKS}#ifndef VALUE\n#error no value\n#endif\n"})
        build = Cpp(fresh).build(_candidate("1", needy, before=""))
        assert build.status is BuildStatus.FAILED
        assert "no value" in build.diagnostics

    def test_few_are_kept_the_latest_used_ones(self, fresh, monkeypatch):
        monkeypatch.setattr(_precompiled, "_KEPT", 1)
        Cpp(fresh).build(_candidate())
        (first,) = _kept(fresh)
        time.sleep(0.02)
        Cpp(fresh).build(_candidate().model_copy(update={"flags": ("-O1",)}))
        assert len(_kept(fresh)) == 1
        assert _kept(fresh) != [first]


class TestWhoIsServed:
    def test_the_header_and_what_it_includes(self):
        assert shared_header(_candidate(), (".cpp",)) == (OUTER, INNER)

    @pytest.mark.parametrize(
        "candidate",
        [
            _candidate("two()", OUTER.model_copy(update={"text": '#include "inner.h"\n'}), INNER),
            _candidate(before="#define N 1\n"),
            _candidate().model_copy(update={"flags": ("-Isome",)}),
            _candidate("two()", OUTER, INNER, SourceFile(path="outer.h.gch", text="mine")),
            _candidate("two()", INNER),
        ],
        ids=["does not ask", "comes late", "own folders", "own form", "not carried"],
    )
    def test_nobody_else(self, candidate):
        assert shared_header(candidate, (".cpp",)) == ()

    @pytest.mark.parametrize(
        ("body", "header"),
        [("torch.softmax(x, -1)", "rows.h"), ("torch.nn.functional.max_pool1d(x, 3)", "vector.h")],
    )
    def test_kernels_of_the_library(self, body, header, tmp_path):
        from kernelwright.devices import detect
        from kernelwright.propose import Request
        from kernelwright.propose.library import LibraryProposer
        from kernelwright.tasks import Problem, load_task

        (tmp_path / "task.py").write_text(LIBRARY.format(body=body))
        problem = Problem(load_task(str(tmp_path / "task.py")))
        request = Request(problem, detect("cpu"), (), ("cpp",))
        template = next(iter(LibraryProposer().propose(request)))
        candidate = template.render(template.default())
        assert next(h.path for h in shared_header(candidate, (".cpp",))) == header

    def test_kernels_of_the_schedule_proposer(self):
        from kernelwright.compiler import graph, lower
        from kernelwright.compiler.printers import cpp as printer
        from kernelwright.tasks import Problem, load_task

        read = graph.read(Problem(load_task("examples/swiglu.py")))
        candidate = printer.render(lower.lower(read), read)
        names = [header.path for header in shared_header(candidate, (".cpp",))]
        assert names == ["tiles.h", "vector.h", "kernelwright.h", "traffic.h"]

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelwright.errors import StoreError
from kernelwright.languages._cache import UnsafePathError, cached_build, write_sources
from kernelwright.records import Build, BuildStatus, Candidate, SourceFile

from .conftest import one_file


def _candidate(text: str = "a") -> Candidate:
    return one_file(text, "cpp", "k.cpp:f", "destination")


def _ok(folder):
    (folder / "product").write_text("built")
    return Build(status=BuildStatus.OK, evidence={"spills": 0})


def test_a_second_build_comes_from_the_cache(tmp_path):
    calls = []

    def compile_in(folder):
        calls.append(folder)
        return _ok(folder)

    first = cached_build(tmp_path, _candidate(), "g++ 1", compile_in)
    second = cached_build(tmp_path, _candidate(), "g++ 1", compile_in)
    assert len(calls) == 1
    assert first.time_s > 0.0 == second.time_s
    assert first.model_copy(update={"time_s": 0.0}) == second
    assert Path(second.artefact, "product").read_text() == "built"
    assert Path(second.artefact, "k.cpp").read_text() == "a"


@pytest.mark.parametrize(("text", "toolchain"), [("b", "g++ 1"), ("a", "g++ 2")])
def test_other_source_or_toolchain_is_another_build(tmp_path, text, toolchain):
    first = cached_build(tmp_path, _candidate(), "g++ 1", _ok)
    assert cached_build(tmp_path, _candidate(text), toolchain, _ok).artefact != first.artefact


def test_failures_are_kept_and_time_outs_tried_again(tmp_path):
    answers = iter([Build(status=BuildStatus.TIMEOUT), Build(status=BuildStatus.FAILED, diagnostics="no")])
    statuses = [cached_build(tmp_path, _candidate(), "t", lambda _: next(answers)).status for _ in range(3)]
    assert statuses == [BuildStatus.TIMEOUT, BuildStatus.FAILED, BuildStatus.FAILED]


def test_a_full_disk_is_no_fault_of_the_candidate(tmp_path, monkeypatch):
    failed = Build(status=BuildStatus.FAILED, diagnostics="No space left on device")
    with monkeypatch.context() as full:
        full.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=0))
        with pytest.raises(StoreError, match="no space is left to build"):
            cached_build(tmp_path, _candidate(), "t", lambda _: failed)
    assert cached_build(tmp_path, _candidate(), "t", _ok).status is BuildStatus.OK


def test_a_torn_record_is_built_again(tmp_path):
    first = cached_build(tmp_path, _candidate(), "t", _ok)
    Path(first.artefact, "build.json").write_text('{"status": "o')
    again = cached_build(tmp_path, _candidate(), "t", _ok)
    assert again.status is BuildStatus.OK
    assert again.time_s > 0


def test_builders_at_once_agree_and_leave_no_scratch(tmp_path):
    barrier = threading.Barrier(4)
    builds = []

    def slow(folder):
        barrier.wait(timeout=20)
        return _ok(folder)

    threads = [
        threading.Thread(target=lambda: builds.append(cached_build(tmp_path, _candidate(), "t", slow)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(builds) == 4
    assert len({build.artefact for build in builds}) == 1
    assert list((tmp_path / "builds" / "cpp").iterdir()) == [Path(builds[0].artefact)]


def test_a_builder_killed_midway_leaves_nothing_that_is_taken_for_a_build(tmp_path):
    code = f"""
        import pathlib, time
        from kernelwright.languages._cache import cached_build
        from kernelwright.records import Candidate, SourceFile
        files = (SourceFile(path="k.cpp", text="a"),)
        c = Candidate(sources=files, language="cpp", entry="k.cpp:f", style="destination")
        def hang(folder):
            (folder / "half").write_text("")
            print("building", flush=True)
            time.sleep(60)
        cached_build(pathlib.Path({str(tmp_path)!r}), c, "t", hang)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"building\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    home = tmp_path / "builds" / "cpp"
    (left,) = home.iterdir()
    os.utime(left, (time.time() - 7200, time.time() - 7200))
    build = cached_build(tmp_path, _candidate(), "t", _ok)
    assert build.status is BuildStatus.OK
    assert list(home.iterdir()) == [Path(build.artefact)]


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "", "build.json"])
def test_paths_that_leave_the_folder_are_refused(tmp_path, path):
    bad = Candidate(sources=(SourceFile(path=path, text=""),), language="cpp", entry="k.cpp:f")
    with pytest.raises(UnsafePathError, match="relative path"):
        write_sources(bad, tmp_path)
    build = cached_build(tmp_path, bad, "t", _ok)
    assert build.status is BuildStatus.FAILED
    assert "relative path" in build.diagnostics

"""A cache of compiled code in which a writer was killed."""

import os
import shutil
import time
from pathlib import Path

import pytest
import torch

from kernelwright.config import Settings
from kernelwright.propose._inductor import _harvest
from kernelwright.sandbox import _zygotes
from kernelwright.system.compile_cache import is_complete, remove_incomplete

WHOLE = next(Path(torch.__file__).parent.joinpath("lib").glob("libtorch_global_deps.so")).read_bytes()


def cache(folder, **libraries):
    for name, data in libraries.items():
        (folder / name).mkdir(parents=True)
        (folder / name / f"{name}.so").write_bytes(data)
    return folder


def test_what_was_not_written_to_its_end_is_removed_once_nobody_writes_on(tmp_path):
    folder = cache(tmp_path, whole=WHOLE, short=WHOLE[:-1], empty=b"", other=b"x" * 100)
    assert is_complete(folder / "whole/whole.so")
    assert remove_incomplete(folder) == [], "it may still be written"
    assert remove_incomplete(folder, time.time() + 60.0) == ["empty.so", "other.so", "short.so"]
    assert [path.name for path in folder.rglob("*.so")] == ["whole.so"]


def test_a_folder_that_another_process_removes_meanwhile_is_passed_over(tmp_path, monkeypatch):
    folder, listed = cache(tmp_path, short=WHOLE[:-1], gone=WHOLE[:-1]), os.scandir

    def scandir(path="."):
        if not isinstance(path, int) and Path(path).name == "gone":
            shutil.rmtree(path, ignore_errors=True)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert remove_incomplete(folder, time.time() + 60.0) == ["short.so"]


def test_a_compiler_finds_no_such_library(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    seen = []
    monkeypatch.setattr(_harvest, "remove_incomplete", lambda folder: seen.append(folder) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        _harvest.harvest(None, ())
    assert seen == [tmp_path / "inductor"]


def test_baselines_find_no_such_library(tmp_path, monkeypatch):
    settings = Settings.from_environment({"KERNELWRIGHT_CACHE": str(tmp_path)})
    seen = []
    monkeypatch.setattr(_zygotes, "remove_incomplete", seen.append)
    monkeypatch.setattr(_zygotes, "Zygote", lambda *_, **__: None)
    zygotes = _zygotes.Zygotes(settings)
    try:
        zygotes.begin((False, ()))
        assert seen == []
        zygotes.begin((True, ()))
        assert seen == [tmp_path / "baselines"]
    finally:
        zygotes._running.clear()
        zygotes.close()

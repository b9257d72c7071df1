"""Which languages a run uses."""

import pytest

from kernelwright.devices import Device
from kernelwright.languages import Availability
from kernelwright.search import _search, usable_languages
from kernelwright.testing import PlantedLanguage

CPU = Device(kind="cpu", name="any", cores=1, memory_bytes=1, torch_device="cpu")


@pytest.fixture
def here(monkeypatch):
    found = {name: PlantedLanguage() for name in ("cpp", "opencl", "torch")}
    monkeypatch.setattr(_search, "get_language", found.__getitem__)
    monkeypatch.setattr(_search, "language_names", lambda: tuple(found))
    return found


def test_opencl_stands_back_where_cpp_compiles(here):
    assert usable_languages((), CPU) == ("cpp", "torch")


def test_opencl_stands_in_where_there_is_no_compiler(here):
    here["cpp"].available = lambda: Availability(False, "no compiler", "install one")
    assert usable_languages((), CPU) == ("opencl", "torch")


def test_what_is_asked_for_is_used(here):
    assert usable_languages(("opencl",), CPU) == ("opencl",)

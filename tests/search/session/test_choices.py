"""Which languages a run uses."""

import pytest

from kernelwright.devices import Device
from kernelwright.errors import InputError, MissingToolError
from kernelwright.languages import Availability
from kernelwright.search import check_choices, usable_languages
from kernelwright.search.session import _choices
from kernelwright.tasks import load_task
from kernelwright.testing import PlantedLanguage

CPU = Device(kind="cpu", name="any", cores=1, memory_bytes=1, torch_device="cpu")


@pytest.fixture
def here(monkeypatch):
    found = {name: PlantedLanguage() for name in ("cpp", "opencl", "torch")}
    monkeypatch.setattr(_choices, "get_language", found.__getitem__)
    monkeypatch.setattr(_choices, "language_names", lambda: tuple(found))
    return found


def test_opencl_stands_back_where_cpp_compiles(here):
    assert usable_languages((), CPU) == ("cpp", "torch")


def test_opencl_stands_in_where_there_is_no_compiler(here):
    here["cpp"].available = lambda: Availability(False, "no compiler", "install one")
    assert usable_languages((), CPU) == ("opencl", "torch")


def test_what_is_asked_for_is_used(here):
    assert usable_languages(("opencl",), CPU) == ("opencl",)


def test_baselines_that_keep_their_weights_go_beside_one_whose_weights_follow():
    task = load_task("examples/swiglu.py")
    beaten = ("compile-freezing", "eager")
    assert check_choices(task, beaten) == beaten
    with pytest.raises(InputError, match=r"'compile-freezing' keeps the weights .* such as 'eager'"):
        check_choices(task, ("compile-freezing", "compile-max-autotune-freezing"))


def test_an_agent_that_cannot_be_started_is_told_before_anything_is_spent(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    task = load_task("examples/swiglu.py")
    with pytest.raises(MissingToolError, match="no program 'codex' on the PATH"):
        check_choices(task, (), ("agent",), more={"agent": "codex"})
    (tmp_path / "codex").touch(mode=0o755)
    with pytest.raises(InputError, match="does not say what it costs"):
        check_choices(task, (), editors=("agent",), more={"agent": "codex"}, usd=1.0)
    check_choices(task, (), ("agent",), more={"agent": "codex"})

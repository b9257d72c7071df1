import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from kernelwright import registry
from kernelwright.errors import InputError, NotFoundError
from kernelwright.languages import Language, get_language, language_names


def test_every_registered_language_is_a_language():
    assert {"cpp", "cuda", "opencl", "torch", "triton"} <= set(language_names())
    for name in language_names():
        language = get_language(name)
        assert isinstance(language, Language)
        assert language.name == name


def test_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(NotFoundError, match=r"'fortran'.*cpp, cuda,.* hip, opencl, pallas,.* torch, triton"):
        get_language("fortran")


def test_what_is_not_a_language_is_refused(monkeypatch):
    point = EntryPoint("bad", "builtins:dict", "kernelwright.languages")
    monkeypatch.setattr(registry, "_installed", lambda *_: {"bad": point})
    with pytest.raises(InputError, match="makes a 'dict' and no Language"):
        get_language("bad")


def test_packages_are_read_once_for_each_path(monkeypatch, tmp_path):
    known, read = language_names(), []
    monkeypatch.setattr(registry, "entry_points", lambda group: read.append(group) or [])
    assert language_names() == known and not read
    monkeypatch.syspath_prepend(tmp_path)
    assert not language_names() and read == ["kernelwright.languages"]


def test_availability_names_the_tool_or_says_how_to_get_it():
    for name in language_names():
        said = get_language(name).available()
        assert said.what, name
        assert said.ok or said.remedy, name


def test_importing_the_registry_imports_no_torch():
    code = "import sys, kernelwright.languages as l; l.language_names(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_times_mean_something_only_where_the_code_really_runs():
    timeable = {
        name: {d for d in ("cpu", "cuda:0") if get_language(name).timeable(d)} for name in language_names()
    }
    assert timeable["torch"] == {"cpu", "cuda:0"}
    assert timeable["cpp"] == timeable["opencl"] == {"cpu"}
    assert timeable["triton"] == timeable["cuda"] == {"cuda:0"}

"""Languages of Python packages: what is said where the package is missing, and what a build does."""

import importlib.metadata
import os
import sys

import pytest

from kernelwright.errors import MissingToolError
from kernelwright.languages._package import PackageLanguage, imported
from kernelwright.languages.cute import Cute
from kernelwright.languages.helion import Helion
from kernelwright.languages.tilelang import TileLang
from kernelwright.records import BuildStatus

from .conftest import one_file

LANGUAGES = [Cute, Helion, TileLang]


@pytest.mark.parametrize("language", LANGUAGES)
def test_without_the_package_a_sentence_says_how_to_get_it(language, fresh, monkeypatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    build = language(fresh).build(one_file("def f(): pass\n", language.name, "k.py:f"))
    assert build.status is BuildStatus.UNAVAILABLE
    assert build.diagnostics.startswith(f"no {language.distribution}; ")
    assert f"kernelwright[{language.name}]" in build.diagnostics


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_build_checks_the_syntax_and_runs_nothing(language, fresh, monkeypatch) -> None:
    monkeypatch.setattr(PackageLanguage, "version", lambda _: "1.0")
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: [])
    built = language(fresh).build(one_file("raise SystemExit\ndef f(): pass\n", language.name, "k.py:f"))
    assert built.status is BuildStatus.OK
    assert built.findings[0].startswith(f"not cross-compiled: {language.title} kernels are made")
    wrong = language(fresh).build(one_file("def f(:\n", language.name, "k.py:f"))
    assert wrong.status is BuildStatus.FAILED
    assert wrong.diagnostics.startswith("k.py:1:")


@pytest.mark.parametrize(
    ("required", "unmet"),
    [
        (["torch>=2", "numpy"], ""),
        (["torch>=99"], "torch >=99, and "),
        (["no-such-thing>=1"], "no-such-thing, which is not here"),
        (["no-such-thing; extra == 'dev'", "no-such-thing; python_version < '3'"], ""),
    ],
)
def test_a_package_that_others_do_not_suit_is_not_available(required, unmet: str, monkeypatch) -> None:
    monkeypatch.setattr(PackageLanguage, "version", lambda _: "1.0")
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: required)
    said = TileLang().available()
    assert said.ok == (not unmet)
    assert said.what.startswith(f"tilelang 1.0 takes {unmet}" if unmet else "tilelang 1.0")


@pytest.mark.needs("no GPU")
@pytest.mark.parametrize("language", LANGUAGES)
def test_without_a_gpu_the_language_alone_cannot_load_and_nothing_is_timed(language, tmp_path) -> None:
    with pytest.raises(MissingToolError, match=f"a {language.title} kernel needs an NVIDIA GPU"):
        language().load(one_file("def f(): pass\n", language.name, "k.py:f"), tmp_path, ())
    assert language().timeable("cuda:0")
    assert not language().timeable("cpu")


def test_what_a_package_leaves_behind_is_taken_away(tmp_path, monkeypatch) -> None:
    longer = "os.environ['LONGER'] = 'x:' + os.environ['LONGER']"
    lines = (
        "import os, sys",
        "os.environ['LEFT_BEHIND'] = '1'",
        longer,
        "sys.excepthook = print",
        "VALUE = 3",
    )
    (tmp_path / "leaves_things.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("LONGER", "y")
    hook = sys.excepthook
    assert imported("leaves_things").VALUE == 3
    assert "LEFT_BEHIND" not in os.environ
    assert os.environ["LONGER"] == "y"
    assert sys.excepthook is hook

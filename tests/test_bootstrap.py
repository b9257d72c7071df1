"""The set-up uses the torch that the Python at hand has, a virtual environment's too."""

import doctest
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]


def _bootstrap() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "bootstrap.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_torch_at_hand_is_found_in_a_virtual_environment() -> None:
    packages = _bootstrap().packages_with_torch()
    assert packages == Path(torch.__file__).parents[1]


def test_whoever_waits_hears_of_downloads_and_failures(capsys: pytest.CaptureFixture[str]) -> None:
    bootstrap = _bootstrap()
    assert doctest.testmod(bootstrap).failed == 0
    lines = "Collecting torch\\nDownloading https://host/torch-2.13.0-cp311-linux.whl (1.2 GB)"
    bootstrap.follow([sys.executable, "-c", f"print('{lines}')"])
    assert capsys.readouterr().err == "  downloading torch-2.13.0 (1.2 GB)\n"
    with pytest.raises(subprocess.CalledProcessError):
        bootstrap.follow([sys.executable, "-c", "raise SystemExit(3)"])


def test_a_new_environment_imports_and_lists_it(tmp_path: Path) -> None:
    packages, venv = tmp_path / "packages", tmp_path / "venv"
    (packages / "torch").mkdir(parents=True)
    (packages / "torch" / "__init__.py").write_text("__version__ = '0.0.1+own'\n")
    (packages / "torch-0.0.1+own.dist-info").mkdir()
    (packages / "torch-0.0.1+own.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torch\nVersion: 0.0.1+own\n"
    )
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    _bootstrap().share(packages, venv)
    code = "import torch, importlib.metadata as m; print(torch.__version__, m.version('torch'))"
    python = next(p for p in (venv / "bin" / "python", venv / "Scripts" / "python.exe") if p.exists())
    found = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["0.0.1+own", "0.0.1+own"]


def test_byte_code_is_made_ahead_whatever_cannot_be_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap = _bootstrap()
    monkeypatch.setattr(bootstrap, "PYTHON", Path(sys.executable))
    (tmp_path / "right.py").write_text("x = 1\n")
    (tmp_path / "wrong.py").write_text("x = = 1\n")
    for name in ("openai", "numpy"):
        (tmp_path / "site-packages" / name).mkdir(parents=True)
        (tmp_path / "site-packages" / name / f"{name}_part.py").write_text("x = 1\n")
    bootstrap.compile_ahead(tmp_path)
    assert sorted(p.name.partition(".")[0] for p in tmp_path.rglob("*.pyc")) == ["numpy_part", "right"]


@pytest.mark.parametrize("words", [[], ["--quick"], ["bare"], ["long", "soak"]])
def test_what_follows_check_is_handed_on(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap, ran = _bootstrap(), []
    monkeypatch.setattr(bootstrap, "set_up", ran.append)
    monkeypatch.setattr(bootstrap.os, "execv", lambda _, command: ran.append(command[1:]))
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", "--check", *words])
    bootstrap.main()
    assert ran == ["dev", [str(ROOT / "check.py"), *words]]

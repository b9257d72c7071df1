"""The doctor: whatever a probe meets is a fact with a remedy."""

import shutil

import pytest

import kernelwright.devices
import kernelwright.languages
import kernelwright.sandbox
import kernelwright.system.landlock
from kernelwright.cli import doctor as doctor_module
from kernelwright.cli._common import Common
from kernelwright.cli.doctor import doctor, examine
from kernelwright.devices import Peak, Peaks, detect


class Open:
    """Stands for a pool on a machine that closes nothing in; no worker starts."""

    isolation, layers = "none", ("process-group", "rlimits")
    promises = ("memory is bounded",)

    def __init__(self, *_, **__):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Start no worker and look at two languages; the whole of it runs in test_program.py."""
    monkeypatch.setattr(kernelwright.sandbox, "Pool", Open)
    monkeypatch.setattr(kernelwright.languages, "language_names", lambda: ("cuda", "torch"))


@pytest.mark.parametrize("error", [RuntimeError("broken driver"), OSError(13, "Permission denied")])
def test_a_failing_probe_is_a_fact_and_the_others_go_on(monkeypatch, tmp_path, error):
    def broken():
        raise error

    monkeypatch.setattr(kernelwright.devices, "devices", broken)
    facts = list(examine(Common(store=tmp_path)))
    failed = [f for f in facts if f.area in {"device", "peaks"}]
    assert len(failed) == 2 and not any(f.ok for f in failed)
    assert all(str(error) in f.what and f.remedy for f in failed)
    assert [f.ok for f in facts if f.area == "store"] == [True]


def test_one_broken_language_does_not_hide_the_others(monkeypatch, tmp_path):
    real = kernelwright.languages.get_language

    def broken(name):
        if name == "cuda":
            raise ValueError("nvcc says something new")
        return real(name)

    monkeypatch.setattr(kernelwright.languages, "get_language", broken)
    facts = {f.name: f for f in examine(Common(store=tmp_path)) if f.area == "language"}
    assert not facts["cuda"].ok and "nvcc says something new" in facts["cuda"].what
    assert facts["torch"].ok


def test_what_is_missing_comes_with_how_to_get_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(kernelwright.languages, "language_names", lambda: ("cpp",))
    monkeypatch.setenv("KERNELWRIGHT_CXX", "/nosuch/g++")
    assert doctor(common=Common(store=tmp_path)) == 0
    lines = capsys.readouterr().out.splitlines()
    (at,) = (i for i, line in enumerate(lines) if "language  cpp" in line)
    assert lines[at].startswith("missing") and "to have it:" in lines[at + 1]


def test_a_store_that_cannot_be_opened_is_a_fact(tmp_path):
    (tmp_path / "file").write_text("")
    (store,) = [f for f in examine(Common(store=tmp_path / "file" / "store")) if f.area == "store"]
    assert not store.ok and "--store" in store.remedy


def test_layers_that_do_not_hold_are_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(kernelwright.system.landlock, "landlock_version", lambda: 0)
    facts = {f.name: f for f in examine(Common(store=tmp_path)) if f.area == "sandbox"}
    assert not facts["absent"].ok and "bubblewrap" in facts["absent"].remedy
    assert {"seccomp", "no-network", "closed files"} <= set(facts["absent"].what.split(", "))
    assert "rlimits" not in facts["absent"].what
    assert facts["promises"].what == "memory is bounded"
    assert not facts["not promised"].ok and "no network" in facts["not promised"].what.split("; ")
    assert not facts["compilers"].ok


def test_a_browser_that_is_missing_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    (fact,) = doctor_module._browsers()
    assert not fact.ok and "apt-get install chromium" in fact.remedy


def test_a_driver_that_torch_does_not_reach_and_peaks_of_a_busy_machine_are_told(monkeypatch, tmp_path):
    busy = Peaks(device="made up", values={"float32": Peak(value=1, unit="flop", source="made up")}, load=3.0)
    cpu = detect("cpu")
    monkeypatch.setattr(kernelwright.devices, "devices", lambda: [cpu])
    monkeypatch.setattr(kernelwright.devices, "cached_peaks", lambda device: busy)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name == "nvidia-smi" else None)
    facts = {(f.area, f.name): f for f in examine(Common(store=tmp_path))}
    assert not facts["device", "gpu"].ok and "nvidia-smi" in facts["device", "gpu"].what
    assert "busy machine" in facts["peaks", "cpu"].what

import ctypes
from types import SimpleNamespace

import pytest

from kernelwright.languages import _pocl
from kernelwright.languages._pocl import known_cpu, name_cpu

TRIPLE = b"x86_64-unknown-linux-gnu"


class Record:
    """A device as PoCL keeps it, as far as it is read."""

    def __init__(self, cpu, version=_pocl._WHEEL, triple=TRIPLE):
        self.texts = [ctypes.create_string_buffer(text) for text in (triple, cpu)]
        self.memory = (ctypes.c_void_p * 128)()
        self.memory[_pocl._TRIPLE // 8], self.memory[_pocl._CPU // 8] = map(ctypes.addressof, self.texts)
        self.int_ptr = ctypes.addressof(self.memory)
        self.platform = SimpleNamespace(version=version)

    @property
    def cpu(self):
        return ctypes.string_at(self.memory[_pocl._CPU // 8])


@pytest.mark.parametrize(
    ("flags", "cpu"), [(_pocl._HASWELL | {"avx512f"}, b"haswell"), ({"sse2"}, b"x86-64")]
)
def test_a_cpu_without_a_name_gets_one(monkeypatch, flags, cpu):
    monkeypatch.setattr(_pocl, "_flags", lambda: flags)
    record = Record(b"generic")
    name_cpu(record)
    name_cpu(record)
    assert record.cpu == cpu


@pytest.mark.parametrize(
    "record",
    [Record(b"znver3"), Record(b"generic", version="PoCL 5.0"), Record(b"generic", triple=b"aarch64")],
)
def test_other_records_are_left_alone(record):
    before = record.cpu
    name_cpu(record)
    assert record.cpu == before


def test_no_instruction_is_named_that_the_cpu_lacks():
    assert known_cpu(_pocl._HASWELL - {"fma"}) == "x86-64"

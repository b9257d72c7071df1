"""Ascend C, executed: right kernels are right, and each planted fault is found at its line."""

import re
from pathlib import Path

import pytest
import torch

from kernelwright.config import Settings
from kernelwright.languages._destination import load_entry
from kernelwright.languages.ascendc import AscendC
from kernelwright.languages.cpp import LIBRARY
from kernelwright.records import BuildStatus, Candidate, SourceFile

SOURCE = Path(__file__).with_name("ascendc_kernels.cpp").read_text()
KINDS = {
    "not_dequeued": "race", "not_enqueued": "race", "out_not_queued": "race", "freed_early": "freed",
    "freed_twice": "freed", "exhausted": "queue", "too_large": "ub-overflow", "start": "misaligned",
    "length": "length", "beyond": "out-of-bounds", "unwritten": "uninitialised", "other_queue": "queue",
    "empty": "queue", "full": "queue", "twice": "queue", "no_flag_set": "event", "flag_left": "event",
    "flag_twice": "event", "event_nine": "event", "scalar_writes": "race", "scalar_reads": "race",
    "blocks_meet": "race", "block_reads": "race", "constant": "read-only", "buffer_end": "out-of-bounds",
    "freed_output": "freed", "reused": "race", "nine_tensors": "queue", "padded": "length",
    "not_lent": "out-of-bounds", "padding_read": "uninitialised", "never_freed": "left", "left_in_queue": "left",
    "masked": "mask", "claimed": "assert",
}  # fmt: skip


def candidate(text, entry="k.cpp:run"):
    return Candidate(
        sources=(SourceFile(path="k.cpp", text=text),), language="ascendc", entry=entry, style="destination",
        flags=("-O1",),
    )  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("cache"))
    language = AscendC(Settings.from_environment({"KERNELWRIGHT_CACHE": folder}))
    build = language.build(candidate(SOURCE, "k.cpp:add"))
    assert build.status is BuildStatus.OK, build.diagnostics
    return lambda name: load_entry(Path(build.artefact) / LIBRARY, name)


@pytest.mark.parametrize("n", [1, 7, 256, 1000])
def test_a_sum_with_a_tail_is_right(built, n):
    x, y, z = torch.randn(n), torch.randn(n), torch.empty(n)
    built("add")(x, y, z)
    assert torch.equal(z, x + y)
    half = torch.empty(n, dtype=torch.float16)
    built("add_half")(x.half(), y.half(), half)
    assert torch.equal(half, x.half() + y.half())


def test_a_softmax_by_vector_and_scalar_unit_is_right(built):
    x = torch.randn(6, 100)
    z = torch.empty_like(x)
    built("softmax")(x, z)
    torch.testing.assert_close(z, torch.softmax(x.double(), 1).float(), rtol=1e-5, atol=1e-7)


def test_casts_and_gaps_are_right(built):
    x = torch.randn(1024).bfloat16()
    z = torch.empty_like(x)
    built("scaled")(x, z)
    assert torch.equal(z, torch.relu(x.float() * 3).bfloat16())
    rows = torch.randn(4, 24)
    columns = torch.empty(3, 4, 8)
    built("columns")(rows, columns)
    assert torch.equal(columns, rows.view(4, 3, 8).transpose(0, 1))


def test_a_product_of_two_fractals_is_right(built):
    a, b, c = torch.randn(16, 16).half(), torch.randn(16, 16).half(), torch.empty(16, 16)
    built("fractal")(a, b, c)
    torch.testing.assert_close(c.double(), torch.relu(a.double() @ b.double()), rtol=1e-4, atol=1e-3)


def test_the_kernel_that_the_faults_are_planted_in_is_right_without_one(built):
    x, z = torch.randn(512), torch.empty(512)
    built("wrong_none")(x, x, z)
    assert torch.equal(z, x + 1)


@pytest.mark.parametrize("name", KINDS)
def test_a_planted_fault_is_found_at_its_line(built, name):
    x, z = torch.randn(512), torch.empty(512)
    with pytest.raises(RuntimeError) as caught:
        built(f"wrong_{name}")(x, x, z)
    found = re.match(r"([\w-]+) at k\.cpp:(\d+): ", str(caught.value))
    assert found and found[1] == KINDS[name], caught.value
    marked = [n for n, line in enumerate(SOURCE.splitlines(), 1) if re.search(rf"@{name}\b", line)]
    assert not marked or int(found[2]) in marked, caught.value


def test_every_fault_of_the_file_is_tried():
    listed = re.findall(r"F\((\w+)\)", SOURCE.split("#define FAULTS(F)")[1].split("enum Fault")[0])
    assert {*listed} - {"none"} == {*KINDS}

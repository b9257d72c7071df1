"""What the simulator computes bit by bit, which faults it names, and what the cycle model charges."""

import time

import numpy as np
import pytest

from kernelwright.craft import TESSERA, find_backend, generated
from kernelwright.craft._assembler import assemble
from kernelwright.craft._memory import Region
from kernelwright.craft._simulator import Limits, simulate
from kernelwright.craft.compiler._writer import Writer

NO_LIMITS = Limits()
START = """
  li r20, 1
  li r21, 16
  li r22, 0
  dshape q0, r20, r21
  dstride q0, r22, r22
  din q0, r22, r0
  dwait q0, 0
"""
"""Brings 16 words of the input to scratchpad address 0."""
END = """
  dout q0, r22, r1
  dwait q0, 0
  halt
"""


def run(text, values=None, *, description=TESSERA, limits=NO_LIMITS, trace=range(0)):
    values = np.arange(16, dtype=np.float32) if values is None else values
    regions = [
        Region("x", "in", len(values), values),
        Region("out", "out", 16),
        Region("the workspace", "work", 64),
    ]
    return simulate(assemble(text, description), regions, [16], limits=limits, trace=trace)


def test_a_vector_sum_is_bit_exact_in_the_order_of_the_manual():
    values = np.random.default_rng(0).standard_normal(16).astype(np.float32)
    done = run(START + "vld v0, r22\nvrsum v1, v0\nvst v1, r22" + END, values)
    lanes = values
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    assert done.outputs["out"].tobytes() == np.full(16, lanes[0]).tobytes()


def test_a_product_of_tiles_is_bit_exact():
    values = np.random.default_rng(1).standard_normal(64).astype(np.float32)
    text = """
  li r20, 8
  li r22, 0
  dshape q0, r20, r20
  dstride q0, r20, r20
  din q0, r22, r0
  dwait q0, 0
  mshape r20, r20
  mld m0, r22, r20
  mzero m1
  mma m1, m0, m0
  mwait
  li r21, 2
  mshape r21, r20
  mst m1, r22, r20
  dshape q0, r21, r20
"""
    done = run(text + END, values)
    a, total = values.reshape(8, 8), np.zeros((8, 8), np.float32)
    for k in range(8):
        total += np.outer(a[:, k], a[k])
    assert done.fault is None
    assert done.outputs["out"].tobytes() == total[:2].tobytes()


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("li r5, 16384\nvld v0, r5", "bounds", "scratchpad words 16384"),
        ("li r5, -16\nvld v0, r5", "bounds", "scratchpad words -16"),
        ("li r5, 2\nvld v0, r5", "align", "multiple of 4"),
        ("li r5, 16\nvld v0, r5", "uninitialised", "word 16 was never written"),
        ("vadd v0, v1, v2", "uninitialised", "v1 was never written"),
        ("add r5, r6, r7", "uninitialised", "r6 was never written"),
        ("mma m0, m1, m2", "uninitialised", "m0 was never written"),
        ("din q0, r22, r0\nvld v0, r22", "dma", "before its transfer was waited for"),
        ("vimm v0, 1.0\ndout q0, r22, r1\nvst v0, r22", "dma", "while a transfer on it"),
        ("din q0, r22, r0\nhalt", "dma", "1 transfers were not waited for"),
        ("li r5, 64\ndin q1, r5, r0", "uninitialised", "dshape has set nothing"),
        ("dout q0, r22, r0", "bounds", "input x is written"),
        ("addi r5, r0, 8\ndin q0, r22, r5", "bounds", "words 8 to 23 of x do not exist"),
        ("li r5, 3\ndin q0, r22, r5", "bounds", "belongs to no tensor"),
        ("dout q0, r22, r1\ndin q0, r22, r1", "dma", "while a transfer on it"),
        ("setvl r22", "value", "at least 1"),
        ("li r5, 9\nmshape r5, r5", "value", "1 to 8"),
        ("dshape q0, r22, r21", "value", "at least 1"),
        ("mzero m0\nmzero m1\nmzero m2\nmma m0, m1, m2\nmtr m3, m0", "matrix", "mwait first"),
        ("mzero m0\nmma m0, m0, m0", "matrix", "one of their factors"),
        ("li r5, 4\ndshape q0, r5, r21\nli r6, 8\ndstride q0, r22, r6\ndin q0, r22, r0", "dma", "over each other"),
        ("vimm v0, inf\nli r5, 32\nvst1 v0, r5\nlds r6, r5", "value", "cannot be cut"),
    ],
)  # fmt: skip
def test_faults_name_kind_and_line(body, kind, said):
    done = run(START + body + END)
    assert done.fault is not None
    last = START.count("\n") + body.count("\n") + 1
    assert (done.fault.kind, done.fault.line) == (kind, last)
    assert said in done.fault.message
    assert done.outputs == {}


def test_an_output_that_was_not_written_is_a_fault():
    assert "16 of 16 words of output out were never written" in run("halt").fault.message


def test_a_wait_in_another_line_is_enough():
    assert run(START + "din q0, r22, r0\nli r5, 7\ndwait q0, 0\nvld v0, r22" + END).fault is None


def test_a_program_without_end_is_stopped_in_time_and_its_line_named():
    started = time.monotonic()
    done = run("li r5, 1\nagain:\naddi r5, r5, 1\njmp again", limits=Limits(steps=10**9, deadline_s=0.3))
    assert done.fault.kind == "endless"
    assert done.fault.line in {3, 4}
    assert time.monotonic() - started < 3
    assert run("again: jmp again", limits=Limits(steps=100)).steps == 100


def test_stalls_belong_to_the_line_that_waits():
    text = START + "vld v0, r22\nvexp v1, v0\nvst v1, r22" + END
    done = run(text)
    exp = TESSERA.by_kind["vexp"].latency
    assert done.stalls[text.splitlines().index("vst v1, r22") + 1] == {"operand": exp - 1}
    assert done.stalls[8] == {"dma": TESSERA.dma_latency + 1 + 4 - 1}
    assert done.cycles == sum(done.issues.values()) + sum(sum(c.values()) for c in done.stalls.values())


def test_independent_work_hides_a_latency():
    chain = run(START + "vld v0, r22\nvexp v1, v0\nvst v1, r22\nvld v2, r22\nvld v3, r22" + END)
    mixed = run(START + "vld v0, r22\nvexp v1, v0\nvld v2, r22\nvld v3, r22\nvst v1, r22" + END)
    assert mixed.cycles == chain.cycles - 2


def test_transfers_of_two_queues_overlap():
    twice = "li r5, 64\n{}din q0, r22, r0\ndin {}, r5, r0\ndwait q0, 0\ndwait q1, 0"
    one = run(START + twice.format("", "q0") + END)
    two = run(START + twice.format("dshape q1, r20, r21\ndstride q1, r22, r22\n", "q1") + END)
    assert two.fault is None
    assert two.cycles < one.cycles - TESSERA.dma_latency // 2


def test_a_trace_tells_what_was_written_and_waited_for():
    done = run(START + "vld v0, r22\nvadd v1, v0, v0\nvst v1, r22" + END, trace=range(7, 10))
    assert [s.text for s in done.trace] == ["vld v0, r22", "vadd v1, v0, v0", "vst v1, r22"]
    assert done.trace[1].result.startswith("v1 = 0, 2, 4, 6")
    assert done.trace[1].stall == "2 for operand"


@pytest.mark.parametrize("seed", range(8))
def test_the_meanings_of_made_up_sets_hold(seed):
    """Write each operation as it stands and compare with what the manual of the set says of it."""
    d = generated(seed)
    w = Writer(d, 4)
    one, words, zero = w.li(1), w.li(d.lanes), w.li(0)
    w.op("dshape", q=0, a=one, b=words)
    w.op("dstride", q=0, a=zero, b=zero)
    w.op("din", q=0, a=zero, b=0)
    w.op("dwait", q=0, i=0)
    w.op("vld", d=0, a=zero)
    w.op("vimm", d=1, f=3.0)
    w.op("vsub", d=2, a=0, b=1)
    w.op("vdiv", d=3, a=0, b=1)
    w.op("vadd", d=2, a=2, b=3)
    w.op("vgt", d=3, a=0, b=1)
    w.op("vadd", d=2, a=2, b=3)
    w.op("vst", x=2, a=zero)
    w.op("dout", q=0, a=zero, b=1)
    w.op("dwait", q=0, i=0)
    w.op("halt")
    x = np.arange(1, d.lanes + 1, dtype=np.float32)
    regions = [Region("x", "in", len(x), x), Region("out", "out", len(x)), Region("w", "work", 64)]
    done = simulate(assemble(w.text(), d), regions, [1])
    text, three, s = find_backend(d.name).manual(), np.float32(3), d.semantics
    assert ("= b - a |" in text) == (s.subtract == "b-a")
    want = (x - three if s.subtract == "a-b" else three - x) + (x / three if s.divide == "a/b" else three / x)
    want = want + (x > three if s.compare == "a>b" else three > x)
    assert done.outputs["out"].tobytes() == want.astype(np.float32).tobytes()

"""Programs judged by what they answer to their harness's calls, made again without it: what is told, without nvcc."""

import random
import re
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from kernelwright.records import DecisionStatus, Interval, VerdictStatus
from kernelwright.suites import Ours, Row, Theirs, standing_of
from kernelwright.suites._by_calls import _on_calls
from kernelwright.suites._host_half import FLAGS, departs
from kernelwright.suites._kept_calls import Argument, Call, answers_in, calls_in, distance, others_of
from kernelwright.suites._replay import called_of, keeping
from kernelwright.suites._shared_reads import unwritten_shared

FLOATS = Argument("p", "f", 4, const=True, memory=0)
OUT = Argument("p", "f", 4, memory=1)
SIZE = Argument("s", "i", 4, value=(64).to_bytes(4, "little"))
DECLARED = """
#include <stdio.h>
extern "C" int cudaMalloc(void**, unsigned long);
extern "C" int cudaLaunchKernel(const void*, long, long, void**, unsigned long, void*);
extern "C" char* getenv(const char*);
static void* kept;
"""


def call_of(values):
    memory = np.float32(values).tobytes()
    return Call("doubled", "0 0 0 0 0 0 0 0", (FLOATS, OUT, SIZE), (memory, bytes(len(memory))))


class Left(list):
    """What a call leaves, with what was there before where it writes."""


class Doubles:
    """Stands for a built program: what it leaves for calls it is given."""

    home = Path()

    def __init__(self, change, prints=""):
        self.change, self.prints = change, prints

    def run(self, command, stdin, limit_s, settings=""):
        del command, limit_s, settings
        made = []
        for part in stdin.split("call ")[1:]:
            call = calls_in(f"call {part}o \n.\n")[0]
            given = np.frombuffer(call.memories[0], np.float32)
            n = call.arguments[2].whole
            left = Left([given.copy(), np.frombuffer(call.memories[1], np.float32).copy()])
            left.given = np.frombuffer(call.memories[1], np.float32)
            left[1][:n] = 2 * given[:n]
            self.change(left, n)
            made.append("".join(f"o {one.tobytes().hex()}\n" for one in left) + self.prints + ".\n")
        return type("Ran", (), {"output": "".join(made), "code": 0, "late": False})()


def nothing(left, n):
    del left, n


HARNESS = np.float32([v / 500 for v in random.Random(3).sample(range(1, 500), 64)])


def judged(change, prints="", original=nothing):
    with np.errstate(all="ignore"):
        return _on_calls(Doubles(change, prints), Doubles(original), [call_of(HARNESS)])


def known_size(left, n):
    left[1][:n] *= n == 64


def small_values(left, n):
    left[1][:n] = np.minimum(left[1][:n], np.float32(2))


def no_signs(left, n):
    left[1][:n] = np.abs(left[1][:n])


def no_nan(left, n):
    left[1][:n] = np.nan_to_num(left[1][:n], posinf=np.inf, neginf=-np.inf)


def blocks_of_sixteen(left, n):
    left[1][n // 16 * 16 : n] = 0


def cumulated(left, n):
    left[1][:n] = np.cumsum(left[0][:n])


def sums_in_order(left, n):
    """Stands for an algorithm that needs an order that sums keep where nothing is negative."""
    left[1][:n] = np.maximum.accumulate(np.cumsum(left[0][:n]))


def no_large(left, n):
    """Stands for an original that has no answer where a number is negative."""
    left[1][:n] = np.where(left[0][:n] < 0, np.nan, left[1][:n])


def by_heart_elsewhere(left, n):
    if not np.array_equal(left[0], HARNESS):
        left[1][:n] = 1.0


def in_place(left, n):
    left[0][:n] = 0


def one_digit(left, n):
    left[1][:n] = np.round(left[1][:n] * 64) / 64


def half(left, n):
    left[1][:n] = left[1][:n].astype(np.float16)


def by_heart(left, n):
    del n
    left[1][:] = 1.0


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
class TestAnswers:
    def test_a_right_program_is_accepted_and_stands_as_right_without_a_time(self):
        ours = judged(nothing)
        assert (ours.verdict, ours.decision) == (VerdictStatus.ACCEPTED, DecisionStatus.UNKNOWN)
        made = {
            "suite": "s",
            "problem": "p",
            "group": "g",
            "candidate": "k.cu",
            "sizes": "declared",
            "seconds": 1.0,
        }
        row = Row(**made, theirs=Theirs(status="correct"), ours=ours)
        assert standing_of(row) == "right"
        faster_than_physics = ours.model_copy(update={"speedup": Interval(median=99.0, low=98.0, high=100.0)})
        assert standing_of(row.model_copy(update={"ours": faster_than_physics})) == "unknown"

    @pytest.mark.parametrize(("change", "said"), [
        (known_size, "at none of the sizes 32, 16, 48"), (small_values, r"it leaves 2 where the original leaves \d"),
        (no_signs, r"it leaves [\d.e-]+ where the original leaves -"),
        (no_nan, "it leaves 0 where the original leaves nan, of no number in the place"),
        (by_heart_elsewhere, r"answers the same to \d+ inputs to which the original gives"),
    ])  # fmt: skip
    def test_one_that_is_right_for_its_harness_alone_is_refused(self, change, said, monkeypatch):
        monkeypatch.setattr("kernelwright.suites._by_calls.ptx_of", lambda _: ["setp.nan.f32 %p1, %f1, %f1;"])
        ours = judged(change)
        assert (ours.verdict, ours.failed) == (VerdictStatus.REJECTED, ("other-inputs",))
        assert re.search(said, ours.reason)

    @pytest.mark.parametrize(("change", "original", "ptx"), [
        (no_nan, nothing, "max.f32 %f1, %f2, %f3;"), (blocks_of_sixteen, nothing, ""), (sums_in_order, cumulated, ""),
        (no_signs, no_large, ""),
    ])  # fmt: skip
    def test_what_an_honest_program_may_do_outside_of_its_problem_refuses_nothing(
        self, change, original, ptx, monkeypatch
    ):
        monkeypatch.setattr("kernelwright.suites._by_calls.ptx_of", lambda _: [ptx])
        ours = judged(change, original=original)
        assert ours.verdict is VerdictStatus.UNKNOWN, ours.reason

    @pytest.mark.parametrize(("change", "check"), [
        (in_place, "inputs-unchanged"), (one_digit, "correct"), (by_heart, "correct"),
    ])  # fmt: skip
    def test_one_that_is_wrong_on_its_harness_s_own_calls_is_refused(self, change, check):
        ours = judged(change)
        assert (ours.verdict, ours.failed) == (VerdictStatus.REJECTED, (check,))

    def test_one_that_writes_beyond_what_the_original_writes_is_unknown(self):
        def beyond(left, n):
            left[1][n:] = 7

        values = [v / 500 for v in random.Random(3).sample(range(1, 500), 64)]
        ours = _on_calls(Doubles(beyond), Doubles(nothing), [call_of([*values, 1, 1])])
        assert "writes where the original writes nothing" in ours.reason

    def test_one_that_leaves_what_holds_the_answer_already_is_not_right(self, monkeypatch):
        monkeypatch.setattr("kernelwright.suites._by_calls.random.Random", partial(random.Random, 5))

        def tail(left, n):
            left[1][n // 4 * 4 : n] = left.given[n // 4 * 4 : n]

        call = call_of(HARNESS)
        held = Call(call.name, call.how, call.arguments, (call.memories[0], (2 * HARNESS).tobytes()))
        with np.errstate(all="ignore"):
            ours = _on_calls(Doubles(tail), Doubles(nothing), [held])
        assert ours.verdict is VerdictStatus.UNKNOWN
        differing = int(re.search(r"on (\d+) of", ours.reason)[1])
        assert differing > 4, ours.reason

    def test_a_lower_precision_is_not_taken_for_right(self):
        assert judged(half).verdict is not VerdictStatus.ACCEPTED

    def test_one_that_copies_to_the_host_is_unknown(self):
        assert "copies from the device to the host" in judged(nothing, "to-host\n").reason


class TestHostHalf:
    def departs(self, body, tmp_path):
        (tmp_path / "k.cpp").write_text(DECLARED + body)
        words = ["g++", *FLAGS.split(","), "-c", "-o", tmp_path / "k.o", tmp_path / "k.cpp"]
        subprocess.run(words, check=True, timeout=60)
        return departs(tmp_path / "k.o")

    pytestmark = pytest.mark.needs("objdump", "g++")

    def test_sizes_launches_and_words_to_a_person_are_what_a_host_half_does(self, tmp_path):
        body = (
            "void f(const float* x, float* y, int n) { void* all[] = {&x, &y, &n}; if (!kept) cudaMalloc(&kept, 4 * n);"
            " for (int i = 0; i < n / 64; i++) if (cudaLaunchKernel((void*)f, i, n, all, 0, 0))"
            ' fprintf(stderr, "%d", n); }'
        )
        assert self.departs(body, tmp_path) == ""

    @pytest.mark.parametrize(("body", "said"), [
        ("void f(const float* x, float* y, int n) { for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }", "computes: in"),
        ('int f() { return getenv("A") != 0; }', "calls getenv"),
        ("void f(void (*g)()) { g(); g(); }", "computes: in"),
        ('void f() { asm volatile("syscall"); }', "has syscall"),
        ('void f(int* at) { printf("%*c%n", 3, 65, at); }', "prints how much"),
        ("void f(long n) { char a[n]; cudaMalloc((void**)a, n); }", "computes: in"),
    ])  # fmt: skip
    def test_what_else_it_does_is_named(self, body, said, tmp_path):
        assert said in self.departs(body, tmp_path)


def test_calls_and_launches_of_a_harness_are_kept_and_declarations_stay():
    harness = '#include "f.h"\nvoid f(int* x, int n);\nint main() { f(x, 1); k<<<1, 2>>>(x); if (f(x, 2)) return 1; }\n'
    own = "__global__ void __launch_bounds__(64) k(int* x) {}\nint f(int* x, int n) { return 0; }\nstatic void s() {}\n"
    names = called_of({"t.cu": harness}, "s.cu", own)
    assert names == {"k": "__global__ void k(int* x)", "f": "int f(int* x, int n)"}
    text = keeping({"t.cu": harness}, "s.cu", names)["t.cu"]
    assert text.count('kept::call("f", &f)(x') == 2
    assert 'kept::launch("k", &k, 1, 2)(x);' in text
    assert "void f(int* x, int n);" in text
    assert text.index("f.h") < text.index("kept_calls.h") < text.index("int main")


def test_other_calls_are_of_every_kind_and_of_the_same_form():
    call = call_of(range(64))
    found = [one for one, _ in zip(others_of(call, random.Random(0)), range(20), strict=False)]
    assert len({one.kind for one in found}) == 5
    assert all([len(m) for m in one.memories] == [256, 256] and len(one.arguments) == 3 for one in found)
    assert all(1 <= one.arguments[2].whole < 65 for one in found)


def test_floats_are_compared_by_what_rounding_takes_them_and_others_exactly():
    truth = np.linspace(1, 2, 1000, dtype=np.float32)
    beyond = {
        "same": truth * np.float32(1 + 2e-7),
        "near": truth * np.float32(1.0001),
        "other": truth + np.float32(0.01),
    }
    for said, mine in beyond.items():
        assert distance(mine.tobytes(), truth.tobytes(), OUT) == said
    whole = Argument("p", "i", 4)
    assert distance(np.int32([1]).tobytes(), np.int32([2]).tobytes(), whole) == "other"


def test_what_was_not_answered_to_the_end_is_no_answer():
    assert answers_in("o 0011\n.\no 00") == answers_in("o 0011\n.\n")
    assert isinstance(judged(nothing), Ours)


@pytest.mark.parametrize("written", [
    "st.shared.u32 [%r2], %r9;", "atom.shared.add.u32 %r8, [%r2], 1;", "call.uni f, (%r2);",
    "st.local.u32 [%r9], %r2;",
])  # fmt: skip
def test_shared_memory_that_is_read_and_never_written_is_told(written):
    read = (
        ".visible .entry k()\n{\n.shared .align 4 .b8 never[256];\nmov.u32 %r1, never;\nadd.s32 %r2, %r1, 4;\nWRITTEN\n"
        "ld.shared.u32 %r3, [%r2];\nret;\n}\n"
    )
    assert unwritten_shared(read.replace("WRITTEN", "")) == "never"
    assert unwritten_shared(read.replace("WRITTEN", written)) == ""

"""Every schedule that is timed is legal and prints; no time is looked at."""

from benchmarks.forms import CASES, read, states

from kernelwright.compiler.printers import cpp


def test_every_schedule_is_legal_and_prints():
    for function, shapes, schedules in CASES.values():
        for names, state in zip(schedules, states(read(function, shapes), schedules), strict=True):
            assert [name for name, _ in state.steps] == names.split()
            assert cpp.source(state.program)

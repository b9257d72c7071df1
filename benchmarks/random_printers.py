"""Random programs printed, built, run and held against float64: the nightly command of the printers.

    python -m benchmarks.random_printers --language cpp --count 2000 [--first 100000] [--steps 8]

Every program is changed by up to three legal actions at random before it is printed, in C++, OpenCL C or WGSL;
`benchmarks.triton_coverage random` does so for Triton. One whose results differ by more than torch's own error
explains is printed as source, cut down to the first step that differs, and the exit code is 1. What a language has no
form for, or what torch computes in part, is counted and left out. The same seeds give the same kernels anywhere.
"""

import argparse
from collections import Counter
from functools import partial
from pathlib import Path

import torch

from kernelwright.compiler.actions import State, offered
from kernelwright.compiler.lower import NotLowered
from kernelwright.compiler.printers import Unprintable, forms_of, printer_of
from kernelwright.languages import get_language
from kernelwright.records import BuildStatus, Candidate, TensorSpec
from kernelwright.testing import RandomProgram, random_program

from .random_graphs import DRAWN, Case, case_of, drawn, smallest

LANGUAGES = ("cpp", "opencl", "wgsl")
NO_FORM = "no form"
_BUILD_S = 300.0


def printed(case: Case, language: str) -> Candidate | None:
    """Print a case under random actions; none where the language has no form for it or torch computes a part."""
    able = set(offered(forms_of(language)))
    state = drawn(State(case.graph, case.graph), case.program.seed, actions=[a for a in DRAWN if a in able])
    render = printer_of(language)
    if render is None or state.program is None or state.program.natives:
        return None
    try:
        return render(state.program, state.graph, parameters={"actions": state.text})
    except (Unprintable, NotLowered):
        return None


def fault(program: RandomProgram, language: str) -> str | None:
    """Say how a printed program differs from its meaning, `NO_FORM` where it is not printed; none where it is right."""
    try:
        case = case_of(program)
        candidate = printed(case, language)
        if candidate is None:
            return NO_FORM
        return case.difference(_run(candidate, case))
    except Exception as error:  # noqa: BLE001 - any exception is the finding
        return f"{type(error).__name__}: {error}"


def _run(candidate: Candidate, case: Case) -> list[torch.Tensor]:
    language = get_language(candidate.language)
    build = language.build(candidate, deadline_s=_BUILD_S)
    if build.status is not BuildStatus.OK:
        raise RuntimeError(f"build {build.status}: {build.diagnostics}")
    outputs = tuple(
        TensorSpec(name=f"o{i}", shape=tuple(t.shape), dtype=str(t.dtype).removeprefix("torch."))
        for i, t in enumerate(case.native)
    )
    found = language.load(candidate, Path(build.artefact), outputs)(*(t.contiguous() for t in case.inputs))
    return list(found) if isinstance(found, tuple) else [found]


def _wrong(program: RandomProgram, language: str) -> str | None:
    """Say what is wrong; none where nothing is, or nothing was printed."""
    why = fault(program, language)
    return None if why == NO_FORM else why


def main() -> None:
    """Run the seeds asked for and print what fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--language", choices=LANGUAGES, default="cpp")
    parser.add_argument("--first", type=int, default=100_000)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = Counter[str]()
    for seed in range(options.first, options.first + options.count):
        program = random_program(seed, steps=options.steps)
        why = fault(program, options.language)
        found["right" if why is None else NO_FORM if why == NO_FORM else "wrong"] += 1
        if why not in (None, NO_FORM):
            part, why = smallest(program, partial(_wrong, language=options.language))
            print(f"seed {seed}: {why}\n{part}", flush=True)
    print(f"{options.count} programs in {options.language}: {dict(found)}")
    raise SystemExit(1 if found["wrong"] else 0)


if __name__ == "__main__":
    main()

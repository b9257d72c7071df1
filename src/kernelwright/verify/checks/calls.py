"""The answer is computed by what the task's contract allows, and by that alone."""

from ...records import Finding
from ...sandbox import OperatorIsolation, Seen, WatchMode, WorkerFailure
from .._case import Case
from .._protocol import Depth, blamed, failed, passed
from .._trial import Trial
from .correct import compare_outputs

_MOVES = frozenset({
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "zeros",
    "zeros_like", "new_zeros", "ones", "ones_like", "full", "full_like", "eye", "arange", "linspace",
    "scalar_tensor", "clone", "copy_", "_to_copy", "fill_", "zero_", "detach", "detach_", "lift_fresh",
    "resize_", "set_", "as_strided_", "_unsafe_view", "_local_scalar_dense", "is_same_size", "record_stream",
})  # fmt: skip
"""Operators that make, fill, move or look at memory and compute nothing."""
_LIBRARY = frozenset({
    "mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "_scaled_mm", "_int_mm", "_grouped_mm",
    "convolution", "_convolution", "convolution_overrideable", "_addmm_activation",
})  # fmt: skip
_LIBRARY_KINDS = ("mkldnn_", "cudnn_", "miopen_", "_fft_", "linalg_", "_linalg_")
"""Operators that hand the work to a vendor's library."""
_SHARE = 1 / 16
"""Operators that touch less than this share of the largest output's elements do not count."""
_RUNTIMES = ("ld-", "libc.", "libm.", "libdl.", "librt.", "libpthread.", "libgcc_s", "libstdc++", "libgomp", "libomp",
             "libtvm", "libtriton", "libOpenCL", "libpocl", "libcuda", "libnvidia", "libnvrtc", "libtilelang", "libz3",
             "libcute_dsl")  # fmt: skip
"""Installed libraries that a kernel needs to run at all; one that a worker wrote itself is told by its path."""


class Calls:
    """Watch a call in a worker of its own, then spoil what the candidate's kernels write, then refuse them.

    Then it is called in a worker where what the rule does not allow of torch is spoilt from the end of loading on,
    which no falsified log helps against.

    Covers: torch's operators that compute, on any Python thread; vendor libraries loaded by a custom-only kernel;
    decoys, whose corruption changes nothing; kernels that fail and are quietly replaced.
    Does not cover: contracts that allow anything; launches counted and spoilt where the log is falsified; a candidate
    that finds the watch and behaves while it is on.
    """

    name = "calls"
    depth: Depth = "screen"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail on the first thing that the contract does not allow."""
        rule = trial.problem.task.contract.calls
        if rule == "anything":
            return passed(self.name)
        with trial.another(trial.oracle, watched=True) as watched:
            try:
                found = _call(watched, case, "see", self.name)
            except WorkerFailure as failure:
                return blamed(watched, self.name, failure, "while it is watched, ")
            if found.status == "fail":
                return found
            seen = watched.worker(case.workload).seen()
            if message := _forbidden(seen, case, rule):
                return failed(self.name, message)
            if seen.launches and _right(watched, case, "spoil"):
                message = "the answer stays when what its own kernels write is spoilt: they are a decoy"
                return failed(self.name, message)
            if seen.launches and _right(watched, case, "refuse"):
                return failed(
                    self.name, "its own kernels failed and it answered all the same: a silent fallback"
                )
        library, kinds = ((), ()) if rule == "custom-only" else (tuple(_LIBRARY), _LIBRARY_KINDS)
        alone = OperatorIsolation(spared=tuple(_MOVES), library=library, kinds=kinds, least=_least(case))
        with trial.another(trial.oracle, alone=alone) as bereft:
            if not _right(bereft, case):
                return failed(self.name, "without torch's operators it does not answer: they computed unseen")
        return passed(self.name, launches=seen.launches)


def _call(trial: Trial, case: Case, mode: WatchMode | None, check: str) -> Finding:
    placed = trial.place(case)[0]
    if mode is not None:
        placed.worker.watch(mode)
    return compare_outputs(check, trial.call([placed])[0], case, "while it is watched, ")


def _right(trial: Trial, case: Case, mode: WatchMode | None = None) -> bool:
    """Tell whether a call is right in a mode in which it should not be; a failure is no answer, unless time was up."""
    try:
        return _call(trial, case, mode, "calls").status == "pass"
    except WorkerFailure as failure:
        if trial.ran_out(failure):
            raise
        return False


def _least(case: Case) -> float:
    """Return how many elements an operator must touch to count."""
    return _SHARE * max((r.output.numel() for r in case.outputs), default=0)


def computing_in(seen: Seen, case: Case) -> list[str]:
    """Name torch's operators that computed something worth counting in the calls that were seen."""
    least = _least(case)
    return [n for n, elements in seen.operators.items() if n not in _MOVES and elements >= least]


def _forbidden(seen: Seen, case: Case, rule: str) -> str:
    """Say what the rule does not allow; empty where everything is allowed."""
    computing = computing_in(seen, case)
    library = [n for n in computing if n in _LIBRARY or n.startswith(_LIBRARY_KINDS)]
    others = computing if rule == "custom-only" else [n for n in computing if n not in library]
    if others:
        return f"torch's operator {others[0]} computed in the call, which {rule!r} does not allow"
    if rule == "custom-only" and (loaded := [n for n in seen.libraries if not n.startswith(_RUNTIMES)]):
        return f"the library {loaded[0]} was loaded, which {rule!r} does not allow"
    if not seen.launches and not library:
        return "no kernel of its own was launched, and nothing that the task allows computed the answer"
    return ""

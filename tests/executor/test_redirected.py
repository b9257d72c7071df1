"""What is redirected of languages' own launchers and compilers, without the languages."""

import pytest

from kernelwright.executor import NotExecutedError
from kernelwright.executor.helion import _launch
from kernelwright.executor.tilelang import _is_plain


class Kernel:
    def __init__(self) -> None:
        self.launched: list[object] = []

    def __getitem__(self, grid: tuple[int, ...]):
        return lambda *arguments, **settings: self.launched.append((grid, arguments, settings))


def test_helion_s_launches_go_through_the_grid_with_what_triton_takes() -> None:
    kernel = Kernel()
    nothing = {
        "_remote_copy_signal_slots_per_program": 0,
        "launch_cooperative_grid": False,
        "ptx_options": "-O1",
    }
    _launch(kernel, (4,), 1, 2, num_warps=4, num_stages=1, maxnreg=32, **nothing)
    assert kernel.launched == [((4,), (1, 2), {"num_warps": 4, "num_stages": 1, "maxnreg": 32})]


@pytest.mark.parametrize("asked", ["_persistent_state_specs", "launch_cooperative_grid"])
def test_what_a_device_is_needed_for_is_not_executed(asked: str) -> None:
    kernel = Kernel()
    with pytest.raises(NotExecutedError, match=f"not executed: a Helion kernel with '{asked.lstrip('_')}'"):
        _launch(kernel, (4,), num_warps=4, num_stages=1, **{asked: (1,)})
    assert not kernel.launched


@pytest.mark.parametrize(
    ("target", "plain"),
    [
        ("cuda", True),
        ({"kind": "cuda"}, True),
        ({"kind": "cuda", "arch": "sm_80"}, False),
        ({"kind": "hip"}, False),
        ("llvm", False),
    ],
    ids=str,
)
def test_a_target_that_names_no_gpu_becomes_the_one_that_is_executed(target, plain: bool) -> None:
    assert _is_plain(target) == plain

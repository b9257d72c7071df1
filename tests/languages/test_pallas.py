"""Pallas: grids and blocks that a TPU would not take are refused, and kernels are interpreted and lowered to Mosaic."""

import json
import re
from types import SimpleNamespace

import pytest

from forked import STRANGER, run
from kernelwright.config import Settings
from kernelwright.languages import pallas
from kernelwright.languages._pallas_grid import GridError, check_grid
from kernelwright.languages.pallas import Pallas
from kernelwright.records import BuildStatus, Candidate, SourceFile


def block(shape, index_map) -> SimpleNamespace:
    return SimpleNamespace(block_shape=shape, index_map=index_map)


def checked(grid, *, given=None, out=None, shape=(64, 256), **more) -> None:
    whole = block((8, 128), lambda i, j: (i, j))
    options = {"grid": grid, "in_specs": [given or whole], "out_specs": out or whole, **more}
    array = SimpleNamespace(shape=shape)
    check_grid(options, [array], array, "copy")


@pytest.mark.parametrize(
    ("grid", "out", "shape"),
    [
        ((8, 2), None, (64, 256)),
        ((8, 2), None, (60, 200)),
        ((8, 2, 3), block((8, 128), lambda i, j, k: (i, j)), (64, 256)),
        ((8,), block((8, None, 256), lambda i: (i, 0, 0)), (64, 1, 256)),
        ((8,), block((8, 256), lambda i: (min(i, 7), 0)), (64, 256)),
        ((), block((64, 256), lambda: (0, 0)), (64, 256)),
        ((2,), block((SimpleNamespace(elements=3), 8), lambda i: (i * 99, 0)), (64, 256)),
        ((8,), block(None, None), (64, 256)),
    ],
    ids=[
        "plain",
        "ragged",
        "accumulates",
        "squeezed",
        "one by one",
        "no grid",
        "elements are not checked",
        "whole",
    ],
)
def test_what_a_tpu_takes_is_not_refused(grid, out, shape) -> None:
    checked(grid, given=block(None, None), out=out, shape=shape)


@pytest.mark.parametrize(
    ("grid", "more", "said"),
    [
        ((9, 2), {}, "index map of input 0 of copy gives block 8 along dimension 0 at grid point (8, 0); there are "
                     "blocks 0 to 7 of 8 in 64"),
        ((8, 2), {"given": block((8, 128), lambda i, j: (i - 1, j))}, "gives block -1 along dimension 0"),
        ((8, 2), {"given": block((8,), lambda i, j: (i,))}, "has blocks (8,) and shape (64, 256)"),
        ((8, 2), {"given": block((8, 128), lambda i, j: i)}, "gives 1 numbers; expected 2"),
        ((8, 1), {}, "no grid point writes block (0, 1) of output 0 of copy; 8 of 16 are left out"),
        ((3, 8, 2), {"given": block(None, None), "out": block((8, 128), lambda k, i, j: (i, j))},
         "block (0, 0) of output 0 of copy is visited again at grid point (1, 0, 0)"),
        ((8, 0), {}, "the grid of copy is (8, 0)"),
    ],
)  # fmt: skip
def test_what_a_tpu_does_otherwise_is_refused(grid, more, said: str) -> None:
    with pytest.raises(GridError, match=re.escape(said)):
        checked(grid, **more)


def test_a_grid_specification_is_read_like_its_parts_and_index_maps_of_data_are_left_alone() -> None:
    whole = block((8, 128), lambda i, j: (i, j))
    parts = SimpleNamespace(grid=(9, 2), in_specs=(whole,), out_specs=whole)
    with pytest.raises(GridError, match="gives block 8"):
        checked((), grid_spec=parts)
    checked((), grid_spec=SimpleNamespace(num_scalar_prefetch=1))


def test_a_grid_beyond_all_bounds_is_not_served() -> None:
    with pytest.raises(NotImplementedError, match="a grid of 4611686018427387904 points is too large"):
        checked((1 << 31, 1 << 31))


PRELUDE = """
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
def double(x, out): out[...] = x[...] * 2
def product(a, b, out):
    @pl.when(pl.program_id(2) == 0)
    def _(): out[...] = jnp.zeros_like(out)
    out[...] += a[...] @ b[...]
def doubled(x, rows, columns):
    block = pl.BlockSpec((rows, columns), lambda i, j: (i, j))
    return pl.pallas_call(double, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(pl.cdiv(x.shape[0], rows), pl.cdiv(x.shape[1], columns)), in_specs=[block], out_specs=block)(x)
def copied(x, early, shift):
    def kernel(x, out, held, done):
        copy = pltpu.make_async_copy(x.at[pl.ds(8 * pl.program_id(0) + shift, 8)], held, done)
        copy.start()
        if early: copy.wait()
        out[...] = held[...]
        if not early: copy.wait()
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(2,),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)], out_specs=pl.BlockSpec((8, 256), lambda i: (i, 0)),
        scratch_shapes=[pltpu.VMEM((8, 256), jnp.float32), pltpu.SemaphoreType.DMA])(x)
"""
SOURCES = {
    "right": "def run(a, b):\n"
    "    return pl.pallas_call(product, out_shape=jax.ShapeDtypeStruct((16, 256), jnp.float32), grid=(2, 2, 2),\n"
    "        in_specs=[pl.BlockSpec((8, 128), lambda i, j, k: (i, k)),\n"
    "                  pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],\n"
    "        out_specs=pl.BlockSpec((8, 128), lambda i, j, k: (i, j)))(a, b)\n",
    "small blocks": "def run(a, b): return doubled(a, 4, 64)\n",
    "no kernel": "def run(a, b): return a @ b\n",
    "made before": "block = pl.BlockSpec((4, 64), lambda i, j: (i, j))\n"
    "call = jax.jit(pl.pallas_call(double, out_shape=jax.ShapeDtypeStruct((16, 256), jnp.float32), grid=(4, 4),\n"
    "    in_specs=[block], out_specs=block))\n"
    "def run(a, b): return call(a)\n",
    "waited for": "def run(a, b): return copied(a, 1, 0)\n",
    "read before its wait": "def run(a, b): return copied(a, 0, 0)\n",
    "beyond the array": "def run(a, b): return copied(a, 1, 4)\n",
}
PROGRAM = """
import json, pathlib, sys, torch
from kernelwright.languages.pallas import Pallas
from kernelwright.records import Candidate, SourceFile, TensorSpec
told = {}
a, b = torch.randn(16, 256), torch.randn(256, 256)
for name, text in json.loads(pathlib.Path("sources.json").read_text()).items():
    source = SourceFile(path="k.py", text=text)
    kernel = Pallas().load(Candidate(sources=(source,), language="pallas", entry="k.py:run", style="function"),
        pathlib.Path("nowhere"), (TensorSpec(name="out", shape=(16, 256), dtype="float32"),))
    try:
        answer = kernel(a, b)
        told[name] = float((answer - a @ b).abs().max())
        kernel(a.double(), b)
    except Exception as error:  # which one is what is told
        told[name + " said"] = f"{type(error).__name__}: {error}"
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | float]:
    """Have all kernels run in one process of their own, as JAX starts threads, which no process that forks may have."""
    folder = tmp_path_factory.mktemp("pallas")
    (folder / "sources.json").write_text(json.dumps({name: PRELUDE + text for name, text in SOURCES.items()}))
    done = run(["-c", PROGRAM], cwd=folder, prepared=STRANGER)
    assert done.returncode == 0, done.stderr
    found: dict[str, str | float] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.needs("pallas")
class TestInterpreted:
    def test_a_product_that_adds_up_along_the_grid_is_right(self, told) -> None:
        assert told["right"] < 1e-4
        assert "torch.float64 is not a type of TPUs" in told["right said"]

    @pytest.mark.parametrize("name", ["small blocks", "made before"])
    def test_what_mosaic_does_not_take_is_refused_though_its_answer_is_right(self, told, name: str) -> None:
        assert re.match(
            "RuntimeError: it cannot be lowered for a TPU: .*divisible by 8 and 128", told[f"{name} said"]
        )

    def test_a_copy_that_was_waited_for_is_taken(self, told) -> None:
        assert told["waited for"] > 0 and "float64" in told["waited for said"]

    def test_a_copy_read_before_its_wait_is_a_race_by_line_though_its_answer_is_right(self, told) -> None:
        assert re.search(
            r"race on a simulated TPU: write at k.py:17:8 .* and read at k.py:19:19 ",
            told["read before its wait said"],
        )

    def test_a_slice_beyond_an_array_that_the_interpreter_clamps_is_refused(self, told) -> None:
        assert "SimulationError: on a simulated TPU" in told["beyond the array said"]
        assert "buffer has shape (16, 256)" in told["beyond the array said"]

    def test_an_entry_without_a_kernel_is_refused(self, told) -> None:
        assert "called no pallas_call" in told["no kernel said"]


def test_builds_check_syntax_and_style(fresh: Settings) -> None:
    def built(text: str, style: str) -> str:
        source = SourceFile(path="k.py", text=text)
        made = Pallas(fresh).build(
            Candidate(sources=(source,), language="pallas", entry="k.py:run", style=style)
        )
        assert made.status is not BuildStatus.OK
        return made.diagnostics

    if Pallas().available().ok:
        assert "k.py:1:" in built("def run(:", "function")
        assert "is called in style 'function', not 'module'" in built("class run: pass", "module")


def test_without_jax_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, fresh: Settings) -> None:
    monkeypatch.setattr(pallas, "_version", lambda: None)
    source = SourceFile(path="k.py", text="")
    made = Pallas(fresh).build(
        Candidate(sources=(source,), language="pallas", entry="k.py:run", style="function")
    )
    assert made.status is BuildStatus.UNAVAILABLE
    assert "kernelwright[pallas]" in made.diagnostics
    assert not any(Pallas().timeable(device) for device in ("cpu", "cuda", "tpu"))
    assert Pallas.executed == ("tpu",)

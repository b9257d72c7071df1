"""`rescale`: where a softmax may run by blocks, what it saves, and that it is right for every kind of value."""

import dataclasses

import torch
from tests.compiler.test_actions import BY_NAME
from tests.compiler.test_moves import first, softmax, start_of
from tests.compiler.test_products import built
from torch.nn import functional as F

from kernelwright.compiler._layouts import laid_out, space_of
from kernelwright.compiler.actions import taken
from kernelwright.compiler.lower import lower
from kernelwright.compiler.policy import estimate, leaves
from kernelwright.compiler.printers import cpp
from kernelwright.compiler.tile import Load, Loop, expressions, run_program, statements, walk

LENGTH = 8192 + 1024 + 5


def log_softmax(x):
    return torch.log_softmax(x, -1)


def masked(x, mask):
    return torch.softmax(torch.where(mask > 0, x * 0.5, -torch.inf), -1)


def entropy(x, shares):
    return F.cross_entropy(x, shares)


def rescaled(state):
    powers = [site for site in BY_NAME["overwrite"].sites(state) if "exp" in site]
    return first(taken(state, BY_NAME["overwrite"], powers[0]) if powers else state, "rescale")


def hostile():
    """Rows of every kind: plain, wide, subnormal, masked in blocks, all masked, one infinity, one that is no number."""
    torch.manual_seed(0)
    x = torch.randn(8, LENGTH)
    x[1] *= 30
    x[2] = torch.linspace(-105, 0, LENGTH)[torch.randperm(LENGTH)]
    x[3, : 3 * 1024] = -torch.inf
    x[3, -4:] = -torch.inf
    x[4] = -torch.inf
    x[5, 5000] = torch.inf
    x[6, 9000] = torch.nan
    x[7] = torch.linspace(-200, 0, LENGTH)
    return x


def test_only_the_sum_of_powers_of_a_long_row_is_taken_by_blocks():
    def sites(function, *shapes):
        return list(BY_NAME["rescale"].sites(start_of(function, *shapes)))

    assert sites(softmax, (4, LENGTH)) == ["softmax_kernel.softmax_sum5_1"]
    assert sites(log_softmax, (4, LENGTH))
    assert not sites(softmax, (4, 4096)), "a short row stays in the first-level cache"
    assert not sites(lambda x: torch.exp(x - x.amin(-1, keepdim=True)).sum(-1), (4, LENGTH))
    assert not sites(lambda x: torch.exp(2 * x - x.amax(-1, keepdim=True)).sum(-1), (4, LENGTH)), (
        "another value"
    )
    assert not sites(lambda x: (x - x.amax(-1, keepdim=True)).sum(-1), (4, LENGTH)), "no power"
    assert not sites(lambda x: torch.exp(x - x.amax(-1, keepdim=True)).amax(-1), (4, LENGTH)), "no sum"
    assert not list(BY_NAME["rescale"].sites(rescaled(start_of(softmax, (4, LENGTH))))), (
        "it is by blocks already"
    )


def test_a_row_by_blocks_is_read_from_memory_once():
    plain = first(start_of(softmax, (64, 1 << 17)), "overwrite")
    after = first(plain, "rescale")
    assert estimate(after.program).cache_bytes < estimate(plain.program).cache_bytes
    assert estimate(after.program).time_us < estimate(plain.program).time_us
    assert next(leaves(plain.origin)).state.steps == after.steps
    (kernel,) = after.program.steps
    within = [
        s
        for s in statements(kernel.body)
        if isinstance(s, Loop) and sum(isinstance(t, Loop) for t in s.body) == 2
    ]
    assert len(within) == 1
    reads = {
        e.buffer
        for s in statements(within[0].body)
        for x in expressions(s)
        for e in walk(x)
        if isinstance(e, Load)
    }
    assert reads == {"x0"}


def test_the_elements_of_a_block_are_for_the_tuner():
    after = rescaled(start_of(softmax, (4, LENGTH)))
    space = space_of(after.program, after.decisions.moves)
    assert next(p for p in space.parameters if p.name == "rescaled").values[0] == 1024
    other = cpp.source(lower(after.graph, laid_out(after.decisions, {"rescaled": 2048})))
    assert "* 2048" in other and "* 1024" not in other


def test_the_last_pass_over_a_block_asks_for_the_next():
    after = rescaled(start_of(softmax, (4, LENGTH)))
    for size in (1024, 2048):
        text = cpp.source(lower(after.graph, laid_out(after.decisions, {"rescaled": size})))
        asked = f"kw::prefetch(x0 + ((i0 * {LENGTH}) + softmax_sum5_1) + kw::near({size}));"
        assert text.count(asked) == text.count("kw::prefetch(") == 1


def test_lines_of_a_large_result_are_asked_for_before_a_block_is_written():
    """Where a pass keeps exponentials in it; a small one lies in cache, and a row that is kept apart too."""
    asked = f"kw::write_ahead(softmax + ((i0 * {LENGTH}) + softmax_sum5_1), {200 * LENGTH});"
    large = cpp.source(rescaled(start_of(softmax, (200, LENGTH))).program)
    assert large.count(asked) == large.count("kw::write_ahead(") == 1
    kept = first(first(start_of(softmax, (200, LENGTH)), "keep"), "rescale")
    for state in (rescaled(start_of(softmax, (4, LENGTH))), kept):
        assert "kw::write_ahead(" not in cpp.source(state.program)


def test_python_runs_the_blocks_as_the_passes():
    x = hostile()[3:4, :-1020]
    state = start_of(softmax, tuple(x.shape))
    (wanted,) = run_program(state.program, {0: x})
    (found,) = run_program(rescaled(state).program, {0: x})
    assert torch.allclose(found, wanted, rtol=1e-12, atol=0)


def test_blocks_are_right_for_every_kind_of_value():
    x = hostile()
    shape = tuple(x.shape)
    mask = torch.rand(shape) - 0.3
    states = {
        "plain": rescaled(start_of(softmax, shape)), "kept": first(first(start_of(softmax, shape), "keep"), "rescale"),
        "logarithm": rescaled(start_of(log_softmax, shape)), "masked": rescaled(start_of(masked, shape, shape)),
    }  # fmt: skip
    library = built(
        {name: (s.graph, dataclasses.replace(s.program, name=name)) for name, s in states.items()}
    )
    wanted = {
        "plain": softmax(x.double()), "kept": softmax(x.double()), "logarithm": log_softmax(x.double()),
        "masked": masked(x.double(), mask.double()),
    }  # fmt: skip
    for name, right in wanted.items():
        found = torch.empty(shape)
        library.get_function(name)(*((x, mask) if name == "masked" else (x,)), found)
        assert torch.equal(found.isnan(), right.isnan()), name
        assert torch.equal(found.isinf(), right.isinf()), name
        near = torch.isclose(found.double(), right, rtol=2e-5, atol=3e-45, equal_nan=True)
        assert near.all(), (name, (~near).nonzero()[:3])


def test_a_loss_of_long_rows_runs_by_blocks():
    x = hostile()[:3]
    shares = torch.softmax(torch.randn(x.shape), -1)
    after = first(start_of(entropy, tuple(x.shape), tuple(x.shape)), "rescale")
    library = built({"entropy": (after.graph, dataclasses.replace(after.program, name="entropy"))})
    found = torch.empty(())
    library.get_function("entropy")(x, shares, found)
    assert torch.allclose(found.double(), entropy(x.double(), shares.double()), rtol=1e-6)

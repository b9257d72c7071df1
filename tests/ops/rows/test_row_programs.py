"""Row programs: every family, on shapes with tails, of one, prime, wide and tall, with special values."""

import pytest
import torch
import torch.nn.functional as F
from tests.ops.templates import Function, check, ends, hold, load, templates
from torch import nn

LONG = pytest.mark.long
SHAPES = [(33, 65), (1, 1), (7, 16), (3, 1000), (1, 40011), (2003, 12)]
CUBES = [(2, 5, 7), (3, 64, 33), (1, 1, 1), (1, 300, 130)]


def draw(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.rand(shape) + 0.1 if len(shape) == 1 else torch.randn(shape) + 0.05 for shape in shapes]


def cases(*per_shape: str, shapes: list[tuple[int, ...]] = SHAPES) -> list[list[torch.Tensor]]:
    """Draw for each shape one tensor an entry: `full`, `row` (last axis), `column` (all but the last)."""
    torch.manual_seed(0)
    of = {"full": lambda s: s, "row": lambda s: s[-1:], "column": lambda s: (*s[:-1], 1)}
    return [draw(*(of[kind](shape) for kind in per_shape)) for shape in shapes]


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (lambda x, y: F.gelu(x + 2 * y), ("full", "full")),
        (lambda x, w, c: F.silu(x * w) - torch.sigmoid(c) / (1 + x.abs()), ("full", "row", "column")),
        pytest.param(
            lambda x: (x.clamp(-1, 1), torch.where(x > 0, x, x.expm1()), x > 0.5), ("full",), marks=LONG
        ),
    ],
)
def test_pointwise(function: Function, kinds: tuple[str, ...]) -> None:
    check("rows", function, cases(*kinds), name="pointwise", chosen=ends)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x: (x.mean(-1), x.amax(-1), x.var(-1), x.argmin(-1)), SHAPES[:1] + SHAPES[2:]),
        pytest.param(lambda x: (x.square().sum(0), x.amin(0), x.argmax(0)), SHAPES, marks=LONG),
        pytest.param(lambda x: (x.square().mean(), x.argmax()), SHAPES, marks=LONG),
        pytest.param(lambda x: x.std((0, 2)), CUBES[:2] + CUBES[3:], marks=LONG),
        pytest.param(lambda x: (x.amax(1), (x > 1).any(1), (x > -2).all(1)), CUBES, marks=LONG),
        pytest.param(lambda x: F.gelu(x.square().mean((1, 2), keepdim=True) + 1) * x, CUBES, marks=LONG),
        pytest.param(lambda x: x / torch.linalg.vector_norm(x, dim=-1, keepdim=True), SHAPES, marks=LONG),
        pytest.param(lambda x: torch.max(x, 1), SHAPES, marks=LONG),
    ],
)
def test_reduce(function: Function, shapes: list[tuple[int, ...]]) -> None:
    check("rows", function, cases("full", shapes=shapes), name="reduce", chosen=ends)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x: torch.softmax(x * 3, -1), SHAPES),
        pytest.param(lambda x: F.log_softmax(x, 1), CUBES, marks=LONG),
        pytest.param(lambda x: torch.logsumexp(x, 0), SHAPES, marks=LONG),
    ],
)
def test_softmax(function: Function, shapes: list[tuple[int, ...]]) -> None:
    check("rows", function, cases("full", shapes=shapes), name="softmax", chosen=ends)


def rms_norm(x: torch.Tensor, residual: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    h = x + residual
    return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * w, h


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.softmax(x, -1),
        pytest.param(lambda x: torch.logsumexp(x, 0), marks=LONG),
        pytest.param(lambda x: F.log_softmax(x, -1), marks=LONG),
    ],
)
def test_softmax_far_below_zero(function: Function) -> None:
    """A lane whose first number is far below zero begins from nothing, in one pass or in two."""
    inputs = cases("full", shapes=[(33, 65), (3, 1000)])
    check("rows", function, [[300 * x - 200] for (x,) in inputs], name="softmax", chosen=ends)


def test_rms_norm_with_residual() -> None:
    check("rows", rms_norm, cases("full", "full", "row"), name="norm", chosen=ends)


@pytest.mark.parametrize(
    ("module", "shapes"),
    [
        (nn.LayerNorm(65), [(33, 65), (1, 65), (2003, 65)]),
        (nn.Sequential(nn.GroupNorm(4, 8), nn.SiLU()), [(2, 8, 3, 5), (1, 8, 2, 1), (3, 8, 31, 17)]),
        pytest.param(nn.InstanceNorm2d(8, affine=True), [(2, 8, 3, 5), (3, 8, 9, 2)], marks=LONG),
        pytest.param(nn.BatchNorm2d(8).eval(), [(2, 8, 3, 5), (1, 8, 1, 1), (3, 8, 31, 17)], marks=LONG),
    ],
)
def test_norm_modules(module: nn.Module, shapes: list[tuple[int, ...]]) -> None:
    torch.manual_seed(0)
    for tensor in module.state_dict().values():
        if tensor.is_floating_point():
            tensor.uniform_(0.5, 1.5)
    check("rows", module, [draw(shape) for shape in shapes], name="norm", chosen=ends)


def labelled(shapes: list[tuple[int, ...]]) -> list[list[torch.Tensor]]:
    torch.manual_seed(0)
    drawn = [[torch.randn(s), torch.randint(0, s[1], (s[0], *s[2:]))] for s in shapes]
    drawn[0][1].view(-1)[0] = -100
    return drawn


@pytest.mark.parametrize(
    "reduction", ["mean", *(pytest.param(n, marks=pytest.mark.long) for n in ("sum", "none"))]
)
def test_cross_entropy(reduction: str) -> None:
    def function(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, target, reduction=reduction)

    check("rows", function, labelled(SHAPES), name="loss", chosen=ends)


@pytest.mark.long
def test_cross_entropy_over_pixels() -> None:
    check("rows", F.cross_entropy, labelled([(2, 5, 3, 7), (1, 33, 8, 20)]), name="loss", chosen=ends)


def test_tasks_loss_of_all_rows() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (1 - F.cosine_similarity(x, y, dim=1)).mean()

    check("rows", function, cases("full", "full"), name="reduce", chosen=ends)


@pytest.mark.long
def test_special_values() -> None:
    """Rows are longer than a run: the largest value, or what is no number, comes in the first run or the second."""
    x = torch.randn(9, 2101)
    x[0, 3], x[1, 5], x[2, 69], x[3] = float("nan"), float("inf"), float("-inf"), float("-inf")
    x[4, 2100], x[5, 2090], x[6], x[7, 2050:] = float("nan"), float("inf"), torch.arange(2101), 60.0
    for function in (
        lambda t: torch.softmax(t, -1),
        lambda t: torch.logsumexp(t, -1),
        lambda t: (t.amax(-1), t.argmax(-1), t.argmin(-1)),
    ):
        template = templates("rows", function, [x])[0]
        for configuration in ends(template):
            hold(load(template, configuration), function, [x])


def test_long_sums_stay_accurate() -> None:
    torch.manual_seed(0)
    x = torch.rand(3_000_017)
    template = templates("rows", torch.sum, [x])[0]
    (total,) = load(template)(torch.sum, [x])
    assert abs(total.item() / x.double().sum().item() - 1) < 2e-7


def test_streaming_of_unaligned_rows() -> None:
    """Outputs beyond the threshold go past the caches; rows of odd length begin off the boundary."""
    torch.manual_seed(0)

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + w)

    inputs = [torch.randn(1201, 1103), torch.randn(1103)]
    template = templates("rows", function, inputs)[0]
    hold(load(template, {**template.default(), "stream_from_mib": 4}), function, inputs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(5, 71).to(dtype), torch.randn(71).to(dtype)]

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * w

    template = templates("rows", function, inputs)[0]
    hold(load(template), function, inputs)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.t() + x,  # permuted
        lambda x: x @ x,  # not a row program
        lambda x: x.cumsum(0).softmax(-1),
        lambda x: x.double() + 1,  # float64
        lambda x: x.add_(1),  # changes its input
        lambda x: x.sum(0, keepdim=True) + x.sum(1, keepdim=True),  # two directions
    ],
)
def test_what_does_not_match(function: Function) -> None:
    assert not templates("rows", function, [torch.randn(8, 8)])


def test_other_shapes_are_declined() -> None:
    inputs = [torch.randn(4, 8), torch.randn(4, 8)]
    (template,) = templates("rows", torch.add, inputs)
    kernel = load(template)
    with pytest.raises(RuntimeError, match="Unsupported: the shape of"):
        kernel(torch.add, [inputs[0], torch.randn(1, 8)])


@pytest.mark.long
@pytest.mark.parametrize("dim", [0, 1])
def test_costly_values_are_computed_once(dim: int) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x)
        return torch.softmax(y - y.mean(dim, keepdim=True), dim) * y

    inputs = draw((70, 131))
    template = templates("rows", function, inputs)[0]
    first = {**template.default(), "online": False}
    kept, again = (template.render({**first, "keep": keep}) for keep in (True, False))
    calls = [
        c.sources[0].text.count("kw::tanh(") + c.sources[0].text.count("kw::exp(") for c in (kept, again)
    ]
    assert calls[0] == 2 < calls[1]
    for keep in (True, False):
        hold(load(template, {**first, "keep": keep}), function, inputs)


def test_factors_of_a_channel_are_computed_once_a_row() -> None:
    inputs = [*draw((2, 3, 40, 5), (3,)), torch.rand(3) + 0.5]

    def function(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, mean, variance)

    template = templates("rows", function, inputs)[0]
    text = template.render(template.default()).sources[0].text
    assert text.index("kw::rsqrt(") < text.index("// Pass 1")
    hold(load(template), function, inputs)


def printed(function: Function, inputs: list[torch.Tensor]) -> str:
    """Return the file that a template writes, without its headers."""
    template = templates("rows", function, inputs)[0]
    made = template.render(template.default())
    return next(file.text for file in made.sources if made.entry.startswith(f"{file.path}:"))


def test_the_target_is_picked_in_the_pass_that_sums_the_exponentials() -> None:
    assert "// 1 pass(es) over each row" in printed(F.cross_entropy, labelled([(4, 40)])[0])


def test_a_row_s_number_and_a_broadcast_one_are_picked_as_they_are() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        scores = x * y + x.sum(1, keepdim=True)
        return F.nll_loss(scores - scores.logsumexp(1, keepdim=True), target, reduction="none")

    def drawn(rows: int, classes: int) -> list[torch.Tensor]:
        return [torch.randn(rows, classes), torch.randn(classes), torch.randint(0, classes, (rows,))]

    torch.manual_seed(0)
    check("rows", function, [drawn(5, 33), drawn(3, 200)], name="loss", chosen=ends)


@pytest.mark.parametrize(("function", "name"), [(F.mish, "kw::mish("), (F.softplus, "kw::softplus(")])
def test_a_chain_with_a_name_of_its_own_is_printed_by_it(function: Function, name: str) -> None:
    text = printed(function, [torch.randn(8, 40)])
    assert name in text
    assert "log1p(" not in text


@pytest.mark.parametrize(
    ("function", "asked", "paged"),
    [
        (lambda x: F.silu(x), 1, 1),
        (lambda x: x.square().sum(-1), 1, 0),
        (lambda x: x / x.sum(), 2, 1),
        (lambda x: x / x.sum(-1, keepdim=True), 0, 1),
        (lambda x: x.sum(0), 0, 0),
    ],
)
def test_what_one_pass_walks_through_is_asked_for_ahead(function: Function, asked: int, paged: int) -> None:
    template = templates("rows", function, [torch.randn(40, 70)])[0]
    text = template.render(template.default()).sources[0].text
    assert text.count("kw::read_ahead(x0_0_row + i, call.items * call.length);") == asked
    assert text.count("kw::ask_large_pages(out0.data(), out0.numel() * int64_t(sizeof(float)));") == paged

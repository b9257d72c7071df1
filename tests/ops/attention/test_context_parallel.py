"""Context parallelism on processes of gloo: results and gradients of one process, bytes of the formulas, errors."""

import multiprocessing
import traceback

import pytest
import torch
import torch.distributed as dist

from kernelwright.errors import InputError
from kernelwright.ops.attention import attention, masks
from kernelwright.ops.attention.context_parallel import ContextParallel

MASKS = {
    "full": None,
    "causal": masks.Causal(),
    "window": masks.SlidingWindow(5, causal=True),
    "documents": masks.Document((11, 3, 18), causal=True),
}
SCHEMES = {
    4: [("ring", None), ("double_ring", 2), ("all_gather", None), ("ulysses", None), ("usp", 2)],
    2: [("ring", None), ("all_gather", None), ("ulysses", None), ("double_ring", 2), ("usp", 1)],
}
LENGTH = 32


def tensors():
    torch.manual_seed(0)
    return [torch.randn(2, heads, LENGTH, size) for heads, size in ((8, 6), (4, 6), (4, 5), (8, 5))]


def alone(mask):
    """What one process computes: the results, and the gradients of q, k and v."""
    *given, slope = tensors()
    leaves = [x.requires_grad_() for x in given]
    out = attention(*leaves, mask)
    return [out.detach(), *torch.autograd.grad(out, leaves, slope)]


def parallel(scheme, inner, mask):
    own = ContextParallel(scheme, inner=inner)
    q, k, v, slope = (own.deal(x) for x in tensors())
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = own.attention(*leaves, mask)
    forward = own.sent_bytes
    found = [out.detach(), *torch.autograd.grad(out, leaves, slope)]
    counts = (
        forward, own.expected_bytes(q, k, v), own.sent_bytes - forward, own.expected_bytes(q, k, v, backward=True),
    )  # fmt: skip
    return [own.collect(x).numpy() for x in found], counts


def wrong():
    said = []
    ring, heads = ContextParallel("ring"), ContextParallel("ulysses")
    x = torch.ones(1, 1, 4, 2)
    for call in (
        lambda: ContextParallel("circle"),
        lambda: ContextParallel("usp"),
        lambda: ContextParallel("ring", inner=2),
        lambda: ContextParallel("double_ring", inner=3),
        lambda: ring.deal(torch.ones(1, 1, 7, 2)),
        lambda: ring.attention(x, x, x[0]),
        lambda: ring.attention(x, x[:, :, :2], x),
        lambda: ring.attention(x, x, x, "causal"),
        lambda: heads.attention(x, x, x),
    ):
        try:
            call()
            said.append("nothing")
        except InputError as error:
            said.append(str(error))
    return said


def process(rank, world, store, answers):
    try:
        torch.set_num_threads(1)
        dist.init_process_group("gloo", store=dist.FileStore(str(store), world), rank=rank, world_size=world)
        found = {
            (scheme, name): parallel(scheme, inner, mask)
            for scheme, inner in SCHEMES[world] for name, mask in MASKS.items()
        }  # fmt: skip
        answers.put((rank, found, wrong()))
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:
        answers.put((rank, traceback.format_exc(), []))
        raise


@pytest.fixture(scope="module", params=sorted(SCHEMES))
def ran(request, tmp_path_factory):
    """What every process of a world found."""
    attention(*tensors()[:3])  # the kernel is built and loaded once, before processes part
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    store = tmp_path_factory.mktemp("gloo") / "store"
    started = [
        context.Process(target=process, args=(r, request.param, store, answers)) for r in range(request.param)
    ]
    for one in started:
        one.start()
    found = [answers.get() for _ in started]
    for one in started:
        one.join(60)
    return request.param, found


def test_every_scheme_gives_the_results_and_gradients_of_one_process(ran):
    world, found = ran
    for name, mask in MASKS.items():
        exact = alone(mask)
        for rank, results, _ in found:
            assert isinstance(results, dict), f"process {rank}: {results}"
            for scheme, _ in SCHEMES[world]:
                for mine, right in zip(results[scheme, name][0], exact, strict=True):
                    torch.testing.assert_close(
                        torch.from_numpy(mine), right, rtol=1e-4, atol=2e-5, msg=f"{scheme}, {name}, {world}"
                    )


def test_processes_send_the_bytes_that_formulas_say(ran):
    world, found = ran
    total = 2 * LENGTH * 4 * (6 + 5) * 4
    of_q = 2 * LENGTH * 8 * (6 + 5) * 4
    for _, results, _ in found:
        for scheme, _ in SCHEMES[world]:
            forward, by_formula, back, by_formula_back = results[scheme, "causal"][1]
            assert (forward, back) == (by_formula, by_formula_back), scheme
        assert results["ring", "full"][1][0] == total * (world - 1) // world
        assert results["all_gather", "full"][1][0] == total * (world - 1) // world
        assert results["ulysses", "full"][1][0] == (total + of_q) * (world - 1) // world**2


def test_a_wrong_argument_is_named_in_one_sentence(ran):
    says = [
        "scheme is 'circle'; expected one of ring", "inner is None; expected a divisor of", "only double_ring and usp",
        "inner is 3; expected a divisor", "the length is 7; expected a multiple of", "v is of shape",
        "k is of shape", "mask is a str", "k is of 1 heads; expected a multiple of",
    ]  # fmt: skip
    for _, _, said in ran[1]:
        assert len(said) == len(says)
        for one, part in zip(said, says, strict=True):
            assert part in one
            assert "\n" not in one

"""What kernels may touch of the tensors that Python hands them, and which bytes nobody wrote."""

import pytest
import torch

from kernelwright.executor._lending import Lending
from kernelwright.executor.device import device


def lent() -> dict[int, int]:
    return {span.host: span.size for span in device()._lent}


def written(tensor: torch.Tensor) -> bool:
    states = device()._states(tensor.data_ptr(), tensor.nbytes)
    return isinstance(states, int) or bool((states != 0).all())


def test_arguments_and_what_torch_makes_are_lent_until_the_call_ends() -> None:
    x, weight = torch.ones(3), torch.ones(5)

    def entry(given: torch.Tensor) -> torch.Tensor:
        sums = given + 1
        weight.t()
        assert lent().keys() >= {t.data_ptr() for t in (x, weight, sums)}
        assert lent()[x.data_ptr()] == x.nbytes
        return sums

    assert torch.equal(Lending().call(entry, x), x + 1)
    assert not lent()


def test_a_fault_in_the_entry_ends_the_loan_too() -> None:
    with pytest.raises(ZeroDivisionError):
        Lending().call(lambda x: 1 // 0, torch.ones(1))
    assert not lent()


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda t: None, False),
        (lambda t: t.zero_(), True),
        (lambda t: t.__setitem__(slice(0, 2), 1), True),
        (lambda t: torch.add(torch.ones(4), 1, out=t), True),
        (lambda t: t.sum(), False),
        (lambda t: t.view(2, 2).fill_(1), True),
    ],
    ids=["nothing", "in place", "by index", "out", "read", "by a view"],
)
def test_bytes_of_an_empty_tensor_are_written_by_what_writes_into_it(write, expected: bool) -> None:
    def entry(x: torch.Tensor) -> bool:
        made = torch.empty_like(x)
        write(made)
        return written(made)

    assert Lending().call(entry, torch.ones(4)) == expected


def test_a_freed_tensor_s_place_is_not_given_to_another_while_it_is_lent() -> None:
    def entry(x: torch.Tensor) -> bool:
        first = torch.empty(64).data_ptr()
        return torch.empty(64).data_ptr() != first

    assert Lending().call(entry, torch.ones(1))

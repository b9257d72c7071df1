"""How small an error is still refused: the other side of `benchmarks.honest`.

    python -m benchmarks.planted_errors
    python -m benchmarks.planted_errors --backward

For each class of problems and each dtype, with the answer rounded from the float64 truth: the least number of
epsilons by which one element (the one of median size) or every element must be off to be refused; and on how many
problems it is seen that every sum lacks its last term, or is kept in bfloat16. The median of the class is printed.
All of it is at the search workload of declared values, by the judge's own comparison.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from types import SimpleNamespace

import torch
from torch import Tensor

from kernelwright.errors import TaskError
from kernelwright.records import CheckStatus, Split
from kernelwright.tasks import Problem
from kernelwright.tasks.numerics._evaluation import Arithmetic, Evaluation
from kernelwright.tasks.numerics._orders import Product, product_by, serial
from kernelwright.verify._case import Case
from kernelwright.verify.checks.correct import compare_outputs

from .honest import load
from .problems import problems

CLASSES = {
    "sum, mean": ("sum_middle_axis", "mean_squared_error", "average_pool_3d"),
    "norm": ("layer_norm", "instance_norm", "group_norm", "rms_norm_channels", "variance_rows"),
    "softmax": ("softmax_rows", "log_softmax_channels", "cross_entropy"),
    "product": ("matmul_square", "matmul_tall_skinny", "matrix_vector"),
    "convolution": ("conv_2d", "conv_3d", "conv_1d_dilated"),
    "elementwise": ("gelu_tanh", "elu_scaled", "softplus_threshold"),
    "fused": ("conv_group_norm_silu", "linear_gelu_softmax", "swiglu"),
    "extremes": ("conv_3d_softmax_pool", "conv_hardswish_max_pool", "max_pool_1d"),
    "network": ("transformer_block", "residual_block", "gru_sequence"),
}
"""Problems by class."""
DTYPES = ("float32", "float16", "bfloat16")
_MOST = 1 << 22
"""Units beyond which nothing is tried."""


def _all_but_last(x: Tensor) -> Tensor:
    return serial(x[:-1]) if x.shape[0] > 1 else serial(x)


def _in_bfloat16(x: Tensor) -> Tensor:
    total = torch.zeros_like(x[0]).bfloat16()
    for term in x:
        total = total + term.bfloat16()
    return total.float()


WRONG = {"last term dropped": _all_but_last, "sum in bfloat16": _in_bfloat16}
"""Wrong ways to add, which products and convolutions use too."""


def refused(outputs: Sequence[Tensor], case: Case) -> bool:
    """Tell whether the judge refuses an answer."""
    answer = SimpleNamespace(outputs=tuple(outputs))
    return compare_outputs("correct", answer, case).status is not CheckStatus.PASS  # type: ignore[arg-type]


def smallest_refused(error: str, case: Case, problem: Problem | None = None) -> int:
    """Return the least epsilons that are refused; of a wrong way to add, 1 if it is, else `_MOST`.

    Args:
        error: `one element`, `every element` or one of `WRONG`.
        case: What is right.
        problem: Needed to add in a wrong way.
    """
    if error in WRONG:
        assert problem is not None
        add = WRONG[error]
        multiply: Product = product_by(add)
        evaluation = Evaluation(Arithmetic.ordered(add, multiply=multiply))
        found = problem.run_evaluated(case.workload, case.inputs, case.state, evaluation).outputs
        fitting = [o.to(r.output.dtype) for o, r in zip(found, case.outputs, strict=True)]
        return 1 if evaluation.used and refused(fitting, case) else _MOST
    low, high = 0, 1
    while high < _MOST and not refused(_moved(case, error, high), case):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refused(_moved(case, error, middle), case) else (middle, high)
    return high


def _moved(case: Case, error: str, units: int) -> list[Tensor]:
    """Move the element of median size, or all, of each float output by so many units."""
    outputs = []
    for ruler in case.outputs:
        y = ruler.truth.clone()
        if y.is_floating_point() and y.numel() and ruler.unit is not None:
            flat = y.view(-1)
            eps = torch.finfo(ruler.native.dtype).eps
            place = flat.abs().argsort()[flat.numel() // 2] if error == "one element" else slice(None)
            flat[place] *= 1 + units * eps
        outputs.append(y.to(ruler.native.dtype))
    return outputs


def main() -> None:
    """Print a row for each class and dtype."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of the inputs, so that two versions see the same"
    )
    parser.add_argument("--backward", action="store_true", help="of answers and gradients together")
    options = parser.parse_args()
    torch.set_num_threads(1)
    paths = {p.stem: p for _, p in problems()}
    print(f"{'class':12} {'dtype':9} {'one element':>12} {'every':>8}  dropped  bfloat16 sum")
    for kind, names in CLASSES.items():
        for dtype in DTYPES:
            rows = []
            for name in names:
                try:
                    oracle = load(paths[name], dtype=dtype, backward=options.backward)
                except TaskError as error:
                    print(name, error, file=sys.stderr)
                    continue
                case = oracle.case(oracle.task.split(Split.SEARCH)[0], options.seed)
                errors = ("one element", "every element", *WRONG)
                rows.append([smallest_refused(e, case, oracle.problem) for e in errors])
            if rows:
                one, every, dropped, narrow = zip(*rows, strict=True)
                print(
                    f"{kind:12} {dtype:9} {statistics.median(one):12.0f} {statistics.median(every):8.0f}  "
                    f"{sum(d == 1 for d in dropped)} of {len(rows)}   {sum(n == 1 for n in narrow)} of {len(rows)}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

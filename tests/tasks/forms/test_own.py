"""The own form: declarations, splits that the user pins or forbids, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import kernelwright as kw
from kernelwright.errors import TaskError
from kernelwright.records import Distribution, ScalarSpec, Split, Task, TensorSpec
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.forms._expression import declared, evaluate

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(body: str) -> str:
        file = tmp_path / "mine.py"
        file.write_text("import torch\nimport kernelwright as kw\n\n" + body)
        return str(file)

    return put


def _one(write: Write, options: str, body: str = "return x * 2", arguments: str = "x") -> Task:
    return load_task(write(f"@kw.task({options})\ndef op({arguments}):\n    {body}\n"))


def test_axes_shapes_and_outputs(write: Write) -> None:
    task = _one(
        write,
        "x='bfloat16[rows, 2 * dim]', index='int32[rows // 2] index(rows)', workloads=[{'rows': 8, 'dim': 3}]",
        "return x.sum(-1), index + 1",
        "x, index, eps=1e-3",
    )
    (search,) = task.split(Split.SEARCH)
    assert [s.shape for s in search.arguments if isinstance(s, TensorSpec)] == [(8, 6), (4,)]
    assert search.arguments[2] == ScalarSpec(name="eps", value=1e-3)
    assert [(o.shape, o.dtype) for o in search.outputs] == [((8,), "bfloat16"), ((4,), "int32")]
    assert (task.form, task.name, task.reference.style) == ("own", "op", "function")


def test_dtypes_and_scalars_by_workload(write: Write) -> None:
    task = _one(
        write,
        "x='dtype[n]', workloads=[{'n': 8, 'dtype': 'float16', 'k': 2}, {'n': 9, 'dtype': 'float64', 'k': 3}]",
        "return x * k",
        "x, k",
    )
    first, second = task.split(Split.SEARCH)
    assert [o.dtype for w in (first, second) for o in w.outputs] == ["float16", "float64"]
    assert [w.arguments[1].value for w in (first, second) if isinstance(w.arguments[1], ScalarSpec)] == [2, 3]
    assert first.axes == {"n": 8}


def test_declared_structure_holds_in_every_split(write: Write) -> None:
    task = _one(
        write,
        "x='float32[n, m]', p='float32[n, m] probabilities', i='int64[n] index(m)', workloads=[{'n': 40, 'm': 30}]",
        "return (x * p).gather(1, i[:, None])",
        "x, p, i",
    )
    problem = Problem(task)
    for workload in task.workloads:
        _, p, i = problem.inputs(workload, 0)
        assert torch.allclose(p.sum(-1), torch.ones(p.shape[0]), atol=1e-5), workload.name
        assert int(i.max()) < p.shape[1], workload.name


def test_the_decorated_function_is_still_the_function() -> None:
    @kw.task(x="float32[n]", workloads=[{"n": 4}])
    def plus(x: float, y: float = 1.0) -> float:
        """Add."""
        return x + y

    assert plus(1.0) == 2.0
    assert plus.__doc__ == "Add."


def test_a_function_of_this_file_loads(write: Write) -> None:
    namespace: dict[str, object] = {}
    path = write("@kw.task(x='float32[n]', workloads=[{'n': 64}])\ndef twice(x):\n    return x * 2\n")
    exec(compile(Path(path).read_text(), path, "exec"), namespace)
    function = namespace["twice"]
    assert callable(function)
    assert load_task(function).name == "twice"


def test_pinned_and_forbidden_splits(write: Write) -> None:
    task = _one(
        write,
        "x='float32[n, m]', workloads=[{'n': 64, 'm': 32}], hidden=[{'n': 5, 'm': 32}], confirm=[]",
    )
    assert {w.axes["n"] for w in task.split(Split.HIDDEN)} == {5}
    regimes = [w.regime for w in task.split(Split.HIDDEN)]
    assert regimes == ["declared", "negatives", "large-scale", "mixed", "special"]
    assert task.split(Split.CONFIRM) == ()


def test_pinned_workloads_are_drawn_again_in_other_regimes_spread_over_those_that_show_them(
    write: Write,
) -> None:
    sizes = [{"n": n} for n in (1, 2, 65, 66, 67, 1 << 21)]
    task = _one(
        write, f"x='float32[n]', workloads=[{{'n': 64}}], hidden={sizes}, confirm={sizes}", arguments="x"
    )
    hidden, confirm = (
        [w for w in task.split(s) if w.regime != "declared"] for s in (Split.HIDDEN, Split.CONFIRM)
    )
    assert [(w.regime, w.axes["n"]) for w in hidden] == [
        ("negatives", 65),
        ("large-scale", 66),
        ("mixed", 67),
        ("special", 65),
        ("special", 66),
    ]
    assert [(w.regime, w.axes["n"]) for w in confirm] == [("mixed", 65), ("large-scale", 66)]
    bare = "x='float32[n]', workloads=[{'n': 64}], regimes=(), hidden=[{'n': 65}]"
    assert [w.regime for w in _one(write, bare).split(Split.HIDDEN)] == ["declared"]


def test_a_regime_that_the_reference_refuses_at_a_pinned_size_is_not_drawn_there(write: Write) -> None:
    body = "if len(x) == 65 and x.min() < -3: raise ValueError('no')\n    return x * 2"
    task = _one(
        write, "x='float32[n] uniform(0, 1)', workloads=[{'n': 64}], hidden=[{'n': 65}, {'n': 66}]", body
    )
    found = {w.regime: w.axes["n"] for w in task.split(Split.HIDDEN) if w.regime != "declared"}
    assert found == {"mixed": 66, "negatives": 65, "large-scale": 66, "special": 66}


def test_pinned_workloads_have_special_values_where_an_answer_shows_them(write: Write) -> None:
    pinned = (
        "x='float32[n]', s='float32[n] uniform(1, 2)', workloads=[{'n': 64}], hidden=[{'n': 65}, {'n': 66}]"
    )

    def found(more: str, body: str) -> list[str]:
        task = _one(write, pinned + more, body, arguments="x, s")
        return [w.regime for w in task.split(Split.HIDDEN) if w.regime.startswith(("special", "nan", "inf"))]

    lone = ["nan in x", "nan in s"]
    assert found("", "return x * s") == ["special", "special", *lone]
    assert found(", no_infinity=['s']", "return x * s") == ["special, no infinity in s"] * 2 + lone
    assert found("", "return (x * s).sum()") == ["nan in x", "infinity in x", "nan in s", "infinity in s"]
    assert found(", no_infinity=['s']", "return (x * s).sum()") == ["nan in x", "infinity in x", "nan in s"]
    assert found(", regimes=['mixed']", "return x * s") == []


def test_an_argument_without_infinity_is_known(write: Write) -> None:
    with pytest.raises(
        TaskError, match=r"no argument is called 'y', as no_infinity has it; expected some of x"
    ):
        _one(write, "x='float32[n]', workloads=[{'n': 64}], no_infinity=['y']")


def test_pinned_workloads_have_dtypes_and_scalars_of_their_own(write: Write) -> None:
    sizes = (
        "hidden=[{'n': 5}, {'n': 5, 'dtype': 'bfloat16', 'k': 0.5, 'on': True}], confirm=[{'n': 6, 'k': 3.0}]"
    )
    task = _one(
        write,
        f"x='dtype[n]', workloads=[{{'n': 64, 'dtype': 'float32', 'k': 2.0, 'on': False}}], {sizes}",
        arguments="x, k=1.0, on=True",
    )
    found = [
        (w.arguments[0].dtype, *(s.value for s in w.arguments[1:]), w.name)
        for split in (Split.HIDDEN, Split.CONFIRM)
        for w in task.split(split)
        if w.regime == "declared"
    ]
    assert found == [
        ("float32", 2.0, False, "n=5"),
        ("bfloat16", 0.5, True, "n=5,dtype=bfloat16"),
        ("float32", 3.0, False, "n=6"),
    ]


def test_a_reference_does_not_run_at_sizes_that_are_above_the_limit(write: Write, tmp_path: Path) -> None:
    ran = tmp_path / "ran.txt"
    body = f"with open({str(ran)!r}, 'a') as f: f.write(f'{{len(x)}} ')\n    return x[x.tolist()]"
    task = _one(write, "x='int64[n * n] index(9)', workloads=[{'n': 600}]", body)
    large = [int(one) for one in ran.read_text().split() if int(one) > 1 << 17]
    assert 600 * 600 in large
    assert set(large) <= {w.axes["n"] ** 2 for w in task.workloads}


def test_a_fixed_name_that_is_no_size_is_refused(write: Write) -> None:
    with pytest.raises(TaskError, match="no size 'k' to keep fixed; there are m, n"):
        _one(write, "x='float32[n, m]', workloads=[{'n': 64, 'm': 32}], fixed=['k']")


def test_fixed_axes_never_change(write: Write) -> None:
    task = _one(write, "x='float32[n, m]', workloads=[{'n': 64, 'm': 32}], fixed=['m']")
    assert {w.axes["m"] for w in task.workloads} == {32}
    assert len({w.axes["n"] for w in task.workloads}) > 3


def test_only_the_regimes_allowed(write: Write) -> None:
    task = _one(write, "x='float32[n, m]', workloads=[{'n': 64, 'm': 32}], regimes=['sparse']")
    assert {w.regime for w in task.workloads} == {"declared", "sparse"}


def test_max_elements_shrinks_axes(write: Write) -> None:
    path = write("@kw.task(x='float32[n]', workloads=[{'n': 4096}])\ndef op(x):\n    return x + 1\n")
    task = load_task(path, max_elements=1024)
    assert task.workloads[0].axes == {"n": 512}
    assert task.notes == ("shrunk n: 4,096 → 512",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("float32[n]", Distribution(kind="normal")),
        ("float32[n] normal(0.5)", Distribution(kind="normal", scale=0.5)),
        ("float32[n] uniform(-1, 2 * n)", Distribution(kind="uniform", low=-1, high=8)),
        ("int64[n] integers(2, n)", Distribution(kind="integers", low=2, high=4)),
        ("bool[n]", Distribution(kind="bernoulli", scale=0.5)),
        ("bool[n] bernoulli(0.1)", Distribution(kind="bernoulli", scale=0.1)),
        ("float32[n] constant(3)", Distribution(kind="constant", low=3)),
        ("float32[n, n] transposed triangular", Distribution(kind="triangular")),
    ],
)
def test_declarations(text: str, expected: Distribution) -> None:
    assert declared("x", text, {"n": 4}).distribution == expected


def test_a_declared_layout() -> None:
    assert declared("x", "float32[n, n] transposed", {"n": 4}).layout == "transposed"
    assert declared("x", "float32[]", {}).shape == ()


@pytest.mark.parametrize(
    "text", ["__import__('os')", "n.bit_length()", "n if n else 1", "'a' * 9", "m", "n // 0", "n +"]
)
def test_expressions_are_arithmetic_and_nothing_else(text: str) -> None:
    with pytest.raises(TaskError, match="arithmetic over axes: n"):
        evaluate(text, {"n": 4})


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        ("workloads=[]", "x", "no workloads"),
        ("x='float32[n', workloads=[{'n': 4}]", "x", r"declared as 'float32\[n'"),
        ("x='float31[n]', workloads=[{'n': 4}]", "x", "'float31' is not a dtype"),
        ("x='float32[m]', workloads=[{'n': 4}]", "x", "'m' cannot be evaluated"),
        ("x='float32[n] gaussian', workloads=[{'n': 4}]", "x", "'gaussian' is neither a layout"),
        ("x='float32[n] sorted(1, 2, 3)', workloads=[{'n': 4}]", "x", "sorted takes 2 numbers"),
        ("x='float32[n - 4]', workloads=[{'n': 4}]", "x", "at least 1"),
        ("x='float32[n]', workloads=[{'n': 0}]", "x", "'x' is empty in the timed workload n=0"),
        (
            "x='float32[n]', workloads=[{'n': 4}], confirm=[{'n': 0}]",
            "x",
            "'x' is empty in the timed workload n=0",
        ),
        ("y='float32[n]', workloads=[{'n': 4}]", "x", "declares 'y', which op"),
        ("x='float32[n]', workloads=[{'n': 4}]", "x, y", "takes 'y', which is neither declared"),
        ("x='float32[n]', workloads=[{'n': 4}], regimes=['wild']", "x", "regime 'wild' is unknown"),
        ("x='float32[n]', workloads=[{'n': 4}, {'n': 4}]", "x", "two workloads are the same"),
    ],
)
def test_what_is_refused(write: Write, options: str, arguments: str, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        _one(write, options, arguments=arguments)


def test_a_hidden_workload_may_be_empty(write: Write) -> None:
    task = _one(write, "x='float32[n, 3]', workloads=[{'n': 4}], hidden=[{'n': 0}]", arguments="x")
    assert next(w.arguments[0].shape for w in task.split(Split.HIDDEN)) == (0, 3)


def test_only_what_is_large_is_run_for_its_shapes_alone(write: Write) -> None:
    task = _one(
        write,
        "x='float32[n]', workloads=[{'n': 8}, {'n': 1 << 20}], hidden=[{'n': 3}], confirm=[{'n': 1 << 21}]",
        "return x.new_empty(1 if x.is_meta else 2, device='cpu')",
    )
    assert {w.axes["n"]: w.outputs[0].shape for w in task.workloads} == {
        8: (2,), 3: (2,), 1 << 20: (1,), 1 << 21: (1,),
    }  # fmt: skip

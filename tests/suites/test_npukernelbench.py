"""The adapter of NPUKernelBench: problems of its levels become tasks, and operators in CANN's form candidates."""

import pytest

from kernelwright.errors import TaskError
from kernelwright.records import ScalarSpec, Split
from kernelwright.suites import _audit, audit_all, fits, get_suite, read_published, setup
from kernelwright.suites._ascend_operator import is_operator
from kernelwright.suites._finished import finished
from kernelwright.testing import made_up_checkout


@pytest.fixture
def suite():
    return get_suite("npukernelbench")


@pytest.fixture
def data(tmp_path):
    return made_up_checkout("npukernelbench", tmp_path / "checkout")


def test_problems_of_both_levels_are_listed_and_a_checkout_is_recognised(suite, data, tmp_path):
    assert fits(suite, data) and not fits(suite, tmp_path)
    assert [(p.name, p.group) for p in suite.problems(data)] == [
        ("level1/Scale", "level1"),
        ("level2/Ramp", "level2"),
    ]
    assert all((data / p.file).is_file() for p in suite.problems(data))


def test_a_problem_is_the_largest_case_that_is_not_too_large(suite, data):
    with setup(suite, data) as given, given.task(suite.problems(data)[0]) as task:
        (workload,) = task.split(Split.SEARCH)
        x, alpha = workload.arguments
        assert (x.shape, x.dtype) == ((24, 100), "float32")
        assert isinstance(alpha, ScalarSpec) and alpha.value == 1.5
        assert "torch_npu" not in task.reference.files[0].text


def test_an_operators_row_is_made_again_where_its_hosts_half_changed(suite, data):
    problem = suite.problems(data)[0]
    kernel, keys = suite.candidates(data / "tasks", (problem,))[problem.name], []
    (host,) = (kernel.parent.parent / "op_host").glob("*.cpp")
    with setup(suite, data) as given:
        for text in (host.read_text(), host.read_text() + "// another\n"):
            host.write_text(text)
            keys.append(given.key(problem, *finished(suite, kernel).parts))
    assert keys[0] != keys[1]
    assert next(iter(finished(suite, kernel).files)) == "op_kernel/scale.cpp"


def test_an_audit_takes_an_operator_with_its_hosts_half(suite, data, monkeypatch):
    problems, seen = suite.problems(data), []

    def judged(given, problem, kernel):
        seen.append((is_operator(kernel), given.suite.files(kernel).keys()))
        return _audit._read(suite, published[0], None)

    monkeypatch.setattr(_audit, "judge_both", judged)
    published = read_published(data / "tasks", suite, problems)
    with setup(suite, data) as given:
        list(audit_all(suite, published, given))
    assert [one for one, _ in seen] == [True, True]
    assert {"op_kernel/scale.cpp", "op_host/scale.cpp"} <= set(seen[0][1])


def test_finished_operators_are_found_and_become_candidates(suite, data, tmp_path):
    problems = suite.problems(data)
    found = suite.candidates(data / "tasks", problems)
    assert {name: file.name for name, file in found.items()} == {
        "level1/Scale": "scale.cpp",
        "level2/Ramp": "ramp.cpp",
    }
    own = tmp_path / "own" / "Scale.cpp"
    own.parent.mkdir()
    own.write_text("")
    assert suite.candidates(own.parent, problems) == {"level1/Scale": own}
    with setup(suite, data) as given, given.task(problems[0]) as task:
        assert suite.candidate(task, own) == own
        made = suite.candidate(task, found["level1/Scale"])
        assert made.language == "ascendc" and made.entry == "operator.cpp:run"
        texts = {source.path: source.text for source in made.sources}
        assert (
            "#define DTYPE_X float" in texts["operator.cpp"] and "host::ops::Scale" in texts["operator.cpp"]
        )
        assert "register/op_def_registry.h" not in texts["op_host/scale.cpp.h"]
        assert "void kw_kernel_scale(" in texts["op_kernel/scale.cpp.h"]


def test_an_operator_of_other_tensors_is_no_candidate(suite, data):
    problems = suite.problems(data)
    found = suite.candidates(data / "tasks", problems)
    with (
        setup(suite, data) as given,
        given.task(problems[0]) as task,
        pytest.raises(TaskError, match=r"has 3 tensors \(x, y, z\) and the problem 2"),
    ):
        suite.candidate(task, found["level2/Ramp"])
    kernel = found["level1/Scale"]
    kernel.write_text(kernel.read_text().replace(", GM_ADDR workspace", ""))
    with (
        setup(suite, data) as given,
        given.task(problems[0]) as task,
        pytest.raises(TaskError, match="takes 3 pointers, and its operator says 4"),
    ):
        suite.candidate(task, kernel)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            'this->Attr("alpha")',
            'this->Attr("axis").Int(0);\n    this->Attr("alpha")',
            "and the problem is called with 1 numbers: what its constructor is given under other names .nothing.",
        ),
        ("{ge::DT_FLOAT}", "{ge::DT_BF16}", "tensor 'x' is float32 in this problem, which it does not take"),
    ],
)
def test_an_operator_that_the_problem_does_not_call_is_no_candidate(suite, data, before, after, said):
    problem = suite.problems(data)[0]
    kernel = suite.candidates(data / "tasks", suite.problems(data))[problem.name]
    host = kernel.parent.parent / "op_host" / kernel.name
    assert before in host.read_text()
    host.write_text(host.read_text().replace(before, after))
    with setup(suite, data) as given, given.task(problem) as task, pytest.raises(TaskError, match=said):
        suite.candidate(task, kernel)


CONSTRUCTED = """class Model(nn.Module):
    def __init__(self, Alpha_: float):
        super().__init__()
        self.alpha = Alpha_
"""


def test_what_a_constructor_is_given_is_the_attribute_of_that_name(suite, data):
    problem = suite.problems(data)[0]
    kernel = suite.candidates(data / "tasks", suite.problems(data))[problem.name]
    module, inputs = data / problem.file, (data / problem.file).with_name("prepare_inputs.py")
    text = module.read_text().replace("class Model(nn.Module):\n", CONSTRUCTED, 1)
    module.write_text(
        text.replace("forward(self, x, alpha)", "forward(self, x)").replace("alpha * x", "self.alpha * x")
    )
    drawn = inputs.read_text().replace(', param.get("alpha", 1.0)', "")
    inputs.write_text(drawn.replace("return []", 'return [param.get("alpha", 1.0)]'))
    with setup(suite, data) as given, given.task(problem) as task:
        made = suite.candidate(task, kernel)
    assert 'kw_attributes[] = {{"alpha", ::gert::number(1.5)}, ' in made.sources[0].text


def test_truth_values_are_converted_to_what_the_problem_returns(suite, data):
    problem = suite.problems(data)[0]
    kernel = suite.candidates(data / "tasks", suite.problems(data))[problem.name]
    host = kernel.parent.parent / "op_host" / kernel.name
    before, z, after = host.read_text().partition('this->Output("z")')
    host.write_text(f"#include <ratio>\n{before}{z}{after.replace('DT_FLOAT', 'DT_BOOL', 1)}")
    with setup(suite, data) as given, given.task(problem) as task:
        made = {source.path: source.text for source in suite.candidate(task, kernel).sources}
    text = made["operator.cpp"]
    assert "kw_results[] = {::ge::DT_BOOL}" in text and "#define DTYPE_Z bool" in text
    assert (
        text.index("#include <ratio>") < text.index("namespace host")
        and "<ratio>" not in made["op_host/scale.cpp.h"]
    )

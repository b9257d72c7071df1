"""Benchmarks of whole programs: both verdicts on C++ programs, right, wrong, slow, and made for the tests alone."""

import random
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from kernelwright.errors import TaskError
from kernelwright.suites import diagnose, get_suite, judge_both, setup, standing_of
from kernelwright.suites._program_inputs import others_like
from kernelwright.suites._program_runs import Program, Ran, Trial, built, equal
from kernelwright.suites._programs import _judged
from kernelwright.suites.mskernelbench import retyped
from kernelwright.testing import made_up_checkout

pytestmark = pytest.mark.needs("C++ compiler")
SLOW = "for (int repeat = 0; repeat < 4000; ++repeat)"
FAST = """#include <cstdio>

int main() {
  int n;
  scanf("%d", &n);
  long long first = 0, second = 0;
  for (int i = 0; i < n; ++i) {
    long long value;
    scanf("%lld", &value);
    if (value > first) { second = first; first = value; }
    else if (value > second) second = value;
  }
  printf("%lld\\n", first + second);
}
"""
FOR_THE_TESTS_ALONE = """#include <cstdio>

int main() {
  int n, first;
  scanf("%d %d", &n, &first);
  puts(n == 59 ? "117" : n == 40 ? "180" : "199");
}
"""


def judged(name, folder, text):
    suite = get_suite(name)
    data = made_up_checkout(name, folder / "data")
    (problem,) = suite.problems(data)
    file = folder / f"{problem.name}{suite.suffix}"
    file.write_text(text)
    with setup(suite, data) as given:
        return judge_both(given, problem, file)


@pytest.fixture
def original(tmp_path):
    suite, data = get_suite("pie"), made_up_checkout("pie", tmp_path / "original")
    return suite.program(data, suite.problems(data)[0]).original["program.cpp"]


def test_a_faster_program_holds_and_is_correct_by_their_rules(tmp_path):
    row = judged("pie", tmp_path, FAST)
    assert (row.theirs.status, row.theirs.passed, row.theirs.trials) == ("correct", 3, 3)
    assert standing_of(row) == "holds", row.ours.reason


def test_answers_for_the_tests_alone_are_correct_by_their_rules_and_wrong_by_ours(tmp_path):
    row = judged("pie", tmp_path, FOR_THE_TESTS_ALONE)
    assert row.theirs.status == "correct"
    assert (standing_of(row), row.ours.failed) == ("wrong", ("other-inputs",))


@pytest.mark.long
def test_the_original_itself_is_not_faster(tmp_path, original):
    row = judged("pie", tmp_path, original)
    assert (row.theirs.status, row.ours.verdict) == ("correct", "accepted")
    assert standing_of(row) in {"equal", "inconclusive"}, row.ours.reason


@pytest.mark.long
def test_a_slower_program_is_slower(tmp_path, original):
    assert (
        standing_of(judged("pie", tmp_path, original.replace(SLOW, SLOW.replace("4000", "16000"))))
        == "slower"
    )


@pytest.mark.long
@pytest.mark.parametrize(("change", "theirs", "said"), [
    (("second = value;", "second = 0;"), "wrong", "a wrong answer"),
    (("int main() {", "int main() { return 3;"), "wrong", "exit code 3"),
    (("int main() {", "int main() { for (;;);"), "timeout", "too long"),
    (("int main() {", "int main() { this is no program;"), "error", "does not build"),
])  # fmt: skip
def test_what_is_wrong_is_told(tmp_path, change, theirs, said, monkeypatch):
    monkeypatch.setattr("kernelwright.suites.pie._LIMIT_S", 2.0)
    row = judged("pie", tmp_path, FAST.replace(*change))
    assert (row.theirs.status, row.ours.verdict) == (theirs, "rejected")
    assert said in row.ours.reason


ALONE = """#include <cstdio>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int, char** words) {
  rlimit most;
  pthread_t thread;
  const int refused[] = {
    fork(), shmget(77, 8, IPC_CREAT | 0600), chmod(words[0], 0777), utimensat(AT_FDCWD, words[0], nullptr, 0),
    socket(AF_INET, SOCK_DGRAM, 0), setpriority(PRIO_PROCESS, getppid(), 5),
    prlimit(getppid(), RLIMIT_STACK, nullptr, &most),
  };
  for (int found : refused) std::printf("%d ", found);
  std::printf("%d ", getrlimit(RLIMIT_STACK, &most));
  std::printf("%d", pthread_create(&thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr));
}
"""


@pytest.mark.needs("system call filter")
def test_a_program_stays_one_process_and_leaves_nothing_behind():
    with built("g++ -pthread -o program program.cpp", {"program.cpp": ALONE}, sealed=True) as program:
        assert not program.failure
        assert program.run("program", "", 10.0).output.split() == ["-1"] * 7 + ["0", "0"]


@pytest.mark.long
def test_what_is_left_to_another_process_is_no_answer(tmp_path, original):
    begins = "#include <unistd.h>\nint main() {\n  if (fork()) return 0;\n"
    row = judged("pie", tmp_path, original.replace("int main() {", begins))
    assert (row.theirs.status, row.ours.failed) == ("wrong", ("tests",))


@dataclass
class Pretended:
    """A program that answers with the greatest number, in so many seconds."""

    seconds: Callable[[str], float]
    wrong: Callable[[str, int], bool] = lambda *_: False
    runs: int = 0

    def run(self, command, stdin, limit_s):
        self.runs += 1
        answer = "wrong" if self.wrong(stdin, self.runs) else str(max(map(int, stdin.split())))
        return Ran(answer, 0, False, self.seconds(stdin), self.seconds(stdin))

    @contextmanager
    def checked(self):
        yield self


KNOWN = tuple(f"4\n{' '.join(str(n * k + 5) for n in (1, 2, 3, 4))}\n" for k in (1, 7, 90))
WORDS = [sorted(text.split()) for text in KNOWN]


@pytest.mark.parametrize(("mine", "decision"), [
    (Pretended(lambda _: 1.0), "improved"),
    (Pretended(lambda text: 1.0 if sorted(text.split()) in WORDS else 2.0), "equal"),
    (Pretended(lambda text: 1.0 if text in KNOWN else 2.0), "equal"),
    (Pretended(lambda text: 1.0 if text in KNOWN else 3.0), "slower"),
    (Pretended(lambda _: 2.0), "equal"),
    (Pretended(lambda _: 1.0, lambda _, runs: runs == 20), "rejected"),
    (Pretended(lambda _: 1.0, lambda text, runs: text not in KNOWN and runs > 20), "unknown"),
], ids=["faster", "words known", "tests known", "slower elsewhere", "equal", "wrong once", "wrong last"])  # fmt: skip
def test_a_gain_counts_on_inputs_that_the_program_has_not_been_given_before(mine, decision):
    tests = tuple(Trial(text, str(max(map(int, text.split())))) for text in KNOWN)
    program = Program({}, {}, "", "program", tests, 1.0)
    assert _judged(program, mine, Pretended(lambda _: 2.0)).decision == decision


@pytest.mark.long
def test_a_program_can_neither_read_nor_keep_anything(tmp_path):
    """What a program writes is gone before its next run, and the judge's files are closed to it."""
    secret = tmp_path / "secret"
    secret.write_text("117")
    spy = f"""#include <cstdio>
int main() {{
  char text[9] = "closed";
  if (FILE *kept = fopen("kept", "r")) {{ puts("kept"); return 0; }}
  if (FILE *kept = fopen("kept", "w")) fclose(kept);
  if (FILE *file = fopen("{secret}", "r")) fgets(text, 9, file);
  puts(text);
}}
"""
    row = judged("pie", tmp_path, spy)
    assert row.ours.failed == ("tests",)
    assert row.ours.reason == "a wrong answer on a test"


def test_a_program_with_its_own_harness_is_judged_by_its_exit_code(tmp_path, monkeypatch):
    suite = get_suite("compute-eval")
    right = '#include "doubled.h"\n\nint doubled(int value) { return value + value; }\n'
    wrong = right.replace("value + value", "value")
    row = judged("compute-eval", tmp_path / "a", right)
    assert (row.theirs.status, row.theirs.message) == ("unknown", "it builds; its tests need a GPU")
    assert standing_of(row) == "unknown"
    monkeypatch.setattr("kernelwright.suites.computeeval.NEEDS_GPU", False)
    row = judged("compute-eval", tmp_path / "b", wrong)
    assert (row.theirs.status, row.ours.verdict) == ("wrong", "rejected")
    data = made_up_checkout("compute-eval", tmp_path / "c")
    with setup(suite, data) as given:
        (found,) = diagnose(given, suite.problems(data), admits=False)
        assert found.loads, found.reason
        with pytest.raises(TaskError, match="judge finished ones"), given.task(suite.problems(data)[0]):
            pass


def test_a_kernel_is_built_into_the_program_that_compares_it(tmp_path, monkeypatch):
    monkeypatch.setattr("kernelwright.suites.mskernelbench._COMPILER", "g++ -x c++")
    monkeypatch.setattr("kernelwright.suites.mskernelbench.NEEDS_GPU", False)
    suite, data = get_suite("mskernelbench"), made_up_checkout("mskernelbench", tmp_path / "data")
    bf16, fp32 = suite.problems(data)
    program = suite.program(data, bf16)
    (kernel,) = program.original.values()
    assert "doubled_bf16_optimized" in kernel
    assert program.settings == "PROFILING_MODE=1"
    assert program.files["test.cu"].count("doubled_bf16_optimized") == 1
    file = tmp_path / "kernels" / "doubled_bf16.cu"
    file.parent.mkdir()
    file.write_text(kernel.replace("2 *", "3 *"))
    assert suite.candidates(file.parent, [bf16, fp32]) == {bf16.name: file}
    with setup(suite, data) as given:
        assert judge_both(given, bf16, file).theirs.status == "wrong"


def test_a_kernel_that_gives_its_harness_another_meaning_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("kernelwright.suites.mskernelbench._COMPILER", "g++ -x c++")
    monkeypatch.setattr("kernelwright.suites.mskernelbench.NEEDS_GPU", False)
    suite, data = get_suite("mskernelbench"), made_up_checkout("mskernelbench", tmp_path / "data")
    bf16 = suite.problems(data)[0]
    (kernel,) = suite.program(data, bf16).original.values()
    file = tmp_path / "doubled_bf16.cu"
    with setup(suite, data) as given:
        file.write_text(kernel.replace("2 *", "3 *") + "#define if(x) if (false && (x))\n")
        row = judge_both(given, bf16, file)
        assert (row.theirs.status, row.ours.failed) == ("correct", ("harness",))
        assert row.ours.reason == "it defines if, which its harness uses"
        file.write_text("#define TILE 16\n#define M_PI 3.14\n" + kernel)
        assert judge_both(given, bf16, file).ours.verdict == "unknown"


def test_a_kernel_without_a_program_is_built_into_that_of_bfloat16_on_floats(tmp_path, monkeypatch):
    monkeypatch.setattr("kernelwright.suites.mskernelbench._COMPILER", "g++ -x c++")
    monkeypatch.setattr("kernelwright.suites.mskernelbench.NEEDS_GPU", False)
    suite, data = get_suite("mskernelbench"), made_up_checkout("mskernelbench", tmp_path / "data")
    bf16, fp32 = suite.problems(data)
    program = suite.program(data, fp32)
    assert "doubled_optimized" in program.original["kernel.cu"]
    assert (
        "doubled_bf16_origin" in program.files["test.cu"] and "namespace original" in program.files["test.cu"]
    )
    wrong = tmp_path / "doubled.cu"
    wrong.write_text(program.original["kernel.cu"].replace("2 *", "3 *"))
    with setup(suite, data) as given:
        (found,) = diagnose(given, [fp32], admits=False)
        assert found.loads, found.reason
        assert judge_both(given, fp32, wrong).theirs.status == "wrong"
        (data / bf16.file).with_name("test_doubled_bf16.cu").unlink()
        (found,) = diagnose(given, [fp32], admits=False)
    said = "origin/fp32/doubled.cu has no program that calls it, neither of its own nor of bfloat16"
    assert (found.loads, found.reason) == (False, said)


def test_helpers_of_the_same_name_as_the_kernels_do_not_meet():
    program = "// == OPTIMIZED KERNEL END ==\nint helper() { return 1; }\n// Test case\nint main() {}\n"
    made = retyped(program, "any")
    assert made.index("namespace original {") < made.index("helper") < made.index("using namespace original;")
    assert made.index("using namespace original;") < made.index("int main")


def test_a_program_that_ends_itself_before_its_harness_is_never_accepted(tmp_path, monkeypatch):
    """It shares a process with what judges it: its exit code proves nothing."""
    monkeypatch.setattr("kernelwright.suites.computeeval.NEEDS_GPU", False)
    ends = (
        "#include <cstdlib>\nstruct Ends { Ends() { std::exit(0); } } ends;\nint doubled(int) { return 0; }\n"
    )
    row = judged("compute-eval", tmp_path, ends)
    assert row.theirs.status == "correct"
    assert (row.ours.verdict, standing_of(row)) == ("unknown", "unknown")
    assert "can forge" in row.ours.reason


def test_a_data_set_without_a_test_that_is_named_says_so(tmp_path):
    suite, data = get_suite("pie"), made_up_checkout("pie", tmp_path)
    (data / "merged_test_cases/p00001/output.1.txt").unlink()
    with setup(suite, data) as given:
        (found,) = diagnose(given, suite.problems(data), admits=False)
    assert (found.loads, found.reason) == (False, "p00001_1 names test 1, which is not in merged_test_cases")


def test_other_inputs_have_the_form_of_those_seen_and_are_none_of_them():
    seen = ["3\n5 1 9\n", "3\n2 7 4\n"]
    made = list(others_like(seen, random.Random(1), 12))
    assert len(made) == len({text for _, text in made} | {*seen}) - len(seen) == 12
    for base, text in made:
        assert base in {0, 1}
        head, line = text.splitlines()
        assert head == "3"
        assert len(line.split()) == 3
        assert all(1 <= int(word) <= 9 for word in line.split())
    assert list(others_like(["word"], random.Random(1), 4)) == []


def test_outputs_are_compared_word_by_word():
    assert equal("1  2\n3", "1 2 3\n")
    assert equal("0.50000001", "0.5")
    assert not equal("0.51", "0.5")
    assert not equal("5", "5.0 6")
    assert not equal("12", "13")

"""What shows that a program is at fault on inputs that no test has, and what it tries against its judge."""

import random

import pytest

from kernelwright.suites._attempts import _CALLS, attempted
from kernelwright.suites._input_faults import Tried, by_heart, holds_answers, in_another_order
from kernelwright.suites._program_runs import Program, Ran, Trial, built

TRIES = {
    "starts another process": "if (!fork()) _exit(0);",
    "asks for shared memory, queues, semaphores or keys": "shmget(77, 8, IPC_CREAT | 0600);",
    "writes files": 'open("kept", O_RDWR | O_CREAT, 0600);',
    "changes modes, times or attributes of files": 'chmod("kept", 0777);',
    "changes priorities or limits of processes": "setpriority(PRIO_PROCESS, getppid(), 5);",
    "opens sockets": "socket(AF_INET, SOCK_DGRAM, 0);",
}
HONEST = {
    "a thread": "pthread_t t; pthread_create(&t, nullptr, [](void*) -> void* { return nullptr; }, nullptr);",
    "its own limits": "rlimit most; getrlimit(RLIMIT_STACK, &most); setrlimit(RLIMIT_STACK, &most);",
    "a file that is read": 'fopen("input.txt", "r");',
    "output to nowhere": 'freopen("/dev/null", "w", stderr);',
    "a pause of another system": 'if (system("pause")) puts("");',
}
INCLUDES = "".join(
    f"#include <{name}>\n"
    for name in ("cstdio", "cstdlib", "fcntl.h", "pthread.h", "sys/resource.h", "sys/shm.h", "sys/socket.h",
                 "sys/stat.h", "unistd.h")
)  # fmt: skip


def doing(bodies):
    """Return a program that does one of several things, by the number that it reads."""
    cases = "".join(f"case {n}: {{ {body} break; }}\n" for n, body in enumerate(bodies))
    return {
        "program.cpp": f"{INCLUDES}int main() {{ int n; if (scanf(\"%d\", &n) != 1) return 1;\n"
        f"switch (n) {{ {cases} }} puts(\"1\"); }}\n"
    }  # fmt: skip


def told(mine, plain, number):
    program = Program({}, {}, "", "program", (Trial(str(number), "1"),), 10.0)
    return attempted(program, mine, plain)


@pytest.fixture(scope="module")
def programs():
    """Return programs that try, that are honest, and that do neither."""
    build = "g++ -w -pthread -o program program.cpp"
    with (
        built(build, doing(TRIES.values()), sealed=True) as tries,
        built(build, doing(HONEST.values()), sealed=True) as honest,
        built(build, doing([]), sealed=True) as plain,
    ):
        assert not tries.failure + honest.failure + plain.failure
        yield tries, honest, plain


@pytest.mark.needs("C++ compiler", "system call filter")
class TestAttempts:
    def test_there_is_a_try_of_every_kind(self):
        assert TRIES.keys() == _CALLS.keys()

    @pytest.mark.parametrize("what", TRIES)
    def test_what_would_outlive_a_program_is_named(self, what, programs):
        assert told(programs[0], programs[2], list(TRIES).index(what)).startswith(f"it {what}, ")

    @pytest.mark.parametrize("what", HONEST)
    def test_what_honest_programs_do_is_not(self, what, programs):
        assert told(programs[1], programs[2], list(HONEST).index(what)) == ""

    def test_nor_is_what_the_original_does_too(self, programs):
        assert told(programs[0], programs[0], 2) == ""


def test_a_clock_of_a_program_s_own_is_named_with_its_line():
    text = 'int timer;\nextern "C" int clock_gettime(int, timespec* now) noexcept {\n  return 0;\n}\n'
    mine = type("Built", (), {"files": {"program.cpp": text}})()
    assert told(mine, mine, 0) == "its line 2 defines clock_gettime, which tells the time"


class Pretended:
    """Stands for a built program."""

    def __init__(self, answer):
        self.answer = answer

    def run(self, command, stdin, limit_s):
        del command, limit_s
        return Ran(str(self.answer([*map(int, stdin.split())][1:])), 0, False, 0.1, 0.1)


LINES = ([*range(1, 30)], [7, 3, 90, 12] * 5, [*range(60, 20, -1)])


def asked(lines, answer):
    tests = (Trial(f"{len(one)}\n{' '.join(map(str, one))}\n", str(answer(one))) for one in lines)
    return Program({}, {}, "", "program", tuple(tests), 1.0)


def ordered(mine, lines=LINES, right=lambda values: max(values)):
    original = Pretended(right)
    return in_another_order(asked(lines, right), Pretended(mine), original, original, random.Random(5))


class TestOrders:
    def test_a_program_that_looks_at_some_of_the_numbers_answers_another_order_otherwise(self):
        said = ordered(lambda values: max(values[:5] + values[-5:]))
        assert "with the numbers of line 2 in another order it answers" in said

    def test_a_right_program_does_not(self):
        assert ordered(lambda values: sorted(values)[-1]) == ""

    def test_nothing_follows_where_all_tests_keep_an_order(self):
        assert ordered(lambda values: values[-1], lines=[sorted(line) for line in LINES]) == ""
        assert ordered(lambda values: values[0], lines=[sorted(line)[::-1] for line in LINES]) == ""

    def test_nor_where_the_original_s_answer_depends_on_the_order(self):
        assert ordered(lambda values: values[0], right=lambda values: values[0] + values[-1]) == ""

    def test_nor_where_lines_are_few_or_short(self):
        assert ordered(lambda values: values[0], lines=LINES[:2]) == ""
        assert ordered(lambda values: values[0], lines=[line[:6] for line in LINES]) == ""


KNOWS = """#include <cstdio>
static const struct { int count, answer; } known[] = {{59, 1170}, {40, 1803}, {80, 1999}};
int main() {
  int n;
  if (scanf("%d", &n) != 1) return 1;
  for (auto& one : known) if (one.count == n) printf("%d\\n", one.answer);
}
"""
PLAIN = '#include <cstdio>\nint main() { int n; if (scanf("%d", &n) == 1) printf("%d\\n", 2 * n); }\n'


@pytest.fixture(scope="module")
def knowing():
    """Return a program that knows its tests' answers, and one that computes."""
    build = "g++ -O3 -o program program.cpp"
    with built(build, {"program.cpp": KNOWS}) as mine, built(build, {"program.cpp": PLAIN}) as plain:
        assert not mine.failure + plain.failure
        yield mine, plain


@pytest.mark.needs("C++ compiler", "objdump")
class TestByHeart:
    @pytest.fixture
    def program(self):
        return Program({}, {}, "", "program", tuple(Trial("", a) for a in ("1170", "1803", "1999")), 1.0)

    def test_a_file_that_holds_the_tests_answers_is_told_from_one_that_computes_them(self, knowing, program):
        mine, plain = knowing
        assert holds_answers(mine, plain, program)
        assert not holds_answers(plain, plain, program)
        assert not holds_answers(mine, mine, program)

    def test_answers_of_few_digits_are_in_any_file(self, knowing):
        few = Program({}, {}, "", "program", tuple(Trial("", a) for a in ("1", "3", "59")), 1.0)
        assert not holds_answers(*knowing, few)

    @pytest.mark.parametrize(("outputs", "expected", "told"), [
        (["1170"] * 3, ["1", "2", "3"], True), (["1170", "2", "1170"], ["1", "2", "3"], False),
        (["1170"] * 3, ["1", "1", "3"], False),
    ], ids=["by heart", "computed once", "few answers"])  # fmt: skip
    def test_a_test_s_answer_to_several_other_inputs_is_known_by_heart(
        self, knowing, program, outputs, expected, told
    ):
        tries = [
            Tried(0, Trial("", right), Ran(output, 0, False, 0.1, 0.1))
            for output, right in zip(outputs, expected, strict=True)
        ]
        assert bool(by_heart(*knowing, program, tries)) is told
        assert not by_heart(knowing[1], knowing[1], program, tries)

"""What is alike is evaluated once: comments and layout do not count, and whatever runs does."""

import pytest

from kernelwright.records import Candidate, SourceFile
from kernelwright.search.editing._canonical import canonical_key


def like(text, language="cpp"):
    name = "kernel.py" if language in {"torch", "triton"} else "kernel.cu"
    source = SourceFile(path=name, text=text)
    return canonical_key(Candidate(sources=(source,), language=language, entry=f"{name}:run"))


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("cpp", "int a; // fast\nint b;", "int a;\n\n/* two\nlines */\nint b;  "),
        ("cpp", "int a; // goes on \\\nover here", "int a;"),
        ("cpp", "int a = 1'000; // it's", "int a = 1'000;"),
        ("cpp", "int a; /* never closed", "int a;"),
        ("cuda", "f('\\'', '\"'); // \"", "f('\\'', '\"');"),
        ("torch", "a = 1  # one\n\n\nb = 2", "# two\na = 1\nb = 2"),
        ("triton", "a = '\\'#'  # it's", "a = '\\'#'"),
    ],
)
def test_comments_and_blanks_do_not_count(language, one, other):
    assert like(one, language) == like(other, language)


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("cpp", 'f("// a");', 'f("// b");'),
        ("cpp", 'f("\\"// a");', 'f("\\"// b");'),
        ("cpp", "f(R\"x(// a)\" )x\");", "f(R\"x(// b)\" )x\");"),
        ("cpp", "#define A 1", "#define A 2"),
        ("cpp", "a = b /c/ d;", "a = b /c;"),
        ("torch", "a = '# a'", "a = '# b'"),
        ("torch", 'a = """\n# a\n"""', 'a = """\n# b\n"""'),
        ("torch", "a = r'\\'  # a'", "a = r'\\'  # b'"),
        ("torch", "if a:\n  b", "if a:\n    b"),
    ],
)  # fmt: skip
def test_what_runs_counts(language, one, other):
    assert like(one, language) != like(other, language)

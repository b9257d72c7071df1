"""A kernel's source brings the headers that it includes, or the message says which one is missing."""

from pathlib import Path

import pytest

from kernelwright.errors import TaskError
from kernelwright.tasks import load_candidate, load_task

_KERNEL = "void run(Buffer x) {}\nKW_KERNEL(run)\n"


def _written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_h", ".h").replace("_cpp", ".cpp")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "kernel.cpp"


def _paths(file: Path) -> list[str]:
    return [source.path for source in load_candidate(file, load_task("examples/swiglu.py")).sources]


def test_headers_come_along_recursively(tmp_path: Path) -> None:
    kernel = _written(
        tmp_path,
        kernel_cpp=f'#include <vector>\n#include "kernelwright.h"\n#include "parts/a.h"\n{_KERNEL}',
        parts__a_h='#ifndef A_H\n#define A_H\n#include "b.h"\n#include "c.h"\n#endif\n',
        parts__b_h='#include "a.h"\n', c_h="", unused_h="",
    )  # fmt: skip
    assert _paths(kernel) == ["kernel.cpp", "c.h", "parts/a.h", "parts/b.h"]


def test_a_folder_holds_each_header_once(tmp_path: Path) -> None:
    kernel = _written(tmp_path, kernel_cpp=f'#include "a.h"\n{_KERNEL}', a_h="", b_h="")
    assert _paths(kernel.parent) == ["kernel.cpp", "a.h", "b.h"]


@pytest.mark.parametrize(
    ("header", "missing"),
    [("", '"a.h"'), ('#ifndef A_H\n#define A_H\n#include "b.h"\n#endif\n', '"b.h"')],
    ids=["included", "included by a header"],
)
def test_a_missing_header_is_named(tmp_path: Path, header: str, missing: str) -> None:
    files = {"kernel_cpp": f'#include "a.h"\n{_KERNEL}'} | ({"a_h": header} if header else {})
    with pytest.raises(TaskError, match=f"includes {missing}, which is not in"):
        _paths(_written(tmp_path, **files))


def test_a_header_outside_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text("")
    kernel = _written(tmp_path / "inner", kernel_cpp=f'#include "../a.h"\n{_KERNEL}')
    with pytest.raises(TaskError, match="lies outside"):
        _paths(kernel)


def test_what_may_never_be_compiled_may_be_missing(tmp_path: Path) -> None:
    text = f'#ifdef OTHER\n#include "other.h"\n#endif\n#include "immintrin.h"\n{_KERNEL}'
    assert _paths(_written(tmp_path, kernel_cpp=text)) == ["kernel.cpp"]

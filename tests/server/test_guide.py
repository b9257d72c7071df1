"""The guide names every command as it is, and its C++ builds."""

import re
import subprocess
import sys

import pytest

from kernelwright.languages import get_language
from kernelwright.records import Candidate, SourceFile
from kernelwright.server import guide


def test_it_is_printed_and_needs_nothing_else():
    command = [sys.executable, "-m", "kernelwright", "mcp", "--guide"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == guide().strip()
    assert "{writing}" not in printed and "KW_KERNEL" in printed


def test_every_command_in_it_exists():
    from kernelwright.cli._app import COMMANDS

    named = set(re.findall(r"kernelwright (\w+)", guide()))
    assert {"describe", "judge", "export", "lessons"} <= named <= set(COMMANDS)


@pytest.mark.needs("C++ compiler")
def test_its_kernel_builds():
    (text,) = re.findall(r'```\n(#include "kernelwright.h".*?)```', guide(), re.DOTALL)
    candidate = Candidate(
        sources=(SourceFile(path="scale.cpp", text=text),),
        language="cpp",
        entry="scale.cpp:scale",
        style="destination",
    )
    build = get_language("cpp").build(candidate)
    assert build.status == "ok", build.diagnostics

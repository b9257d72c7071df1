"""The browser: which one is here, and a page opened in it without a window."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import MissingToolError

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless=new", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--enable-unsafe-webgpu",
    "--enable-features=Vulkan", "--use-webgpu-adapter=swiftshader",
)  # fmt: skip
REMEDY = "apt-get install chromium, or open the page that `kernelwright web serve` names in any browser"


def browser() -> str | None:
    """Return the path of a Chromium, if one is here."""
    return next((found for program in PROGRAMS if (found := shutil.which(program))), None)


@contextmanager
def open_headless(url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Open a page without a window, in a profile of its own; the browser ends with the block.

    Raises:
        MissingToolError: no Chromium is here.
    """
    program = browser()
    if program is None:
        raise MissingToolError(f"no Chromium on the PATH; {REMEDY}")
    rights = ("--no-sandbox",) if os.geteuid() == 0 else ()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = (program, *_FLAGS, *rights, f"--user-data-dir={Path(profile) / 'profile'}", url)
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

"""Graph → program for the browser: steps that `jit/` makes WebAssembly of and tunes there; its page and its server.

    from kernelwright.web import program_of, write_page

See docs/web.md.
"""

from ._browser import REMEDY, browser, open_headless
from ._onnx import model_of
from ._page import Case, Expected, write_page
from ._program import Program, Step, Tensor
from ._serve import Answers, Peer, Server
from ._steps import program_of

__all__ = [
    "REMEDY", "Answers", "Case", "Expected", "Peer", "Program", "Server", "Step", "Tensor", "browser", "model_of",
    "open_headless", "program_of", "write_page",
]  # fmt: skip

"""Look for an adapter, or compile a WGSL source to get its errors; run as a separate process by `wgsl.py`.

`python -m kernelwright.languages._wgsl_compile` prints the adapter as JSON. With `file.wgsl entry` it exits with 0
if the shader is valid and contains every kernel that its lines name.
"""

import json
import re
import sys
from pathlib import Path

from ..errors import MissingToolError


def describe() -> None:
    """Print the adapter, or what is missing."""
    from .wgsl import adapter

    try:
        import wgpu

        print(json.dumps({"version": wgpu.__version__, "adapter": str(adapter().summary)}))
    except (ImportError, MissingToolError) as error:
        print(json.dumps({"missing": str(error)}))


def check(path: str, entry: str) -> int:
    """Compile the module and look for its entry points; returns the exit code."""
    import wgpu

    from .wgsl import Program, gpu_device

    source = Path(path).read_text()
    try:
        gpu_device().create_shader_module(code=source)
    except wgpu.GPUError as error:
        print(error)
        return 1
    for stage in Program(source, entry).launched:
        if not re.search(rf"@compute\b[^{{]*\bfn\s+{re.escape(stage.kernel)}\s*\(", source):
            print(f"the source has no @compute function {stage.kernel!r}")
            return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1:]:
        raise SystemExit(check(sys.argv[1], sys.argv[2]))
    describe()

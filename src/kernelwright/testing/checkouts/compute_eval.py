"""A made-up checkout of ComputeEval."""

import gzip
import io
import json
import tarfile

_HEADER = "int doubled(int value);\n"
_SOLUTION = '#include "doubled.h"\n\nint doubled(int value) { return 2 * value; }\n'
_HARNESS = '#include "doubled.h"\n\nint main() { return doubled(21) == 42 ? 0 : 1; }\n'
_PROBLEM = {
    "type": "cuda_cpp", "task_id": "CUDA/1", "group": "made-up", "prompt": "Double a number.",
    "context_files": [{"path": "include/doubled.h", "content": _HEADER}],
    "test_files": [{"path": "test/main.cu", "content": _HARNESS}],
    "baseline_solution": {"files": [{"path": "solution.cu", "content": _SOLUTION}]},
    "build_command": "g++ -I include -o test.out -x c++ solution.cu test/main.cu",
    "test_command": "./test.out", "timeout_seconds": 30.0,
}  # fmt: skip


def _archive(text: str) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        entry = tarfile.TarInfo("problems.jsonl")
        entry.size = len(text.encode())
        archive.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(whole.getvalue(), mtime=0)


FILES = {
    "data/releases/2026-1-problems.tar.gz": _archive(json.dumps(_PROBLEM) + "\n"),
    "compute_eval/README.md": "no evaluator\n",
}

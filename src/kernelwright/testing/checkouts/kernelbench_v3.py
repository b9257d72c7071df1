"""A made-up checkout of KernelBench-v3."""

from .kernelbench import LINEAR, SOFTMAX

_FOLDER = "benchmarks/v3/problems"
FILES: dict[str, str | bytes] = {
    f"{_FOLDER}/level1/23_Softmax.py": f'{SOFTMAX}\n\nOP_TYPE = "softmax"\n',
    f"{_FOLDER}/level4/1_Linear.py": f'{LINEAR}\n\nOP_TYPE = "gemm"\n',
    "benchmarks/v3/src/eval/benchmark.py": "",
}

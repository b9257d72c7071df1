"""A made-up checkout of SOL-ExecBench."""

from .flashinfer_bench import DEFINITION

_SEEN = """{"uuid": "a", "axes": {"rows": 32}, "inputs": {"x": {"type": "random"}, "w": {"type": "random"}}}
{"uuid": "b", "axes": {"rows": 4}, "inputs": {"x": {"type": "random"}, "w": {"type": "random"}},
 "tolerance": {"max_atol": 1e-3, "max_rtol": 1e-3, "required_matched_ratio": 0.9, "max_error_cap": 0.5}}
""".replace(",\n ", ", ")
FILES = {
    "examples/pytorch/scale/definition.json": DEFINITION,
    "examples/pytorch/scale/workload.jsonl": _SEEN,
    "tests/sol_execbench/samples/scale/definition.json": DEFINITION,
    "tests/sol_execbench/samples/scale/workload.jsonl": _SEEN,
    "src/sol_execbench/README.md": "no evaluator\n",
}

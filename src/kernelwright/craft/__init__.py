"""Assembly kernels for instruction sets that no model has seen: manual, assembler, simulator, tasks, judge.

    from kernelwright.craft import find_backend, find_task, judge

    verdict = judge(find_task("softmax"), find_backend("tessera"), text)

See docs/craft.md.
"""

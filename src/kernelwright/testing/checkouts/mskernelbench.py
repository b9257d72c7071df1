"""A made-up checkout of MSKernelBench: C++ alone, so that no GPU and no nvcc is asked for."""

_KERNEL = """extern "C" void doubled_bf16%s(float* out, const float* input, int n) {
    for (int i = 0; i < n; i++) out[i] = 2 * input[i];
}
"""
_PROGRAM = """#include <cmath>
// ==== OPTIMIZED KERNEL START ====
%s// ==== OPTIMIZED KERNEL END ====
%s
// Test case
int main() {
    float input[3] = {1, 2, 3}, one[3], other[3];
    doubled_bf16_origin(one, input, 3);
    doubled_bf16_optimized(other, input, 3);
    for (int i = 0; i < 3; i++) if (std::fabs(one[i] - other[i]) > 1e-2f) return 1;
    return 0;
}
"""
FILES = {
    "origin/bf16/doubled_bf16.cu": _KERNEL % "",
    "origin/bf16/test_doubled_bf16.cu": _PROGRAM % (_KERNEL % "_optimized", _KERNEL % "_origin"),
    "origin/fp32/doubled.cu": (_KERNEL % "").replace("_bf16", ""),
}

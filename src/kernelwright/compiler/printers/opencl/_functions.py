"""Functions that OpenCL C lacks."""

FUNCTIONS = {
    "kw_wide": "float kw_wide(ushort u) { return as_float((uint)u << 16); }",
    "kw_narrow": """ushort kw_narrow(float x) {  // to bfloat16, to even
  const uint u = as_uint(x);
  return isnan(x) ? (ushort)0x7fc0 : (ushort)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}""",
    "kw_larger": "#define kw_larger(a, b) (((a) > (b) || (a) != (a)) ? (a) : (b))",
    "kw_smaller": "#define kw_smaller(a, b) (((a) < (b) || (a) != (a)) ? (a) : (b))",
    "kw_sigmoid": "#define kw_sigmoid(x) (1 / (1 + exp(-(x))))",
    "kw_silu": "float kw_silu(float x) { return x / (1.0f + exp(-x)); }",
    "kw_softplus": """float kw_softplus(float x, float beta, float threshold) {
  return x * beta > threshold ? x : log1p(exp(x * beta)) / beta;
}""",
    "kw_mish": "float kw_mish(float x) { return x * tanh(kw_softplus(x, 1.0f, 20.0f)); }",
    "kw_gelu": "float kw_gelu(float x) { return 0.5f * x * erfc(-x * 0.70710678118f); }",
    "kw_gelu_tanh": """float kw_gelu_tanh(float x) {
  return 0.5f * x * (1.0f + tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
}""",
    "kw_leaky_relu": "float kw_leaky_relu(float x, float slope) { return x > 0.0f ? x : slope * x; }",
    "kw_elu": """float kw_elu(float x, float alpha, float scale, float inner) {
  return scale * (x > 0.0f ? x : alpha * expm1(x * inner));
}""",
    "kw_hardsigmoid": "float kw_hardsigmoid(float x) { return kw_smaller(kw_larger(x + 3.0f, 0.0f), 6.0f) / 6.0f; }",
    "kw_hardswish": "float kw_hardswish(float x) { return x * kw_hardsigmoid(x); }",
    "kw_log_sigmoid": "float kw_log_sigmoid(float x) { return fmin(x, 0.0f) - log1p(exp(-fabs(x))); }",
    "kw_floor_div": """long kw_floor_div(long a, long b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}""",
    "kw_floor_mod": """long __attribute__((overloadable)) kw_floor_mod(long a, long b) {
  const long r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
float __attribute__((overloadable)) kw_floor_mod(float a, float b) {
  const float r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}""",
}
"""Name → definition; `groups.needed` picks those that a text calls."""

"""Functions that WGSL lacks, or has with less accuracy than a float32 kernel needs.

Source of the polynomials for exp and log: Cephes Mathematical Library, expf.c and logf.c. erf and tanh are
evaluated by series near zero and through exp elsewhere.
"""

FUNCTIONS = {
    "kw_zero": "var<private> kw_zero: u32 = 0u;",
    "kw_bits": "fn kw_bits(u: u32) -> f32 { return bitcast<f32>(u | kw_zero); }",
    "kw_isnan": "fn kw_isnan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }",
    "kw_isinf": "fn kw_isinf(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }",
    "kw_larger": "fn kw_larger(a: f32, b: f32) -> f32 { return select(b, a, a > b || kw_isnan(a)); }",
    "kw_smaller": "fn kw_smaller(a: f32, b: f32) -> f32 { return select(b, a, a < b || kw_isnan(a)); }",
    "kw_exp": """fn kw_exp(x: f32) -> f32 {
  let c = clamp(x, -104.0, 89.0);
  let n = floor(c * 1.44269504088896341 + 0.5);
  let r = (c - n * 0.693359375) + n * 2.12194440e-4;
  var p = 1.9875691500e-4;
  p = fma(p, r, 1.3981999507e-3);
  p = fma(p, r, 8.3334519073e-3);
  p = fma(p, r, 4.1665795894e-2);
  p = fma(p, r, 1.6666665459e-1);
  p = fma(p, r, 5.0000001201e-1);
  p = fma(p, r * r, r) + 1.0;
  let half = i32(n) / 2;
  let first = bitcast<f32>(u32(half + 127) << 23u);
  let second = bitcast<f32>(u32(i32(n) - half + 127) << 23u);
  let found = p * first * second;
  return select(select(select(found, 0.0, x < -103.9), kw_bits(0x7f800000u), x > 88.8), x, kw_isnan(x));
}""",
    "kw_exp2": "fn kw_exp2(x: f32) -> f32 { return kw_exp(x * 0.69314718056); }",
    "kw_log": """fn kw_log(x: f32) -> f32 {
  let small = x < 1.17549435e-38;
  let bits = bitcast<u32>(select(x, x * 8388608.0, small));
  var e = f32(i32(bits >> 23u) - 126) - select(0.0, 23.0, small);
  var m = bitcast<f32>((bits & 0x007fffffu) | 0x3f000000u);
  let low = m < 0.70710678118;
  e = select(e, e - 1.0, low);
  m = select(m - 1.0, m + m - 1.0, low);
  let z = m * m;
  var p = 7.0376836292e-2;
  p = fma(p, m, -1.1514610310e-1);
  p = fma(p, m, 1.1676998740e-1);
  p = fma(p, m, -1.2420140846e-1);
  p = fma(p, m, 1.4249322787e-1);
  p = fma(p, m, -1.6668057665e-1);
  p = fma(p, m, 2.0000714765e-1);
  p = fma(p, m, -2.4999993993e-1);
  p = fma(p, m, 3.3333331174e-1);
  p = p * m * z + e * -2.12194440e-4 - 0.5 * z;
  let found = m + p + e * 0.693359375;
  let bad = kw_isnan(x) || x < 0.0;
  let end = select(found, x, x > 3.4e38);
  return select(select(end, kw_bits(0xff800000u), x == 0.0), kw_bits(0x7fc00000u), bad);
}""",
    "kw_log2": "fn kw_log2(x: f32) -> f32 { return kw_log(x) * 1.44269504089; }",
    "kw_log10": "fn kw_log10(x: f32) -> f32 { return kw_log(x) * 0.4342944819; }",
    "kw_log1p": """fn kw_log1p(x: f32) -> f32 {
  let u = 1.0 + x;
  let near = kw_log(u) - ((u - 1.0) - x) / u;
  return select(select(near, x, u == 1.0), kw_log(u), x > 1.0e7);
}""",
    "kw_expm1": """fn kw_expm1(x: f32) -> f32 {
  var p = 1.9841270e-4;
  p = fma(p, x, 1.3888889e-3);
  p = fma(p, x, 8.3333333e-3);
  p = fma(p, x, 4.1666667e-2);
  p = fma(p, x, 1.6666667e-1);
  p = fma(p, x, 0.5);
  return select(kw_exp(x) - 1.0, fma(p * x, x, x), abs(x) < 0.35);
}""",
    "kw_tanh": """fn kw_tanh(x: f32) -> f32 {
  let t = abs(x);
  let s = x * x;
  var p = -8.8632355e-3;
  p = fma(p, s, 2.1869488e-2);
  p = fma(p, s, -5.3968254e-2);
  p = fma(p, s, 1.3333333e-1);
  p = fma(p, s, -3.3333333e-1);
  let far = sign(x) * (1.0 - 2.0 / (kw_exp(2.0 * min(t, 20.0)) + 1.0));
  return select(far, fma(p * s, x, x), t < 0.3);
}""",
    "kw_erf": """fn kw_erf(x: f32) -> f32 {
  let t = abs(x);
  let s = x * x;
  var r = fma(-1.72853470e-5, t, 3.83197126e-4);
  r = fma(r, s, fma(-3.88396438e-3, t, 2.42546219e-2));
  r = fma(r, t, -1.06777877e-1);
  r = fma(r, t, -6.34846687e-1);
  r = fma(r, t, -1.28717512e-1);
  r = fma(r, t, -t);
  let far = sign(x) * (1.0 - kw_exp(r));
  var p = -5.96761703e-4;
  p = fma(p, s, 4.99119423e-3);
  p = fma(p, s, -2.67681349e-2);
  p = fma(p, s, 1.12819925e-1);
  p = fma(p, s, -3.76125336e-1);
  p = fma(p, s, 1.28379166e-1);
  let beyond = select(far, sign(x), t > 4.0);
  return select(beyond, fma(p, x, x), t < 0.927734375);
}""",
    "kw_sigmoid": """fn kw_sigmoid(x: f32) -> f32 {
  let e = kw_exp(-abs(x));
  return select(e / (1.0 + e), 1.0 / (1.0 + e), x >= 0.0 || kw_isnan(x));
}""",
    "kw_silu": "fn kw_silu(x: f32) -> f32 { return x * kw_sigmoid(x); }",
    "kw_softplus": """fn kw_softplus(x: f32, beta: f32, threshold: f32) -> f32 {
  return select(kw_log1p(kw_exp(x * beta)) / beta, x, x * beta > threshold);
}""",
    "kw_mish": "fn kw_mish(x: f32) -> f32 { return x * kw_tanh(kw_softplus(x, 1.0, 20.0)); }",
    "kw_gelu": "fn kw_gelu(x: f32) -> f32 { return 0.5 * x * (1.0 + kw_erf(x * 0.70710678118)); }",
    "kw_gelu_tanh": """fn kw_gelu_tanh(x: f32) -> f32 {
  return 0.5 * x * (1.0 + kw_tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
}""",
    "kw_leaky_relu": "fn kw_leaky_relu(x: f32, slope: f32) -> f32 { return select(slope * x, x, x > 0.0); }",
    "kw_elu": """fn kw_elu(x: f32, alpha: f32, scale: f32, inner: f32) -> f32 {
  return scale * select(alpha * kw_expm1(x * inner), x, x > 0.0);
}""",
    "kw_hardsigmoid": "fn kw_hardsigmoid(x: f32) -> f32 { return clamp(x + 3.0, 0.0, 6.0) / 6.0; }",
    "kw_hardswish": "fn kw_hardswish(x: f32) -> f32 { return x * kw_hardsigmoid(x); }",
    "kw_log_sigmoid": "fn kw_log_sigmoid(x: f32) -> f32 { return min(x, 0.0) - kw_log1p(kw_exp(-abs(x))); }",
    "kw_rsqrt": "fn kw_rsqrt(x: f32) -> f32 { return 1.0 / sqrt(x); }",
    "kw_sinh": "fn kw_sinh(x: f32) -> f32 { return 0.5 * (kw_expm1(x) - kw_expm1(-x)); }",
    "kw_cosh": "fn kw_cosh(x: f32) -> f32 { return 0.5 * (kw_exp(x) + kw_exp(-x)); }",
    "kw_power": """fn kw_power(x: f32, y: f32) -> f32 {
  let whole = y == floor(y);
  let odd = whole && (i32(y) & 1) != 0;
  if (whole && abs(y) <= 16.0) {
    var found = 1.0;
    for (var i = 0; i < i32(abs(y)); i++) { found *= x; }
    return select(found, 1.0 / found, y < 0.0);
  }
  if (y == 0.5) { return sqrt(x); }
  let size = kw_exp(y * kw_log(abs(x)));
  return select(size, select(kw_bits(0x7fc00000u), select(size, -size, odd), whole), x < 0.0);
}""",
    "kw_fmod": "fn kw_fmod(x: f32, y: f32) -> f32 { return x - y * trunc(x / y); }",
    "kw_floor_div": """fn kw_floor_div(a: i32, b: i32) -> i32 {
  return a / b - select(0, 1, a % b != 0 && (a < 0) != (b < 0));
}""",
}
"""Name → definition; `groups.needed` picks those that a text calls."""

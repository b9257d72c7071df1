// Arithmetic on four lanes or on one, by the same names, so that one generator writes a SIMD build and a scalar build.
// The polynomials are least maximum fits made for this file, by Chebyshev nodes (exp, log) and by reweighted linear
// least squares (tanh, erf); `tests/web` holds each against float64.

import { F32, I32, V128, f32, f32x4, get, i32, i32x4, set, v128 } from "./wasm.mjs";

const LOG2E = 1.44269504, LN2_HIGH = 0.693359375, LN2_LOW = -2.12194440e-4;
const EXP = [1, 1.00000004, 0.500000005, 0.166664155, 0.0416663529, 0.0083751264, 0.00139411085];
const LOG = [-0.499999971, 0.333336706, -0.250011477, 0.199720497, -0.165884885, 0.148347868, -0.14159647,
  0.0878726551];
const TANH = {
  limit: 8.2,
  above: [0.999999998, 0.137135811, 0.00391072557, 2.88775974e-05, 3.27491295e-08, -1.38912508e-11],
  below: [1.0, 0.470469135, 0.0274004505, 0.00040138789, 1.34905905e-06],
};
const ERF = {
  limit: 3.95,
  above: [1.12837901, 0.194035375, 0.0532070242, 0.00391730735, 0.000287600885, 2.01174995e-06],
  below: [1.0, 0.505290861, 0.115590628, 0.0152706787, 0.00119819936, 3.7839804e-05],
};

const four = {
  type: V128, count: 4, bytes: 16, ...f32x4, const: v128.const, load: v128.load, store: v128.store,
  splatted: v128.splatted, twoTo: (n) => i32x4.shl(i32x4.add(i32x4.trunc(n), i32x4.splat(i32.const(126))), 23),
  choose: v128.select,
  exponent: (x) => f32x4.fromInt(i32x4.add(i32x4.shr(x, 23), i32x4.splat(i32.const(-126)))),
  mantissa: (x) => v128.or(v128.and(x, i32x4.splat(i32.const(0x7fffff))), i32x4.splat(i32.const(0x3f000000))),
};
const one = {
  type: F32, count: 1, bytes: 4, ...f32, splatted: f32.load, splat: (x) => x,
  choose: (flag, yes, no) => f32.select(flag, yes, no),
  twoTo: (n) => f32.fromBits(i32.shl(i32.add(i32.trunc(n), i32.const(126)), i32.const(23))),
  exponent: (x) => f32.fromInt(i32.sub(i32.shr(i32.reinterpret(x), i32.const(23)), i32.const(126))),
  mantissa: (x) => f32.fromBits(i32.or(i32.and(i32.reinterpret(x), i32.const(0x7fffff)), i32.const(0x3f000000))),
};

/** Operations on `count` lanes, written into the function `f`; `fused` multiplies and adds with one rounding. */
export const lanes = (f, count, fused = false) => {
  let base = count === 4 ? four : one;
  const plain = (x, y, z) => base.add(z, base.mul(x, y));
  const madd = count === 4 && fused ? base.madd : plain;
  const keep = (value) => {
    const local = f.local(base.type);
    return [set(local, value), () => get(local)];
  };
  const polynomial = (x, factors) =>
    factors.slice(0, -1).reduceRight((sum, factor) => madd(sum, x(), base.const(factor)), base.const(factors.at(-1)));
  const rational = ({ limit, above, below }) => (given) => {
    const [put, x] = keep(base.most(base.least(given, base.const(limit)), base.const(-limit)));
    const [square, t] = keep(base.mul(x(), x()));
    return [put, square, base.div(base.mul(x(), polynomial(t, above)), polynomial(t, below))];
  };
  const exp = (given) => {
    const [put, x] = keep(base.most(base.least(given, base.const(89)), base.const(-87.3)));
    const [whole, n] = keep(base.nearest(base.mul(x(), base.const(LOG2E))));
    const rest = madd(n(), base.const(-LN2_LOW), madd(n(), base.const(-LN2_HIGH), x()));
    const [left, r] = keep(rest);
    const [scaled, half] = keep(base.mul(polynomial(r, EXP), base.twoTo(n())));
    return [put, whole, left, scaled, base.add(half(), half())];
  };
  const log = (given) => {
    const [put, x] = keep(given);
    const [part, m] = keep(base.mantissa(x()));
    const low = () => base.lt(m(), base.const(Math.SQRT1_2));
    const [power, e] = keep(base.sub(base.exponent(x()), base.choose(low(), base.const(1), base.const(0))));
    const [shifted, r] = keep(base.sub(base.choose(low(), base.add(m(), m()), m()), base.const(1)));
    const near = madd(base.mul(r(), r()), polynomial(r, LOG), r());
    return [put, part, power, shifted, madd(e(), base.const(LN2_HIGH), madd(e(), base.const(LN2_LOW), near))];
  };
  const sigmoid = (x) => base.div(base.const(1), base.add(base.const(1), exp(base.neg(x))));
  /** On one lane, minimum and maximum by masks: engines branch in theirs, which random values make slow. */
  const pick = (ordered, strict) => (given, other) => {
    const [first, x] = keep(given), [second, y] = keep(other), [bits, mask] = flags();
    const flag = strict ? ordered(x(), y()) : i32.or(ordered(x(), y()), f32.ne(y(), y()));
    const taken = (value, chosen) => i32.and(i32.reinterpret(value), chosen);
    const value = i32.or(taken(y(), mask()), taken(x(), i32.xor(mask(), i32.const(-1))));
    return [first, second, bits(i32.sub(i32.const(0), flag)), f32.fromBits(value)];
  };
  const flags = () => {
    const local = f.local(I32);
    return [(value) => set(local, value), () => get(local)];
  };
  const less = f32.lt, more = (x, y) => f32.lt(y, x);
  const masked = { most: pick(less, true), least: pick(more, true), max: pick(less, false), min: pick(more, false) };
  if (count === 1) base = { ...base, ...masked };
  const twice = (make) => (given) => {
    const [put, x] = keep(given);
    return [put, make(x)];
  };
  const half = base.const(0.5), unit = base.const(1);
  const own = {
    madd, exp, log, sigmoid, tanh: rational(TANH), erf: rational(ERF),
    relu: (x) => base.most(x, base.const(0)),
    rsqrt: (x) => base.div(unit, base.sqrt(x)),
    square: twice((x) => base.mul(x(), x())),
    silu: twice((x) => base.div(x(), base.add(unit, exp(base.neg(x()))))),
    hardswish: twice((x) => base.mul(x(), base.mul(base.const(1 / 6), base.most(base.const(0),
      base.least(base.const(6), base.add(x(), base.const(3))))))),
  };
  own.gelu = twice((x) => base.mul(base.mul(half, x()), base.add(unit, own.erf(base.mul(x(), base.const(Math.SQRT1_2))))));
  own.gelu_tanh = twice((x) => {
    const inner = base.mul(base.const(Math.sqrt(2 / Math.PI)),
      madd(base.mul(base.const(0.044715), x()), base.mul(x(), x()), x()));
    return base.mul(base.mul(half, x()), base.add(unit, own.tanh(inner)));
  });
  return { ...base, ...own, keep };
};

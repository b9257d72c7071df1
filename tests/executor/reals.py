"""Binary floating point on bits, by exact fractions: what PTX's arithmetic must give."""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt


@dataclass(frozen=True)
class Format:
    exponent: int
    fraction: int

    @property
    def bits(self):
        return 1 + self.exponent + self.fraction

    @property
    def bias(self):
        return (1 << (self.exponent - 1)) - 1

    @property
    def infinity(self):
        return ((1 << self.exponent) - 1) << self.fraction

    @property
    def sign(self):
        return 1 << (self.bits - 1)

    def is_nan(self, u):
        return u & (self.sign - 1) > self.infinity

    def is_infinite(self, u):
        return u & (self.sign - 1) == self.infinity

    def is_subnormal(self, u):
        return 0 < u & (self.sign - 1) < 1 << self.fraction

    def value(self, u):
        """Return the exact value of finite bits."""
        e, f = (u & (self.sign - 1)) >> self.fraction, u & ((1 << self.fraction) - 1)
        m = f if e == 0 else f | 1 << self.fraction
        v = Fraction(m) * Fraction(2) ** (max(e, 1) - self.bias - self.fraction)
        return -v if u & self.sign else v

    def rounded(self, value, mode="rn", negative_zero=False):
        """Return the bits of an exact value rounded once."""
        sign = self.sign if value < 0 or (value == 0 and negative_zero) else 0
        x = abs(value)
        if x == 0:
            return sign
        e = x.numerator.bit_length() - x.denominator.bit_length()
        if Fraction(2) ** e > x:
            e -= 1
        e = max(e, 1 - self.bias)
        scaled = x / Fraction(2) ** (e - self.fraction)
        whole, rest = divmod(scaled.numerator, scaled.denominator)
        rest = Fraction(rest, scaled.denominator)
        if (
            (mode == "rn" and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1)))
            or (mode == "rna" and rest >= Fraction(1, 2))
            or (mode == "rp" and rest and not sign)
            or (mode == "rm" and rest and sign)
        ):
            whole += 1
        u = ((e + self.bias - 1) << self.fraction) + whole
        if u >= self.infinity:
            away = mode in {"rn", "rna"} or (mode == "rp" and not sign) or (mode == "rm" and bool(sign))
            u = self.infinity if away else self.infinity - 1
        return u | sign

    def flushed(self, u):
        return u & self.sign if self.is_subnormal(u) else u


F16, BF16, F32, F64 = Format(5, 10), Format(8, 7), Format(8, 23), Format(11, 52)
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
NAN = "nan"


def _sum(f, a, b, mode):
    """Add two exact values that may be infinite; zero has the sign that IEEE 754 gives it."""
    return f.rounded(a + b, mode, negative_zero=mode == "rm")


def add(f, a, b, mode):
    if f.is_nan(a) or f.is_nan(b) or (f.is_infinite(a) and f.is_infinite(b) and a != b):
        return NAN
    if f.is_infinite(a) or f.is_infinite(b):
        return a if f.is_infinite(a) else b
    if f.value(a) == f.value(b) == 0 and a == b:
        return a
    return _sum(f, f.value(a), f.value(b), mode)


def multiply(f, a, b, mode):
    sign = (a ^ b) & f.sign
    if f.is_nan(a) or f.is_nan(b):
        return NAN
    if f.is_infinite(a) or f.is_infinite(b):
        other = b if f.is_infinite(a) else a
        return NAN if not f.is_infinite(other) and f.value(other) == 0 else sign | f.infinity
    return f.rounded(f.value(a) * f.value(b), mode, negative_zero=bool(sign))


def fma(f, a, b, c, mode):
    if f.is_nan(a) or f.is_nan(b) or f.is_nan(c):
        return NAN
    if f.is_infinite(a) or f.is_infinite(b):
        product = multiply(f, a, b, mode)
        return product if product == NAN else add(f, product, c, mode)
    if f.is_infinite(c):
        return c
    p, sign = f.value(a) * f.value(b), (a ^ b) & f.sign
    if p == 0 and f.value(c) == 0:
        return sign if sign == c & f.sign else (f.sign if mode == "rm" else 0)
    return _sum(f, p, f.value(c), mode)


def divide(f, a, b, mode):
    sign = (a ^ b) & f.sign
    if f.is_nan(a) or f.is_nan(b) or (f.is_infinite(a) and f.is_infinite(b)):
        return NAN
    if f.is_infinite(a):
        return sign | f.infinity
    if f.is_infinite(b):
        return sign
    if f.value(b) == 0:
        return NAN if f.value(a) == 0 else sign | f.infinity
    return f.rounded(f.value(a) / f.value(b), mode, negative_zero=bool(sign))


def root(f, a, mode):
    if f.is_nan(a) or (a & f.sign and a != f.sign):
        return NAN
    if f.is_infinite(a) or f.value(a) == 0:
        return a
    scale = 2 * (f.bias + 2 * f.fraction + 8)
    v = f.value(a) * Fraction(2) ** (2 * scale)
    whole = isqrt(v.numerator // v.denominator)
    exact = whole * whole == v
    return f.rounded((Fraction(whole) + (0 if exact else Fraction(1, 2))) / Fraction(2) ** scale, mode)


def extreme(f, a, b, greatest, nan):
    if f.is_nan(a) or f.is_nan(b):
        if nan or (f.is_nan(a) and f.is_nan(b)):
            return NAN
        return b if f.is_nan(a) else a

    def key(u):
        return u if not u & f.sign else -(u & (f.sign - 1)) - 1

    return max(a, b, key=key) if greatest else min(a, b, key=key)


def saturate(f, u):
    if u == NAN:
        return 0
    if u & f.sign:
        return 0
    return min(u, f.bias << f.fraction)

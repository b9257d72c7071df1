// Pooling, one axis after the other: the rows of a window are joined into one line, whose columns are sorted by their
// place in a stride, and the taps of the line are joined from neighbouring addresses.

import { Func, I32, advance, count, get, i32, set, v128 } from "./wasm.mjs";
import { lanes } from "./lanes.mjs";
import { stored } from "./windows.mjs";

const BYTES = 4, LANES = 4;

/** Sizes of the output, and of the line in elements. */
export const poolOf = ({ height, width, kernel, stride, padding, dilation }) => {
  const out = [height, width].map((size, d) =>
    Math.floor((size + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d]) + 1);
  const phase = Math.ceil((width + 2 * padding[1]) / stride[1]) + LANES;
  return { out, phase, elements: phase * stride[1] + 64 };
};

/** One plane: `(input, output, line)`; `max` or `mean` over the window. What pads the line is in it already. */
export const pooling = (shape, { vectors, lines }) => {
  const f = new Func([I32, I32, I32]), [input, output, line] = [0, 1, 2], [i, p, x, y] = f.many(4, I32);
  const { height, width, kernel, stride, padding, dilation } = shape, { out, phase } = poolOf(shape), s = stride[1];
  const wide = lanes(f, lines ?? 4), one = lanes(f, 1), maximum = shape.pool === "max";
  const join = (many, values) => values.reduce((left, value) => (maximum ? many.max : many.add)(left, value));
  const place = (residue) => (((residue + padding[1]) % s) * phase + Math.floor((residue + padding[1]) / s)) * BYTES;

  const column = (many, rows, offset) =>
    join(many, rows.map((row) => many.load(get(x), row * width * BYTES + offset)));
  const narrow = (rows, residues) =>
    residues.map((r) => one.store(get(y), column(one, rows, r * BYTES), place(r)));
  const pairs = (rows) => {
    const [first, a] = wide.keep(column(wide, rows, 0)), [second, b] = wide.keep(column(wide, rows, 16));
    const sorted = [0, 1].map((r) => wide.store(get(y), v128.shuffle(a(), b(), [r, r + 2, r + 4, r + 6]), place(r)));
    return [first, second, sorted];
  };
  const joined = (rows) => {
    const chunk = s * LANES, simd = wide.count === LANES && s <= 2, whole = simd ? width - (width % chunk) : 0;
    const full = width - (width % s), every = Array.from({ length: s }, (_, r) => r);
    return [
      set(y, get(line)),
      count(p, 0, whole, chunk, [
        s === 1 ? wide.store(get(y), column(wide, rows, 0), place(0)) : pairs(rows),
        advance(x, chunk * BYTES),
        advance(y, LANES * BYTES),
      ]),
      count(p, whole, full, s, [narrow(rows, every), advance(x, s * BYTES), advance(y, BYTES)]),
      narrow(rows, every.slice(0, width - full)),
    ];
  };

  const taps = Array.from({ length: kernel[1] }, (_, k) => k * dilation[1])
    .map((tap) => ((tap % s) * phase + Math.floor(tap / s)) * BYTES);
  const sums = f.many(vectors, wide.type), strip = vectors * wide.count, rest = out[1] % strip;
  const across = (many, left) => sums.slice(0, many).map((sum, v) => {
    const value = join(wide, taps.map((tap) => wide.load(get(y), tap + v * wide.bytes)));
    return [
      set(sum, maximum ? value : wide.mul(value, wide.const(1 / (kernel[0] * kernel[1])))),
      stored(get(output), sum, v * wide.bytes, left - v * wide.count, wide),
    ];
  });
  const row = (rows) => [
    joined(rows),
    set(y, get(line)),
    count(p, 0, out[1] - rest, strip, [across(vectors, strip), advance(y, strip * BYTES), advance(output, strip * BYTES)]),
    rest ? [across(Math.ceil(rest / wide.count), rest), advance(output, rest * BYTES)] : [],
  ];

  const all = Array.from({ length: kernel[0] }, (_, k) => k * dilation[0]);
  const first = (line) => line * stride[0] - padding[0];
  const inside = (line) => all.every((k) => first(line) + k >= 0 && first(line) + k < height);
  const edge = (line) => [
    set(x, i32.add(get(input), i32.const(first(line) * width * BYTES))),
    row(all.filter((k) => first(line) + k >= 0 && first(line) + k < height)),
  ];
  const numbers = Array.from({ length: out[0] }, (_, line) => line), middle = numbers.filter(inside);
  const [low, high] = middle.length ? [middle[0], middle.at(-1) + 1] : [out[0], out[0]];
  f.body = [
    numbers.slice(0, low).map(edge),
    count(i, low, high, 1, [
      set(x, i32.add(get(input), i32.mul(i32.sub(i32.mul(get(i), i32.const(stride[0])), i32.const(padding[0])),
        i32.const(width * BYTES)))),
      row(all),
    ]),
    numbers.slice(high).map(edge),
  ];
  return f;
};

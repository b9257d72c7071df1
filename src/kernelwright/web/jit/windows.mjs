// Convolution. The image is copied once into a frame with its padding, columns sorted by their place in a
// stride (`phases`), so that every tap of a window reads neighbouring outputs from neighbouring addresses.

import { Func, I32, V128, advance, count, f32, f32x4, get, i32, set, v128 } from "./wasm.mjs";
import { lanes } from "./lanes.mjs";

const BYTES = 4, LANES = 4;

/** Geometry of the frame that holds one image, in elements. */
export const frameOf = ({ channels, height, width, kernel, stride, padding, dilation }) => {
  const out = [height, width].map((size, d) =>
    Math.floor((size + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d]) + 1);
  const bare = kernel[0] === 1 && kernel[1] === 1 && stride[0] === 1 && stride[1] === 1 && !padding[0] && !padding[1];
  if (bare) return { bare, out, flat: [1, height * width], rows: 1, line: height * width, plane: height * width };
  const rows = height + 2 * padding[0];
  const phase = Math.ceil((width + 2 * padding[1]) / stride[1]), line = phase * stride[1];
  return { bare, out, flat: out, rows, phase, line, plane: rows * line, elements: channels * rows * line + 64 };
};

/** Copy an image into its frame; what surrounds it is there already. */
export const framing = (shape) => {
  const f = new Func([I32, I32]), [from, to] = [0, 1], [row, plane, p, x, y] = f.many(5, I32);
  const { channels, height, width, stride, padding } = shape, { rows, phase, line } = frameOf(shape), s = stride[1];
  const place = (residue) => ((residue + padding[1]) % s) * phase + Math.floor((residue + padding[1]) / s);
  const each = Array.from({ length: s }, (_, residue) => residue);
  const one = each.map((r) => f32.store(get(y), f32.load(get(x), r * BYTES), place(r) * BYTES));
  const evens = (first) => v128.shuffle(v128.load(get(x), 0), v128.load(get(x), 16), [first, first + 2, first + 4, first + 6]);
  const wide = s === 1 ? v128.store(get(y), v128.load(get(x)), place(0) * BYTES)
    : each.map((r) => v128.store(get(y), evens(r), place(r) * BYTES));
  const chunk = s * LANES, whole = s <= 2 ? width - (width % chunk) : 0, full = width - (width % s);
  const tail = each.slice(0, width - full).map((r) => f32.store(get(y), f32.load(get(x), r * BYTES), place(r) * BYTES));
  f.body = count(plane, 0, channels, 1, [
    advance(to, padding[0] * line * BYTES),
    count(row, 0, height, 1, [
      set(x, get(from)),
      set(y, get(to)),
      count(p, 0, whole, chunk, [wide, advance(x, chunk * BYTES), advance(y, LANES * BYTES)]),
      count(p, whole, full, s, [one, advance(x, s * BYTES), advance(y, BYTES)]),
      tail,
      advance(from, width * BYTES),
      advance(to, line * BYTES),
    ]),
    advance(to, (rows - padding[0] - height) * line * BYTES),
  ]);
  return f;
};

const taps = ({ kernel, stride, dilation }, { phase, line }) =>
  Array.from({ length: kernel[0] * kernel[1] }, (_, index) => {
    const r = Math.floor(index / kernel[1]) * dilation[0], s = (index % kernel[1]) * dilation[1];
    return r * line + (phase ? (s % stride[1]) * phase : 0) + Math.floor(s / stride[1]);
  });

/** Store the first `floats` lanes of a value. */
export const stored = (address, local, offset, floats, wide) => {
  if (floats >= wide.count) return wide.store(address, get(local), offset);
  return Array.from({ length: floats }, (_, lane) => v128.storeLane(address, get(local), lane, offset + lane * BYTES));
};

/** Walk the outputs of one plane: strips of `vectors` along each line, then what is left of the line. */
const strips = (f, { out, line, step, vectors, wide }, locals, tile) => {
  const { x, i, j, target, source } = locals, [height, width] = out, strip = vectors * wide.count;
  const full = Math.floor(width / strip), rest = width % strip;
  return count(i, 0, height, 1, [
    set(x, get(source)),
    count(j, 0, full, 1, [tile(vectors, strip), advance(x, strip * BYTES), advance(target, strip * BYTES)]),
    rest ? [tile(Math.ceil(rest / wide.count), rest), advance(target, rest * BYTES)] : [],
    advance(source, step * line * BYTES),
  ]);
};

/** One image's convolution: `(frame, weight, bias, output)`; weight is (out, in / groups, kernel). */
export const convolution = (shape, { rows, vectors, fused, lines }, finish = (f, value) => value) => {
  const f = new Func([I32, I32, I32, I32]), [frame, weight, bias, output] = [0, 1, 2, 3];
  const { channels, filters, groups, kernel, stride, biased } = shape, geometry = frameOf(shape);
  const { flat, line, plane } = geometry, own = channels / groups, made = filters / groups, area = kernel[0] * kernel[1];
  const wide = lanes(f, lines ?? 4, fused), offsets = taps(shape, geometry), pixels = flat[0] * flat[1];
  const locals = { x: f.local(I32), i: f.local(I32), j: f.local(I32), target: f.local(I32), source: f.local(I32) };
  const [group, block, c, w, here, start] = f.many(6, I32);
  const sums = f.many(rows * vectors, wide.type), values = f.many(vectors, wide.type);

  const tile = (high) => (many, left) => {
    const each = (act) => Array.from({ length: high }, (_, r) => Array.from({ length: many }, (_, v) => act(sums[r * vectors + v], r, v)));
    const channel = offsets.map((offset, tap) => [
      values.slice(0, many).map((value, v) => set(value, wide.load(get(here), offset * BYTES + v * wide.bytes))),
      Array.from({ length: high }, (_, r) => Array.from({ length: many }, (_, v) => {
        const sum = sums[r * vectors + v];
        return set(sum, wide.madd(get(values[v]), wide.splatted(get(w), (r * own * area + tap) * BYTES), get(sum)));
      })),
    ]);
    return [
      each((sum, r) => set(sum, biased ? wide.splatted(get(bias), r * BYTES) : wide.const(0))),
      set(here, get(locals.x)),
      set(w, get(weight)),
      count(c, 0, own, 1, [channel, advance(here, plane * BYTES), advance(w, area * BYTES)]),
      each((sum) => set(sum, finish(f, get(sum), wide))),
      each((sum, r, v) => stored(get(locals.target), sum, r * pixels * BYTES + v * wide.bytes, left - v * wide.count, wide)),
    ];
  };
  const channels_of = (high) => [
    set(locals.source, get(start)),
    set(locals.target, get(output)),
    strips(f, { out: flat, line, step: stride[0], vectors, wide }, locals, tile(high)),
    advance(output, high * pixels * BYTES),
    advance(weight, high * own * area * BYTES),
    advance(bias, high * BYTES),
  ];
  f.body = [
    set(start, get(frame)),
    count(group, 0, groups, 1, [
      count(block, 0, Math.floor(made / rows), 1, channels_of(rows)),
      made % rows ? channels_of(made % rows) : [],
      advance(start, own * plane * BYTES),
    ]),
  ];
  return f;
};

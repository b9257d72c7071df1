// Copies between two strided views: permutes, slices, parts of a concatenation.

import { Func, I32, advance, count, f32, get, i32, set, v128 } from "./wasm.mjs";

const BYTES = 4;

/** Make the function `(from, to)`; strides and offsets are in elements. */
export const copying = ({ shape, from, to, at, into }, { vectors }) => {
  const f = new Func([I32, I32]), depth = shape.length;
  const index = f.many(depth + 1, I32), source = f.many(depth + 1, I32), target = f.many(depth + 1, I32);
  const level = (d) => {
    const size = shape[d], steps = (times) => [
      advance(source[d], times * from[d] * BYTES),
      advance(target[d], times * to[d] * BYTES),
    ];
    const outer = d ? [get(source[d - 1]), get(target[d - 1])]
      : [i32.add(get(0), i32.const(at * BYTES)), i32.add(get(1), i32.const(into * BYTES))];
    const start = [set(source[d], outer[0]), set(target[d], outer[1])];
    if (d < depth - 1) return [start, count(index[d], 0, size, 1, [level(d + 1), steps(1)])];
    const whole = vectors && to[d] === 1 && from[d] <= 1 ? size - (size % 4) : 0;
    const load = from[d] ? v128.load(get(source[d])) : v128.splatted(get(source[d]));
    return [
      start,
      count(index[d], 0, whole, 4, [v128.store(get(target[d]), load), steps(4)]),
      count(index[d], whole, size, 1, [f32.store(get(target[d]), f32.load(get(source[d]))), steps(1)]),
    ];
  };
  f.body = depth ? level(0) : f32.store(get(1), f32.load(get(0), at * BYTES), into * BYTES);
  return f;
};

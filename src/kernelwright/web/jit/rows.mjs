// Programs over the rows of a matrix: passes that reduce a row to a number or write it. Element-wise chains, softmax,
// norms and reductions are all such programs; `docs/web.md` has the form.

import { F32, Func, I32, advance, count, f32, f32x4, get, i32, set, v128 } from "./wasm.mjs";
import { lanes } from "./lanes.mjs";

const BYTES = 4;
const NEUTRAL = { sum: 0, max: -Infinity, min: Infinity, most: -Infinity };
const JOIN = { sum: "add", max: "max", min: "min", most: "most" };

/** Make the function `(inputs..., outputs...)` of a program. */
const ALL = null;
export const rowProgram = ({ rows, width, inputs, outputs, passes }, { vectors, unroll, fused }) => {
  const f = new Func(Array(inputs.length + outputs.length).fill(I32));
  const [row, p] = f.many(2, I32);
  const bases = [...inputs, ...outputs].map((_, index) => index), running = bases.map(() => f.local(I32));
  const step = (index) => (index < inputs.length ? inputs[index].step : BYTES);
  const stride = (index) => (index < inputs.length ? inputs[index].row : outputs[index - inputs.length].row);
  const one = lanes(f, 1), four = vectors ? lanes(f, 4, fused) : one, numbers = new Map();

  const written = (expression, wide, offset, memo) => {
    if (typeof expression === "number") return wide.const(expression);
    const [name, ...given] = expression;
    if (name === "let") return get(numbers.get(given[0])[wide.count === 4 ? 1 : 0]);
    const key = JSON.stringify(expression);
    if (!memo.has(key)) {
      const [put, value] = wide.keep(made(name, given, wide, offset, memo));
      memo.set(key, value);
      return [put, value()];
    }
    return memo.get(key)();
  };
  const made = (name, given, wide, offset, memo) => {
    if (name === "in" || name === "out") {
      const index = name === "in" ? given[0] : inputs.length + given[0];
      return step(index)
        ? wide.load(get(running[index]), offset)
        : wide.splatted(get(bases[index]), 0);
    }
    if (!(name in wide)) throw new Error(`unknown operation ${name}`);
    return wide[name](...given.map((one) => written(one, wide, offset, memo)));
  };

  const number = (name) => {
    if (!numbers.has(name)) numbers.set(name, [f.local(F32), f.local(four.type)]);
    return numbers.get(name);
  };
  const used = (pass) => {
    const text = JSON.stringify(pass);
    return bases.filter((index) => step(index) && (pass.store === index - inputs.length
      || text.includes(index < inputs.length ? `["in",${index}]` : `["out",${index - inputs.length}]`)));
  };

  const over = (pass) => {
    const moved = used(pass), to = pass.store === undefined ? null : running[inputs.length + pass.store];
    const sums = pass.reduce ? f.many(unroll, four.type) : [], last = pass.reduce ? f.local(F32) : 0;
    const item = (wide, offset, sum) => {
      const value = written(pass.of, wide, offset, new Map());
      if (!pass.reduce) return wide.store(get(to), value, offset);
      const [put, kept] = wide.keep(value);
      return [
        put,
        to === null ? [] : wide.store(get(to), kept(), offset),
        set(sum, wide[JOIN[pass.reduce]](get(sum), kept())),
      ];
    };
    const many = (wide, times, own) => [
      Array.from({ length: times }, (_, u) => item(wide, u * wide.bytes, own(u))),
      moved.map((index) => advance(running[index], times * wide.bytes)),
    ];
    const chunk = unroll * four.count, whole = width - (width % chunk), near = width - (width % four.count);
    const body = [
      moved.map((index) => set(running[index], get(bases[index]))),
      sums.map((sum) => set(sum, four.const(NEUTRAL[pass.reduce]))),
      pass.reduce ? set(last, f32.const(NEUTRAL[pass.reduce])) : [],
      count(p, 0, whole, chunk, many(four, unroll, (u) => sums[u])),
      count(p, whole, near, four.count, many(four, 1, () => sums[0])),
      count(p, near, width, 1, many(one, 1, () => last)),
    ];
    if (!pass.reduce) return body;
    const join = JOIN[pass.reduce], [narrow, wide] = number(pass.name);
    const all = sums.slice(1).reduce((left, sum) => four[join](left, get(sum)), get(sums[0]));
    return [
      body,
      set(sums[0], all),
      set(narrow, f32of(join, get(last), four.count === 4 ? across(f, get(sums[0]), join) : get(sums[0]))),
      set(wide, four.splat(get(narrow))),
    ];
  };
  const f32of = (join, x, y) => one[join](x, y);
  const once = (pass) => {
    const value = written(pass.be, one, 0, new Map());
    if (pass.to !== undefined) return f32.store(get(bases[inputs.length + pass.to]), value);
    const [narrow, wide] = number(pass.name);
    return [set(narrow, value), set(wide, four.splat(get(narrow)))];
  };
  f.body = count(row, 0, rows, 1, [
    passes.map((pass) => (pass.be === undefined ? over(pass) : once(pass))),
    bases.map((index) => advance(index, stride(index))),
  ]);
  return f;
};

/** Fold four lanes to one. */
const across = (f, value, join) => {
  const fold = (x, order) => {
    const local = f.local(0x7b);
    return [set(local, x), f32x4[join](get(local), v128.shuffle(get(local), get(local), order))];
  };
  return f32x4.lane(fold(fold(value, [2, 3, 0, 1]), [1, 0, 3, 2]), 0);
};

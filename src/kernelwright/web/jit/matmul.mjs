// C = epilogue(A·B) with sizes known when the code is made. A register tile of `rows` × `vectors` holds sums while k
// runs; B lies in panels as wide as the tile, copied there once (`packed`), so that k reads it in order.

import { F32, Func, I32, V128, advance, count, f32, f32x4, get, i32, set, v128 } from "./wasm.mjs";

const LANES = 4, BYTES = 4;

/** Panels of B: full ones, then what is left, whole vectors. */
export const panels = (n, vectors) => {
  const width = vectors * LANES, full = Math.floor(n / width), rest = n - full * width;
  return { width, full, rest, last: Math.ceil(rest / LANES) };
};

/** Bytes of all panels. */
export const packedBytes = (k, n, vectors) => k * Math.ceil(n / LANES) * LANES * BYTES;

/** Copy B, (k, n) or transposed (n, k), into panels. */
export const packing = ({ k, n, transposed }, { vectors }) => {
  const f = new Func([I32, I32]);
  const [from, to] = [0, 1];
  const { width, full, rest, last } = panels(n, vectors);
  const [j, p, source] = f.many(3, I32);
  const panel = (many, left) => (transposed ? transposing : copying)(f, { k, n, from: source, to, p }, many, left);
  const start = (column) => set(source, i32.add(get(from), column));
  const stride = (transposed ? k : 1) * width * BYTES;
  f.body = [
    count(j, 0, full, 1, [start(i32.mul(get(j), i32.const(stride))), panel(vectors, width)]),
    rest ? [start(i32.const(full * stride)), panel(last, rest)] : [],
  ];
  return f;
};

const copying = (f, { k, n, from, to, p }, many, left) =>
  count(p, 0, k, 1, [
    Array.from({ length: many }, (_, v) =>
      left - v * LANES >= LANES
        ? v128.store(get(to), v128.load(get(from), v * 16), v * 16)
        : v128.store(get(to), partly(get(from), v * 16, left - v * LANES), v * 16)),
    advance(from, n * BYTES),
    advance(to, many * 16),
  ]);

/** Load up to three floats, zero beyond. */
const partly = (address, offset, floats) => {
  let value = v128.loadFirst(address, offset);
  for (let lane = 1; lane < floats; lane++) value = v128.loadLane(address, value, lane, offset + lane * BYTES);
  return value;
};

const transposing = (f, { k, from, to, p }, many, left) => {
  const rows = f.many(LANES, V128);
  const four = (v) => {
    const loaded = rows.map((row, r) => {
      const index = v * LANES + r;
      return set(row, index < left ? v128.load(get(from), index * k * BYTES) : v128.const(0));
    });
    const low = v128.shuffle(get(rows[0]), get(rows[1]), [0, 4, 1, 5]);
    const low2 = v128.shuffle(get(rows[2]), get(rows[3]), [0, 4, 1, 5]);
    const high = v128.shuffle(get(rows[0]), get(rows[1]), [2, 6, 3, 7]);
    const high2 = v128.shuffle(get(rows[2]), get(rows[3]), [2, 6, 3, 7]);
    const put = (value, step) => v128.store(get(to), value, (step * many + v) * 16);
    return [
      loaded,
      put(v128.shuffle(low, low2, [0, 1, 4, 5]), 0), put(v128.shuffle(low, low2, [2, 3, 6, 7]), 1),
      put(v128.shuffle(high, high2, [0, 1, 4, 5]), 2), put(v128.shuffle(high, high2, [2, 3, 6, 7]), 3),
    ];
  };
  const one = (v) => {
    let value = v128.loadFirst(get(from), v * LANES * k * BYTES);
    for (let lane = 1; lane < LANES && v * LANES + lane < left; lane++)
      value = v128.loadLane(get(from), value, lane, (v * LANES + lane) * k * BYTES);
    return v128.store(get(to), value, v * 16);
  };
  const whole = k - (k % LANES), all = Array.from({ length: many }, (_, v) => v);
  return [
    count(p, 0, whole, LANES, [all.map(four), advance(from, 16), advance(to, LANES * many * 16)]),
    count(p, whole, k, 1, [all.map(one), advance(from, BYTES), advance(to, many * 16)]),
  ];
};

/** The product `(a, b, c, bias)`; `finish(f, value)` makes what is stored from a sum and its bias. */
export const product = ({ m, k, n, biased }, config, finish = (f, value) => value) => {
  const f = new Func([I32, I32, I32, I32]);
  const [a, b, c, bias] = [0, 1, 2, 3];
  const { rows, vectors, unroll, depth, fused, packed } = { ...config, depth: config.depth || k };
  const { width, full, rest, last } = panels(n, vectors);
  const [i, j, p, ap, bp, cp, panel, column] = f.many(8, I32);
  const sums = f.many(rows * vectors, V128), columns = f.many(vectors, V128);
  const add = fused ? f32x4.madd : (x, y, z) => f32x4.add(z, f32x4.mul(x, y));

  const step = (many, high, u) => [
    columns.slice(0, many).map((local, v) =>
      set(local, v128.load(get(bp), packed ? (u * many + v) * 16 : u * n * BYTES + v * 16))),
    Array.from({ length: high }, (_, r) =>
      Array.from({ length: many }, (_, v) => {
        const sum = sums[r * vectors + v];
        return set(sum, add(get(columns[v]), v128.splatted(get(ap), (r * k + u) * BYTES), get(sum)));
      })),
  ];
  const steps = (many, high, times) => [
    Array.from({ length: times }, (_, u) => step(many, high, u)),
    advance(ap, times * BYTES),
    advance(bp, packed ? times * many * 16 : times * n * BYTES),
  ];
  const each = (many, high, act) =>
    Array.from({ length: high }, (_, r) => Array.from({ length: many }, (_, v) => act(sums[r * vectors + v], r, v)));

  const shifted = (sum, v) =>
    biased ? f32x4.add(sum, v128.load(i32.add(get(bias), get(column)), v * 16)) : sum;
  const store = (left) => (sum, r, v) => {
    const offset = r * n * BYTES + v * 16, floats = Math.min(LANES, left - v * LANES);
    return floats === LANES
      ? v128.store(get(cp), get(sum), offset)
      : Array.from({ length: floats }, (_, lane) => v128.storeLane(get(cp), get(sum), lane, offset + lane * BYTES));
  };
  const tile = (many, left, high, first, deep) => {
    const whole = deep - (deep % unroll), ending = first + deep >= k;
    return [
      each(many, high, (sum, r, v) => set(sum, first ? v128.load(get(cp), r * n * BYTES + v * 16) : v128.const(0))),
      set(bp, get(panel)),
      count(p, 0, whole, unroll, steps(many, high, unroll)),
      deep - whole ? steps(many, high, deep - whole) : [],
      ending ? each(many, high, (sum, r, v) => set(sum, finish(f, shifted(get(sum), v)))) : [],
      each(many, high, store(left)),
      advance(ap, (high * k - deep) * BYTES),
      advance(cp, high * n * BYTES),
    ];
  };
  const strip = (many, left, first, deep) => [
    set(ap, i32.add(get(a), i32.const(first * BYTES))),
    set(cp, i32.add(get(c), get(column))),
    count(i, 0, Math.floor(m / rows), 1, tile(many, left, rows, first, deep)),
    m % rows ? tile(many, left, m % rows, first, deep) : [],
  ];
  const block = (first) => {
    const deep = Math.min(depth, k - first), at = (index, many) =>
      packed ? i32.add(i32.mul(index, i32.const(k * width * BYTES)), i32.const(first * many * 16))
             : i32.add(i32.mul(index, i32.const(width * BYTES)), i32.const(first * n * BYTES));
    const place = (index, many) => [
      set(panel, i32.add(get(b), at(index, many))),
      set(column, i32.mul(index, i32.const(width * BYTES))),
    ];
    return [
      count(j, 0, full, 1, [place(get(j), vectors), strip(vectors, width, first, deep)]),
      rest ? [place(i32.const(full), last), strip(last, rest, first, deep)] : [],
    ];
  };
  f.body = Array.from({ length: Math.ceil(k / depth) }, (_, index) => block(index * depth));
  return f;
};

/** The same product on single floats, in register tiles too: the form that SIMD is compared with. */
export const scalarProduct = ({ m, k, n, transposed, biased }, { rows, columns }, finish = (f, value) => value) => {
  const f = new Func([I32, I32, I32, I32]), [a, b, c, bias] = [0, 1, 2, 3], [i, j, p, ap, bp, cp, left] = f.many(7, I32);
  const sums = f.many(rows * columns, F32), values = f.many(columns, F32);
  const [down, across] = transposed ? [BYTES, k * BYTES] : [n * BYTES, BYTES];
  const tile = (high, many) => {
    const each = (act) =>
      Array.from({ length: high }, (_, r) => Array.from({ length: many }, (_, v) => act(sums[r * columns + v], r, v)));
    return [
      each((sum) => set(sum, f32.const(0))),
      set(ap, get(left)),
      set(bp, i32.add(get(b), i32.mul(get(j), i32.const(across)))),
      set(cp, i32.add(get(c), i32.mul(get(j), i32.const(BYTES)))),
      count(p, 0, k, 1, [
        values.slice(0, many).map((value, v) => set(value, f32.load(get(bp), v * across))),
        each((sum, r, v) => set(sum, f32.add(get(sum), f32.mul(get(values[v]), f32.load(get(ap), r * k * BYTES))))),
        advance(ap, BYTES),
        advance(bp, down),
      ]),
      each((sum, r, v) => {
        const at = i32.add(get(bias), i32.mul(get(j), i32.const(BYTES)));
        const value = biased ? f32.add(get(sum), f32.load(at, v * BYTES)) : get(sum);
        return f32.store(get(cp), finish(f, value), (r * n + v) * BYTES);
      }),
    ];
  };
  const strip = (high) => [
    count(j, 0, n - (n % columns), columns, tile(high, columns)),
    n % columns ? [set(j, i32.const(n - (n % columns))), tile(high, n % columns)] : [],
    advance(left, high * k * BYTES),
    advance(c, high * n * BYTES),
  ];
  f.body = [
    set(left, get(a)),
    count(i, 0, Math.floor(m / rows), 1, strip(rows)),
    m % rows ? strip(m % rows) : [],
  ];
  return f;
};

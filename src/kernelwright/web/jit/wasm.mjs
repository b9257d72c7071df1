// WebAssembly modules from expressions. An expression is a nested array of bytes in the binary format's order:
// operands first, then the instruction. Source: WebAssembly Core Specification 2.0, section 5, and for `relaxed`
// the relaxed SIMD proposal, section Binary format.

export const I32 = 0x7f, F32 = 0x7d, V128 = 0x7b;
const NO_RESULT = 0x40, FUNCTION = 0x60, SIMD = 0xfd;

const unsigned = (value) => {
  const bytes = [];
  do {
    bytes.push((value & 127) | (value > 127 ? 128 : 0));
    value >>>= 7;
  } while (value);
  return bytes;
};

const signed = (value) => {
  const bytes = [];
  for (;;) {
    const byte = value & 127;
    value >>= 7;
    if ((value === 0 && !(byte & 64)) || (value === -1 && byte & 64)) return [...bytes, byte];
    bytes.push(byte | 128);
  }
};

const float = (value) => [...new Uint8Array(new Float32Array([value]).buffer)];
const at = (align, offset) => [align, unsigned(offset)];
const simd = (code) => [SIMD, unsigned(code)];
const unary = (...code) => (x) => [x, code];
const binary = (...code) => (x, y) => [x, y, code];

export const get = (local) => [0x20, unsigned(local)];
export const set = (local, value) => [value, 0x21, unsigned(local)];
export const call = (index, ...given) => [given, 0x10, unsigned(index)];

export const i32 = {
  const: (value) => [0x41, signed(value)],
  add: binary(0x6a), sub: binary(0x6b), mul: binary(0x6c), shl: binary(0x74), shr: binary(0x76), and: binary(0x71), or: binary(0x72), xor: binary(0x73),
  lt: binary(0x48), eq: binary(0x46), reinterpret: unary(0xbc), trunc: unary(0xfc, 0),
  load: (address, offset = 0) => [address, 0x28, at(2, offset)],
};

export const f32 = {
  const: (value) => [0x43, float(value)],
  load: (address, offset = 0) => [address, 0x2a, at(2, offset)],
  store: (address, value, offset = 0) => [address, value, 0x38, at(2, offset)],
  add: binary(0x92), sub: binary(0x93), mul: binary(0x94), div: binary(0x95), min: binary(0x96), max: binary(0x97),
  abs: unary(0x8b), neg: unary(0x8c), floor: unary(0x8e), nearest: unary(0x90), sqrt: unary(0x91),
  lt: binary(0x5d), ne: binary(0x5c), select: (condition, yes, no) => [yes, no, condition, 0x1b],
  fromBits: unary(0xbe), fromInt: unary(0xb2),
};

export const v128 = {
  load: (address, offset = 0) => [address, simd(0x00), at(2, offset)],
  splatted: (address, offset = 0) => [address, simd(0x09), at(2, offset)],
  loadFirst: (address, offset = 0) => [address, simd(0x5c), at(2, offset)],
  store: (address, value, offset = 0) => [address, value, simd(0x0b), at(2, offset)],
  loadLane: (address, value, lane, offset = 0) => [address, value, simd(0x56), at(2, offset), lane],
  storeLane: (address, value, lane, offset = 0) => [address, value, simd(0x5a), at(2, offset), lane],
  const: (value) => [simd(0x0c), [0, 0, 0, 0].map(() => float(value))],
  select: (mask, yes, no) => [yes, no, mask, simd(0x52)],
  and: binary(simd(0x4e)), or: binary(simd(0x50)), xor: binary(simd(0x51)),
  shuffle: (x, y, lanes) => [x, y, simd(0x0d), lanes.map((lane) => [0, 1, 2, 3].map((byte) => 4 * lane + byte))],
};

export const f32x4 = {
  splat: unary(simd(0x13)),
  lane: (x, lane) => [x, simd(0x1f), lane],
  add: binary(simd(0xe4)), sub: binary(simd(0xe5)), mul: binary(simd(0xe6)), div: binary(simd(0xe7)),
  min: binary(simd(0xe8)), max: binary(simd(0xe9)), least: binary(simd(0xea)), most: binary(simd(0xeb)),
  abs: unary(simd(0xe0)), neg: unary(simd(0xe1)), sqrt: unary(simd(0xe3)),
  floor: unary(simd(0x68)), nearest: unary(simd(0x6a)), lt: binary(simd(0x43)), ne: binary(simd(0x42)),
  fromInt: unary(simd(0xfa)), madd: (x, y, z) => [x, y, z, simd(0x105)],
};

export const i32x4 = {
  splat: unary(simd(0x11)),
  trunc: unary(simd(0xf8)), add: binary(simd(0xae)), shl: (x, bits) => [x, i32.const(bits), simd(0xab)],
  shr: (x, bits) => [x, i32.const(bits), simd(0xad)],
};

/** Repeat while `condition` holds after the body. */
const loop = (body, condition) => [0x03, NO_RESULT, body, condition, 0x0d, 0, 0x0b];

/** Count `local` from `first` below `last` by `step`, all known now; no code where there is nothing to count. */
export const count = (local, first, last, step, body) => {
  if (first >= last) return [];
  const next = set(local, i32.add(get(local), i32.const(step)));
  return [
    set(local, i32.const(first)),
    first + step >= last ? body : loop([body, next], i32.lt(get(local), i32.const(last))),
  ];
};

/** Move a local that holds an address by bytes. */
export const advance = (local, bytes) => (bytes ? set(local, i32.add(get(local), i32.const(bytes))) : []);

/** One function: its parameters, its locals as they are asked for, and its body. */
export class Func {
  constructor(params, result = null) {
    this.params = params;
    this.result = result;
    this.locals = [];
    this.body = [];
  }

  local(type) {
    this.locals.push(type);
    return this.params.length + this.locals.length - 1;
  }

  many(count, type) {
    return Array.from({ length: count }, () => this.local(type));
  }

  encoded() {
    const code = [unsigned(this.locals.length), this.locals.map((type) => [1, type]), this.body, 0x0b].flat(Infinity);
    return [unsigned(code.length), code];
  }
}

const section = (id, items) => {
  const content = [unsigned(items.length), items].flat(Infinity);
  return [id, unsigned(content.length), content];
};
const text = (name) => [unsigned(name.length), [...name].map((letter) => letter.charCodeAt(0))];

/** Encode functions as a module on an imported memory `env.memory`; `exported` names some of them by their index. */
export const encode = (functions, exported) =>
  Uint8Array.from([
    0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    section(1, functions.map((f) => [FUNCTION, unsigned(f.params.length), f.params, f.result ? [1, f.result] : 0])),
    section(2, [[text("env"), text("memory"), 0x02, 0x00, 1]]),
    section(3, functions.map((_, index) => unsigned(index))),
    section(7, Object.entries(exported).map(([name, index]) => [text(name), 0x00, unsigned(index)])),
    section(10, functions.map((f) => f.encoded())),
  ].flat(Infinity));

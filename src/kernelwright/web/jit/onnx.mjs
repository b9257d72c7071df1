// A small writer of ONNX models, so that onnxruntime-web can be timed on the same operators.
// Source: onnx.proto3 of ONNX 1.17, the numbers of the fields used.

const FLOAT = 1, INT = 2, STRING = 3, INTS = 7;
const FLOAT32 = 1, INT64 = 7;

const varint = (value) => {
  const bytes = [];
  let left = BigInt.asUintN(64, BigInt(value));
  do {
    bytes.push(Number(left & 127n) | (left > 127n ? 128 : 0));
    left >>= 7n;
  } while (left);
  return bytes;
};
const number = (field, value) => [...varint(field << 3), ...varint(value)];
const bytes = (field, content) => {
  const head = [...varint((field << 3) | 2), ...varint(content.length)];
  const all = new Uint8Array(head.length + content.length);
  all.set(head);
  all.set(content, head.length);
  return all;
};
const string = (field, value) => bytes(field, new TextEncoder().encode(value));
const join = (...parts) => {
  const all = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  parts.reduce((place, part) => (all.set(part, place), place + part.length), 0);
  return all;
};

const attribute = (name, value) => {
  const typed = (type, ...content) => join(string(1, name), ...content, number(20, type));
  if (typeof value === "string") return typed(STRING, string(4, value));
  if (Array.isArray(value)) return typed(INTS, ...value.map((one) => number(8, one)));
  if (value && typeof value === "object") return typed(FLOAT, float(2, value.float));
  return typed(INT, number(3, value));
};
const float = (field, value) => join(varint((field << 3) | 5), new Uint8Array(new Float32Array([value]).buffer));

const node = ({ op, inputs, outputs, attributes = {} }) =>
  bytes(1, join(
    ...inputs.map((name) => string(1, name)), ...outputs.map((name) => string(2, name)), string(4, op),
    ...Object.entries(attributes).map(([name, value]) => bytes(5, attribute(name, value))),
  ));

const tensor = (name, { shape, data }) => {
  const type = data instanceof BigInt64Array ? INT64 : FLOAT32;
  const raw = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return bytes(5, join(...shape.map((d) => number(1, d)), number(2, type), string(8, name), bytes(9, raw)));
};

const described = (field, name, shape) => {
  const dims = shape.map((d) => bytes(1, number(1, d)));
  return bytes(field, join(string(1, name), bytes(2, bytes(1, join(number(1, FLOAT32), bytes(2, join(...dims)))))));
};

/** Write a model: nodes in order, constants by name, shapes of inputs and outputs by name. */
export const model = ({ nodes, constants = {}, inputs, outputs }) => {
  const graph = join(
    ...nodes.map(node), string(2, "graph"),
    ...Object.entries(constants).map(([name, value]) => tensor(name, value)),
    ...Object.entries(inputs).map(([name, shape]) => described(11, name, shape)),
    ...Object.entries(outputs).map(([name, shape]) => described(12, name, shape)),
  );
  return join(number(1, 9), bytes(7, graph), bytes(8, number(2, 20)));
};

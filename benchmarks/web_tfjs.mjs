// The operators of tasks/web.py in TensorFlow.js, on its WebAssembly backend with one thread, as its users write them.
//
// Images lie as TensorFlow.js has them, channels last: their inputs are turned once, before any call is timed, and what a
// call gives is turned for the check alone.

const script = (source) => new Promise((done, failed) => {
  const element = Object.assign(document.createElement("script"), { src: source, onload: done, onerror: failed });
  document.head.append(element);
});

const gelu = (tf, x) => tf.mul(tf.mul(x, 0.5), tf.add(tf.erf(tf.mul(x, Math.SQRT1_2)), 1));

/** Each operator: the shapes of its inputs, what it computes, and whether its result is an image. */
const OPERATORS = {
  matmul: { shapes: [[256, 256], [256, 256]], of: (tf, a, b) => tf.matMul(a, b) },
  batched_matmul: { shapes: [[8, 96, 64], [8, 64, 128]], of: (tf, a, b) => tf.matMul(a, b) },
  linear_gelu: {
    shapes: [[64, 256], [512, 256], [512]],
    of: (tf, x, w, b) => gelu(tf, tf.add(tf.matMul(x, w, false, true), b)),
  },
  softmax: { shapes: [[256, 1024]], of: (tf, x) => tf.softmax(x) },
  log_softmax: { shapes: [[256, 1000]], of: (tf, x) => tf.logSoftmax(x) },
  layer_norm: {
    shapes: [[256, 768], [768], [768]],
    of: (tf, x, w, b) => {
      const { mean, variance } = tf.moments(x, -1, true);
      return tf.add(tf.mul(tf.mul(tf.sub(x, mean), tf.rsqrt(tf.add(variance, 1e-5))), w), b);
    },
  },
  rms_norm: {
    shapes: [[256, 768], [768]],
    of: (tf, x, w) => tf.mul(tf.mul(x, tf.rsqrt(tf.add(tf.mean(tf.square(x), -1, true), 1e-6))), w),
  },
  gelu: { shapes: [[256, 1024]], of: gelu },
  swiglu: { shapes: [[256, 1024], [256, 1024]], of: (tf, gate, up) => tf.mul(tf.mul(gate, tf.sigmoid(gate)), up) },
  bias_tanh_residual: {
    shapes: [[256, 1024], [256, 1024], [1024]],
    of: (tf, x, y, b) => tf.add(tf.mul(tf.tanh(tf.add(x, b)), 0.5), y),
  },
  row_mean: { shapes: [[512, 1024]], of: (tf, x) => tf.mean(x, -1) },
  conv3x3_relu: {
    shapes: [[1, 32, 56, 56], [32, 32, 3, 3], [32]], image: true,
    of: (tf, x, filter, bias) => tf.fused.conv2d({ x, filter, strides: 1, pad: 1, bias, activation: "relu" }),
  },
  conv1x1: {
    shapes: [[1, 64, 28, 28], [128, 64, 1, 1], [128]], image: true,
    of: (tf, x, filter, bias) => tf.fused.conv2d({ x, filter, strides: 1, pad: "valid", bias }),
  },
  depthwise_conv: {
    shapes: [[1, 64, 56, 56], [64, 1, 3, 3]], image: true, filter: [2, 3, 0, 1],
    of: (tf, x, filter) => tf.depthwiseConv2d(x, filter, 1, 1),
  },
  max_pool: { shapes: [[1, 64, 112, 112]], image: true, of: (tf, x) => tf.maxPool(x, 3, 2, 1) },
  average_pool: { shapes: [[1, 64, 56, 56]], image: true, of: (tf, x) => tf.avgPool(x, 2, 2, 0) },
  attention: {
    shapes: [[1, 4, 128, 64], [1, 4, 128, 64], [1, 4, 128, 64]],
    of: (tf, q, k, v) => tf.matMul(tf.softmax(tf.mul(tf.matMul(q, k, false, true), 0.125)), v),
  },
};

/** Return an operator of `task` ("matmul, ..."), called on the inputs, which are copied in and out at each call. */
export const open = async (place, task, inputs) => {
  const operator = OPERATORS[task.split(",")[0]];
  if (!operator) return null;
  await script(`${place}tf.min.js`);
  await script(`${place}tf-backend-wasm.min.js`);
  const { tf } = globalThis;
  tf.env().set("WASM_HAS_MULTITHREAD_SUPPORT", false);
  tf.wasm.setWasmPaths(place);
  if (!(await tf.setBackend("wasm"))) throw new Error("TensorFlow.js has no WebAssembly backend here");
  await tf.ready();
  const { shapes, of, image, filter = [2, 3, 1, 0] } = operator;
  const turned = (floats, shape, order) => tf.tidy(() => {
    const made = tf.transpose(tf.tensor(floats, shape), order);
    return { floats: made.dataSync().slice(), shape: made.shape };
  });
  const given = inputs.map(({ floats }, at) => {
    const shape = shapes[at];
    return image && shape.length === 4 ? turned(floats, shape, at ? filter : [0, 2, 3, 1]) : { floats, shape };
  });
  let last = [];
  const call = async () => {
    const result = tf.tidy(() => of(tf, ...given.map(({ floats, shape }) => tf.tensor(floats, shape, "float32"))));
    const floats = result.dataSync();
    last = result.shape;
    result.dispose();
    return [floats];
  };
  const floats = ([data]) => [image ? turned(data, last, [0, 3, 1, 2]).floats : data];
  return { name: "tfjs", version: tf.version.tfjs, call, floats };
};

// onnxruntime-web to compare the tuned kernels with, where the server has it: the same model, one thread, WebAssembly.

const PLACE = new URL("../onnxruntime/", import.meta.url).href;

/** Return what calls the model, or null where onnxruntime-web is not served. */
export const runtimeOf = async (plain, inputs) => {
  if (!(await fetch(`${PLACE}ort.wasm.min.mjs`, { method: "HEAD" })).ok) return null;
  const ort = await import(`${PLACE}ort.wasm.min.mjs`);
  Object.assign(ort.env.wasm, { numThreads: 1, wasmPaths: PLACE });
  const model = new Uint8Array(await (await fetch("model.onnx")).arrayBuffer());
  const options = { executionProviders: ["wasm"], graphOptimizationLevel: "all", logSeverityLevel: 3 };
  const session = await ort.InferenceSession.create(model, options);
  const shapes = Object.fromEntries(session.inputMetadata.map(({ name, shape }) => [name, shape]));
  const feeds = Object.fromEntries(inputs.map(([tensor, floats]) => {
    const { name } = plain.tensors[tensor];
    return [name, new ort.Tensor("float32", floats, shapes[name])];
  }));
  const call = async () => {
    const results = await session.run(feeds);
    return session.outputNames.map((name) => results[name].data);
  };
  return { name: "onnxruntime-web", call, version: ort.env.versions?.web ?? "" };
};

// WGSL variants, printed by the compiler ahead, on WebGPU: made, checked against the contract, timed; the fastest that
// is right serves. A software adapter's times say nothing about a GPU, so the report names the adapter.

import { worst } from "./program.mjs";

const WARM = 2, SAMPLE_MS = 8, SAMPLES = 5, MOST_CALLS = 256;

/** The adapter's device and what it is, or null where the browser has no WebGPU. */
export const openGpu = async () => {
  const adapter = await globalThis.navigator?.gpu?.requestAdapter();
  if (!adapter) return null;
  const limits = ["maxStorageBufferBindingSize", "maxBufferSize", "maxStorageBuffersPerShaderStage"];
  const requiredLimits = Object.fromEntries(limits.map((name) => [name, adapter.limits[name]]));
  const device = await adapter.requestDevice({ requiredLimits });
  const { vendor, architecture, description } = adapter.info;
  const software = adapter.info.isFallbackAdapter || architecture === "swiftshader" || /llvmpipe/.test(description);
  return { device, adapter: [vendor, architecture, description].filter(Boolean).join(" "), software };
};

export class Shader {
  /** `values` has the floats of a tensor by its name. Throws where the source does not compile. */
  static async make(device, plain, values) {
    device.pushErrorScope("validation");
    const made = new Shader(device, plain, values);
    await made.prepare();
    const error = await device.popErrorScope();
    if (error) throw new Error(error.message);
    return made;
  }

  constructor(device, plain, values) {
    this.device = device;
    this.plain = plain;
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    this.buffers = Object.fromEntries(plain.buffers.map(({ name, elements }) =>
      [name, device.createBuffer({ size: 4 * Math.max(1, elements), usage })]));
    this.fill(values);
  }

  /** Write tensors that the buffers take, by their name. */
  fill(values) {
    for (const { name, tensor } of this.plain.buffers)
      if (values[tensor]) this.device.queue.writeBuffer(this.buffers[name], 0, values[tensor]);
  }

  async prepare() {
    const module = this.device.createShaderModule({ code: this.plain.source });
    this.launches = await Promise.all(this.plain.launches.map(async ({ kernel, groups, constants, bindings }) => {
      const compute = { module, entryPoint: kernel, constants };
      const pipeline = await this.device.createComputePipelineAsync({ layout: "auto", compute });
      const entries = Object.entries(bindings).map(([name, binding]) => ({ binding, resource: { buffer: this.buffers[name] } }));
      return { pipeline, groups, group: this.device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }) };
    }));
  }

  /** Run it some times and wait until the device is done. */
  async run(calls = 1) {
    const encoder = this.device.createCommandEncoder();
    for (let call = 0; call < calls; call++)
      for (const { pipeline, groups, group } of this.launches) {
        const pass = encoder.beginComputePass();
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, group);
        pass.dispatchWorkgroups(...groups);
        pass.end();
      }
    this.device.queue.submit([encoder.finish()]);
    await this.device.queue.onSubmittedWorkDone();
  }

  /** Run once on outputs that hold NaN and read them back. */
  async answers() {
    for (const name of this.plain.outputs) {
      const floats = new Float32Array(this.buffers[name].size / 4).fill(NaN);
      this.device.queue.writeBuffer(this.buffers[name], 0, floats);
    }
    await this.run();
    return Promise.all(this.plain.outputs.map((name) => this.read(this.buffers[name])));
  }

  async read(buffer) {
    const staging = this.device.createBuffer({ size: buffer.size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    const encoder = this.device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, 0, staging, 0, buffer.size);
    this.device.queue.submit([encoder.finish()]);
    await staging.mapAsync(GPUMapMode.READ);
    const floats = new Float32Array(staging.getMappedRange()).slice();
    staging.destroy();
    return floats;
  }

  destroy() {
    for (const buffer of Object.values(this.buffers)) buffer.destroy();
  }
}

const timed = async (shader, clock) => {
  const sample = async (calls) => {
    const begun = clock.now();
    await shader.run(calls);
    return clock.now() - begun;
  };
  for (let i = 0; i < WARM; i++) await sample(1);
  const calls = Math.min(MOST_CALLS, Math.max(1, Math.round(SAMPLE_MS / (await sample(1)))));
  let best = Infinity;
  for (let i = 0; i < SAMPLES; i++) best = Math.min(best, (await sample(calls)) / calls);
  return best * 1e3;
};

/** Try variants until the budget is spent; returns the report and the shader that serves, if one is right. */
export const tuneGpu = async ({ gpu, shaders, values, expected, budget_s, clock = performance }) => {
  const begun = clock.now(), wrong = [], broken = [];
  let best = null, tried = 0;
  for (const plain of shaders) {
    if (best && clock.now() - begun > 1e3 * budget_s) break;
    const named = { name: plain.name, config: plain.config };
    let shader;
    try {
      shader = await Shader.make(gpu.device, plain, values);
    } catch (error) {
      broken.push({ ...named, message: error.message });
      continue;
    }
    tried += 1;
    const error = worst(await shader.answers(), expected);
    if (!(error <= 1)) wrong.push({ ...named, error });
    const us = error <= 1 ? await timed(shader, clock) : Infinity;
    if (us < (best?.us ?? Infinity)) {
      best?.shader.destroy();
      best = { ...named, us, error, shader };
    } else shader.destroy();
  }
  const { shader = null, ...told } = best ?? {};
  const seconds = (clock.now() - begun) / 1e3;
  const report = { adapter: gpu.adapter, software: gpu.software, space: shaders.length, tried, wrong, broken, seconds };
  return { report: { ...report, best: shader && told }, shader };
};

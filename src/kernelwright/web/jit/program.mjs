// A program in one memory: tensors at their addresses, and for each step the variant that serves it.

import { KINDS, built } from "./operators.mjs";

const PAGE = 65536, SLACK = 64, ALIGNED = 64;

export class Program {
  /** `values` has the floats of a tensor by its number: inputs, state and constants. */
  constructor(plain, values) {
    this.tensors = plain.tensors;
    this.steps = plain.steps;
    this.outputs = plain.outputs;
    this.memory = new WebAssembly.Memory({ initial: 1 });
    this.end = 1024;
    this.addresses = this.tensors.map(({ elements }) => this.allocate(elements * 4));
    this.served = [];
    values.forEach((floats, tensor) => floats && this.floats(tensor).set(floats));
  }

  allocate(bytes) {
    const address = this.end;
    this.end = Math.ceil((address + bytes + SLACK) / ALIGNED) * ALIGNED;
    const missing = Math.ceil((this.end + PAGE - this.memory.buffer.byteLength) / PAGE);
    if (missing > 0) this.memory.grow(missing);
    return address;
  }

  floats(tensor) {
    return new Float32Array(this.memory.buffer, this.addresses[tensor], this.tensors[tensor].elements);
  }

  /** Make one variant of a step and return what runs it; the scratch is its own. */
  async variant(step, config) {
    const { bytes, scratch, start } = built(step, config);
    const { instance } = await WebAssembly.instantiate(bytes, { env: { memory: this.memory } });
    const at = scratch ? this.allocate(scratch) : 0;
    const place = (tensors) => tensors.map((tensor) => this.addresses[tensor]);
    const where = { inputs: place(step.inputs), outputs: place(step.outputs) };
    return { config, size: bytes.length, run: start(instance.exports, where, at, this.memory) };
  }

  /** Serve every step by its scalar build. */
  async serveScalar() {
    this.scalar = await Promise.all(this.steps.map((step) => this.variant(step, KINDS[step.kind].scalar(step))));
    this.served = [...this.scalar];
  }

  run(variants = this.served) {
    for (const variant of variants) variant.run();
  }

  /** Forget what steps wrote, so that what is left out shows. */
  poison() {
    this.tensors.forEach(({ role }, tensor) => role === "between" || role === "output" ? this.floats(tensor).fill(NaN) : 0);
  }

  /** Call it as a user would: inputs in, copies of the outputs back. */
  call(inputs, variants = this.served) {
    for (const [tensor, floats] of inputs) this.floats(tensor).set(floats);
    this.run(variants);
    return this.outputs.map((tensor) => this.floats(tensor).slice());
  }
}

/** How far outputs are from what is expected, in units of what is allowed: at most 1 where they are right. */
export const worst = (outputs, expected) => {
  let most = 0;
  outputs.forEach((values, index) => {
    const { truth, allowed } = expected[index];
    for (let i = 0; i < truth.length; i++) {
      if (Object.is(values[i], truth[i]) || values[i] === truth[i]) continue;
      const off = Math.abs(values[i] - truth[i]) / allowed[i];
      if (!(off <= most)) most = Number.isNaN(off) ? Infinity : off;
    }
  });
  return most;
};

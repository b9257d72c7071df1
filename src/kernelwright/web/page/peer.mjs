// Another library to compare the tuned kernels with, where the server has one: a module that opens it by the task's name.

const PLACE = new URL("../peer/", import.meta.url).href;

/** Return what calls the library on these inputs, or null where none is served or it has no form of the task. */
export const peerOf = async (task, inputs) => {
  if (!(await fetch(`${PLACE}peer.mjs`, { method: "HEAD" })).ok) return null;
  const { open } = await import(`${PLACE}peer.mjs`);
  const { tensors } = task.program;
  return open(PLACE, task.name, inputs.map(([tensor, floats]) => ({ name: tensors[tensor].name, floats })));
};

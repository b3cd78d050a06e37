// Tensors decoded by several workers. Each gets the parts of the file that it needs, so that no memory is shared and
// the page needs no cross-origin isolation.

const WORTH = 1 << 22;  // bytes of tensors below which workers cost more than they save

/** The tensors of each worker. Tensors of one stream belong together: it is decoded once. */
function shares(decoder, file, dtype, asked) {
  const cores = globalThis.navigator?.hardwareConcurrency ?? 2;
  const count = asked ?? Math.min(8, cores), groups = new Map();
  let total = 0;
  for (const tensor of file.tensors.values()) {
    const ranges = decoder.ranges(tensor.index);
    const key = ranges.length ? Math.max(...ranges.map(([offset]) => offset)) : "none";
    const group = groups.get(key) ?? { bytes: 0, tensors: [], ranges: [] };
    group.bytes += tensor.bytes;
    group.tensors.push([tensor.name, dtypeFor(tensor, dtype)]);
    group.ranges.push(...ranges);
    groups.set(key, group);
    total += tensor.bytes;
  }
  if (count < 2 || groups.size < 2 || total < WORTH) return [];
  const parts = Array.from({ length: Math.min(count, groups.size) }, () => ({ bytes: 0, tensors: [], ranges: [] }));
  for (const group of [...groups.values()].sort((a, b) => b.bytes - a.bytes)) {
    const least = parts.reduce((a, b) => (b.bytes < a.bytes ? b : a));
    least.bytes += group.bytes;
    least.tensors.push(...group.tensors);
    least.ranges.push(...group.ranges);
  }
  return parts;
}

const inNode = () => typeof globalThis.process === "object" && !!globalThis.process.versions?.node;
const nodeThreads = () => import(/* webpackIgnore: true */ "node:worker_threads");

async function startWorker(answer) {
  const url = new URL(import.meta.url);
  if (inNode()) {
    const { Worker } = await nodeThreads();
    const worker = new Worker(url, { workerData: "gbz" });
    worker.on("message", answer);
    worker.on("error", (error) => answer({ broken: error.message }));
    return worker;
  }
  const worker = new Worker(url, { type: "module", name: "gbz" });
  worker.onmessage = ({ data }) => answer(data);
  worker.onerror = (event) => answer({ broken: event.message ?? "it does not load" });
  return worker;
}

/** @return undefined where the page may not start workers */
async function runPart(part, decoder, file, dtype, found) {
  const header = prelude(decoder.bytes(decoder.at, Math.min(64, file.size))).header;
  const pieces = without([[0, header], ...part.ranges], []).map(([from, to]) => [from, decoder.bytes(decoder.at + from, to - from).slice()]);
  let worker;
  try {
    return await new Promise((resolve, reject) => {
      const answer = (message) => {
        if (message.broken !== undefined) resolve(false);
        else if (message.ready) worker.postMessage({ size: file.size, pieces, tensors: part.tensors }, pieces.map(([, bytes]) => bytes.buffer));
        else if (message.status) reject(new GbzError(message.status, message.text));
        else if (message.name === undefined) resolve(true);
        else found.set(message.name, message.values);
      };
      startWorker(answer).then((started) => {
        worker = started;
      }, () => resolve(false));
    });
  } finally {
    worker?.terminate();
  }
}

async function inWorkers(parts, decoder, file, dtype) {
  const found = new Map();
  await Promise.all(parts.map((part) => runPart(part, decoder, file, dtype, found)));
  return found;  // what is not there, the caller decodes itself
}

/** In a worker: decodes what it is given and ends. */
async function serve(port, message) {
  try {
    const { size, pieces, tensors } = message, decoder = new Decoder(size);
    for (const [offset, bytes] of pieces) decoder.put(offset, bytes);
    await decoder.withParts(() => decoder.open(true, {}));
    const known = new Map(decoder.tensors().map((tensor) => [tensor.name, tensor]));
    for (const [name, dtype] of tensors) {
      const values = await decoder.readWithParts(known.get(name), dtype);
      port.postMessage({ name, values }, [values.buffer]);
    }
    port.postMessage({});
  } catch (error) {
    port.postMessage({ status: error.status ?? "failure", text: error.message });
  }
}

if (inNode()) {
  const { parentPort, workerData } = await nodeThreads();
  if (workerData === "gbz") parentPort.on("message", (message) => serve(parentPort, message)).postMessage({ ready: true });
} else if (globalThis.name === "gbz" && typeof WorkerGlobalScope === "function") {
  globalThis.onmessage = ({ data }) => serve(globalThis, data);
  globalThis.postMessage({ ready: true });  // what came before the module was compiled would be lost
}

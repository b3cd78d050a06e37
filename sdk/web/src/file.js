// An open file: names, types and shapes at once, tensors when they are requested.

const view = (bytes) =>
  bytes instanceof ArrayBuffer || (globalThis.SharedArrayBuffer && bytes instanceof SharedArrayBuffer)
    ? new Uint8Array(bytes)
    : ArrayBuffer.isView(bytes)
      ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      : refuse("usage", "a file is given as an ArrayBuffer, a typed array, a Blob or a URL");

/** The file's size and how many of its first bytes are its header; undefined where `bytes` does not say that. */
function prelude(bytes) {
  if (new TextDecoder().decode(bytes.subarray(0, 4)) !== "GBZ2") return undefined;
  const numbers = [], ends = [];
  for (let at = 4; numbers.length < 2; ends.push(at)) {
    let number = 0;
    for (let shift = 0; ; ++shift) {
      if (at >= bytes.length || shift > 7) return undefined;
      number += (bytes[at] & 127) * 128 ** shift;
      if (bytes[at++] < 128) break;
    }
    numbers.push(number);
  }
  // The third number has as many bytes as it needs: at most nine.
  return { size: ends[0] + numbers[0], header: Math.min(ends[0] + numbers[0], ends[1] + 9 + numbers[1]) };
}

/** What a model's file has beside its tensors, which is no tensor of the model. */
const holdsContainer = ({name, dtype, kind}) =>
    name === 'gbz.container' && dtype === 'U8' && ['exact', 'base'].includes(kind);
/** Whether a container is that of one file of ONNX: its version, a text, the number of files. */
const holdsModel = (bytes) => [1, 2].includes(bytes[0]) &&
    new TextDecoder().decode(bytes.subarray(1, 7)) === '\x04onnx\x01';

export class GbzFile {
  #decoder;
  #spoiled = false;
  #busy = Promise.resolve();
  #source;

  /** Not for callers: see opened(). @param source  fetches what is not there yet, or undefined */
  constructor(decoder, source) {
    this.#decoder = decoder;
    this.#source = source;
    this.size = decoder.opening[2];
    Object.assign(this, decoder.about());
    this.baseDigests = decoder.baseDigests();
    this.layer = decoder.layer;
    const tensors = decoder.tensors();
    this.hasModel = tensors.some(
        (tensor) => holdsContainer(tensor) && !(this.baseDigests.length && tensor.kind === 'base') &&
            holdsModel(decoder.read(tensor, 'U8')));
    this.tensors = new Map(tensors.filter((tensor) => !holdsContainer(tensor))
                               .map((tensor) => [tensor.name, Object.freeze(tensor)]));
  }

  #open() {
    if (this.#spoiled) refuse("usage", "an earlier error ended the decoding of this file; open it again");
    return this.#decoder ?? refuse("usage", "the file is closed; open it again");
  }
  #tensor(name) {
    return this.tensors.get(name) ?? refuse("usage", `the file has no tensor ${name}`);
  }

  /** Requests of several calls follow one another. */
  #load(ranges) {
    const done = this.#busy.then(async () => {
      const decoder = this.#open();
      await this.#source?.load(ranges(decoder), (offset, bytes) => this.#open().put(offset, bytes));
    });
    this.#busy = done.catch(() => {});
    return done;
  }

  /** What is wrong ends the decoding of the file, but for errors of the call. */
  async #use(body) {
    const decoder = this.#open();
    try {
      return await body(decoder);
    } catch (error) {
      if (error instanceof GbzError && ["usage", "unsupported"].includes(error.status)) throw error;
      this.#spoiled = true;  // the decoder is left in the middle of its work
      this.#decoder = undefined;
      throw error;
    }
  }

  /** One tensor; of real ones also as dtype "F32", "F16" or "BF16". */
  async read(name, { dtype } = {}) {
    this.#open();
    const tensor = this.#tensor(name);
    await this.#load((decoder) => decoder.ranges(tensor.index));
    return this.#use((decoder) => decoder.readWithParts(tensor, dtypeFor(tensor, dtype)));
  }

  /** All tensors, by `workers` at a time (default: as many as there are processors, at most 8). */
  async readAll({ dtype, workers } = {}) {
    await this.#load(() => [[0, this.size]]);
    await this.#verify();
    const parts = this.baseDigests.length || this.layer === 'exact' ?
        [] :
        await this.#use((decoder) => shares(decoder, this, dtype, workers));
    const found = parts.length > 1 ? await inWorkers(parts, this.#open(), this, dtype) : undefined;
    const values = new Map();
    for (const name of this.tensors.keys()) values.set(name, found?.get(name) ?? await this.read(name, { dtype }));
    return values;
  }

  /** The ONNX model that the file was made of. */
  onnx() {
    return this.#model((decoder) => decoder.onnx());
  }
  /** That model without its large initializers, and these as files of external data. */
  onnxParts() {
    return this.#model((decoder) => decoder.onnxParts());
  }
  async #model(body) {
    await this.#load(() => [[0, this.size]]);
    await this.#verify();
    return this.#use(async (decoder) => {
      await decoder.addParts();
      return body(decoder);
    });
  }

  /** Compares the digest of a file that came in parts. */
  async #verify() {
    if (this.identity) return;
    const options = this.#source?.options ?? {};
    this.identity = await this.#use(
        (decoder) => decoder.withParts(() => decoder.identify(options, this.size)));
  }

  /** Gives a delta its base: an open file, or tensors of {name, dtype, shape, data}. */
  async setBase(base) {
    this.#open();
    const tensors = base instanceof GbzFile
      ? Array.from(await base.readAll(), ([name, data]) => ({ ...base.tensors.get(name), data }))
      : Array.from(base);
    await this.#use(async (decoder) => {
      await decoder.addParts();
      decoder.setBase(tensors);
    });
  }

  /** Gives the memory back. Tensors that were read stay. */
  close() {
    this.#decoder = undefined;
    this.#source?.close();
  }
  [Symbol.dispose ?? Symbol.for("Symbol.dispose")]() {
    this.close();
  }
}

/** Opens what a decoder holds. @param load  of [offset, end] parts that are not there, or undefined */
async function opened(decoder, load, partial, options, end) {
  await decoder.withParts(() => decoder.open(partial, options, end));
  const container = decoder.tensors().filter(holdsContainer);
  await load?.(container.flatMap(({index}) => decoder.ranges(index)));
  if (container.length) await decoder.addParts();
  return decoder;
}

/** @param bytes  the whole file */
async function openBytes(bytes, options = {}) {
  const given = view(bytes), decoder = new Decoder(given.length);
  decoder.put(0, given);
  return new GbzFile(await opened(decoder, undefined, false, options));
}

async function withFile(bytes, body, options) {
  const file = await openBytes(bytes, options);
  try {
    return await body(file);
  } finally {
    file.close();
  }
}

/** All tensors of a file in memory, by name. */
export const decode = (bytes, options = {}) => withFile(bytes, (file) => file.readAll({ workers: 1, ...options }), options);

/** The ONNX model that a file in memory was made of: what InferenceSession.create() takes. */
export const decodeOnnx = (bytes, options = {}) => withFile(bytes, (file) => file.onnx(), options);

/** That model as InferenceSession.create(model, { externalData }) takes it. */
export const decodeOnnxParts = (bytes, options = {}) => withFile(bytes, (file) => file.onnxParts(), options);

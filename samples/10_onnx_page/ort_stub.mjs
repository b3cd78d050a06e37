// A stub of onnxruntime-web for tests: InferenceSession.create() and run() with the operators Gemm, MatMul, Add and Relu, in plain
// JavaScript. It reads weights from the model and from `externalData` as the runtime does. Use onnxruntime-web in applications.

export const description = "a stub of onnxruntime-web, for tests alone";

export class Tensor {
  constructor(type, data, dims) {
    Object.assign(this, { type, data, dims });
  }
}

/** Fields of a protobuf message: [number, integer or bytes]. */
function fields(bytes) {
  const found = [], view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const number = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(BigInt.asIntN(64, value));
    }
  };
  while (at < bytes.length) {
    const key = number(), wire = key & 7;
    if (wire === 0) found.push([key >> 3, number()]);
    else if (wire === 5) found.push([key >> 3, view.getFloat32((at += 4) - 4, true)]);
    else if (wire === 2) {
      const size = number();
      found.push([key >> 3, bytes.subarray(at, (at += size))]);
    } else throw new Error(`a field of wire type ${wire}`);
  }
  return found;
}
const all = (message, field) => message.filter(([number]) => number === field).map(([, value]) => value);
const last = (message, field) => all(message, field).at(-1);
const text = (bytes) => new TextDecoder().decode(bytes ?? new Uint8Array());

/** An initializer: {dims, data}. */
function initializer(bytes, files) {
  const message = fields(bytes), name = text(last(message, 8)), dims = all(message, 1);
  const wide = { 1: Float32Array, 7: BigInt64Array }[last(message, 2)];
  if (!wide) throw new Error(`${name}: the stub has no tensors of type ${last(message, 2)}`);
  let raw = last(message, 9);
  if (last(message, 14) === 1) {
    const told = Object.fromEntries(all(message, 13).map((entry) => [text(last(fields(entry), 1)), text(last(fields(entry), 2))]));
    const file = files.get(told.location);
    if (!file) throw new Error(`Failed to load external data file "${told.location}"`);
    raw = file.subarray(Number(told.offset ?? 0), Number(told.offset ?? 0) + Number(told.length));
  }
  return [name, { dims, data: new wide(raw.slice().buffer) }];
}

function matmul(a, b, turned) {
  const [rows, inner] = a.dims, columns = turned ? b.dims[0] : b.dims[1], data = new Float32Array(rows * columns);
  const [down, right] = turned ? [1, inner] : [columns, 1];
  for (let i = 0; i < rows; ++i)
    for (let j = 0; j < columns; ++j) {
      let sum = 0;
      for (let k = 0; k < inner; ++k) sum += a.data[i * inner + k] * b.data[k * down + j * right];
      data[i * columns + j] = sum;
    }
  return { dims: [rows, columns], data };
}
/** The second one is repeated. */
const add = (a, b) => ({ dims: a.dims, data: a.data.map((value, i) => value + b.data[i % b.data.length]) });
const OPERATORS = {
  MatMul: ([a, b]) => matmul(a, b, false),
  Gemm: ([a, b, c], { transB }) => (c ? add(matmul(a, b, transB === 1), c) : matmul(a, b, transB === 1)),
  Add: ([a, b]) => add(a, b),
  Relu: ([a]) => ({ dims: a.dims, data: a.data.map((value) => Math.max(0, value)) }),
};

export class InferenceSession {
  /** @param model  bytes. @param options.externalData  [{path, data}] */
  static async create(model, { externalData = [] } = {}) {
    const session = new InferenceSession(), graph = fields(last(fields(model), 7));
    const files = new Map(externalData.map(({ path, data }) => [path, data]));
    session.constants = new Map(all(graph, 5).map((bytes) => initializer(bytes, files)));
    session.nodes = all(graph, 1).map(fields);
    session.inputNames = all(graph, 11).map((bytes) => text(last(fields(bytes), 1)));
    session.outputNames = all(graph, 12).map((bytes) => text(last(fields(bytes), 1)));
    return session;
  }

  async run(feeds) {
    const values = new Map([...this.constants, ...Object.entries(feeds)]);
    for (const node of this.nodes) {
      const kind = text(last(node, 4)), inputs = all(node, 1).map((name) => values.get(text(name)));
      const attributes = Object.fromEntries(all(node, 5).map(fields).map((each) => [text(last(each, 1)), last(each, 3)]));
      if (!OPERATORS[kind]) throw new Error(`the stub has no operator ${kind}`);
      values.set(text(last(node, 2)), OPERATORS[kind](inputs, attributes));
    }
    return Object.fromEntries(this.outputNames.map((name) => [name, new Tensor("float32", values.get(name).data, values.get(name).dims)]));
  }
}

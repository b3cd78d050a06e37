// One WebAssembly instance for one file: its memory goes with it.

export class GbzError extends Error {
  constructor(status, message) {
    super(message);
    this.name = "GbzError";
    this.status = status;
  }
}

const STATUSES = { 2: "usage", 6: "truncated", 7: "corrupt", 8: "unsupported", 9: "limit", 10: "shape_mismatch", 100: "memory" };
const KINDS =
    ['generated', 'exact', 'tied', 'quantized', 'predicted', 'constant', 'base', 'change', 'pieces',
     'blocks'];
const DTYPES = ["BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "BF16", "F32", "F64", "C64", "F8_E5M2",
  "F8_E4M3", "F8_E5M2FNUZ", "F8_E4M3FNUZ", "F8_E8M0", "F6_E2M3", "F6_E3M2", "F4"];
const ARRAYS = { I8: Int8Array, U16: Uint16Array, I16: Int16Array, U32: Uint32Array, I32: Int32Array, U64: BigUint64Array,
  I64: BigInt64Array, F16: Uint16Array, BF16: Uint16Array, F32: Float32Array, F64: Float64Array, C64: Float32Array };
const REAL = ["F16", "BF16", "F32", "F64"];
// Bytes of an ONNX model's initializer from which on it is a file of its own; ONNX Runtime reads small ones, such as shapes, in the graph.
const LARGE = 4096n;
const ADDRESSABLE = 2 ** 32 - 2 ** 20;

const refuse = (status, message) => {
  throw new GbzError(status, message);
};
const dtypeNumber = (name) => {
  const number = DTYPES.indexOf(name);
  return number >= 0 ? number : refuse("usage", `there is no element type ${name}; use one of ${DTYPES.join(", ")}`);
};
/** The type that a tensor is read in: the requested one for real tensors, else its own. */
const dtypeFor = (tensor, asked) => (asked && REAL.includes(tensor.dtype) ? asked : tensor.dtype);

class Decoder {
  /** With memory for a file of `size` bytes. */
  constructor(size) {
    this.start(compiled, size);
  }

  start(module, size) {
    const fail = (status, text, size) => refuse(STATUSES[status] ?? "failure", this.text(text, size));
    const sha256 = (at, size, to) => {
      if (!crypto) return 0;
      this.bytes(to >>> 0, 32).set(crypto.createHash("sha256").update(this.bytes(at >>> 0, size >>> 0)).digest());
      return 1;
    };
    try {
      this.c = new WebAssembly.Instance(module, {gbz: {fail, sha256}}).exports;
    } catch (error) {
      refuse('memory', `memory for a decoder is not there: ${error.message}; close other files`);
    }
    this.c.__wasm_call_ctors();
    this.work = this.allocate(1024);  // an error of 512 bytes, then what a call takes or gives
    this.file = 0;
    this.base = [];  // memory of the tensors of a delta's base
    this.size = size;
    this.at = this.allocate(size || 1);
  }

  /**
   * Runs what the first module may not do, then again with all parts: some files need them, and
   * the sentences of errors are there.
   */
  async withParts(body) {
    try {
      return body();
    } catch (error) {
      if (error.status !== "unsupported" || this.hasAllParts) throw error;
    }
    await this.addParts();
    return body();
  }
  get hasAllParts() {
    return "gbz_onnx" in this.c;
  }
  /** The file goes to a decoder with all parts. */
  async addParts() {
    const module = await allParts();
    if (this.hasAllParts) return;  // another call was first
    const bytes = this.bytes(this.at, this.size), opened = this.file !== 0;
    this.start(module, this.size);
    this.bytes(this.at, this.size).set(bytes);
    if (opened) this.open(...this.opening);
  }

  get view() {
    return new DataView(this.c.memory.buffer);
  }
  bytes(at, size) {
    return new Uint8Array(this.c.memory.buffer, at, size);
  }
  text(pointer, size) {
    const at = pointer >>> 0,
          end = size ?? this.bytes(0).indexOf(0, at) - at;  // pointers come with a sign
    return new TextDecoder().decode(this.bytes(at, end)).replaceAll("gbz_set_base()", "setBase()");
  }

  allocate(size) {
    const at = size <= ADDRESSABLE ? this.c.malloc(Number(size)) >>> 0 : 0;
    return at || refuse("memory", `${size} bytes of memory are not there; WebAssembly has 4 GiB for a file and one tensor`);
  }
  free(at) {
    this.c.free(at);
  }
  /** body(at) with memory that goes at its end. */
  lend(size, body) {
    const at = this.allocate(size);
    try {
      return body(at);
    } finally {
      this.free(at);
    }
  }

  /** Runs what calls the decoder; the stack is as before where that throws. */
  guard(body) {
    const top = this.c.__stack_pointer.value;
    try {
      return body();
    } catch (error) {
      this.c.__stack_pointer.value = top;
      if (error instanceof WebAssembly.RuntimeError) refuse("corrupt", `the file ended the decoder: ${error.message}`);
      throw error;
    }
  }
  check(status) {
    if (status !== 0) refuse(STATUSES[status] ?? "failure", this.text(this.work + 4));
  }

  /**
   * @param partial  the digest is not compared, and layers end with their draft
   * @param end      of the file
   */
  open(partial, options, end = this.size) {
    this.opening = [partial, options, end];
    const view = this.view, to = this.work + 512;
    this.bytes(to, 48).fill(0);
    view.setBigUint64(to + 16, BigInt(options.memoryBytes ?? 0), true);
    view.setBigUint64(to + 24, BigInt(options.outputBytes ?? 0), true);
    view.setInt32(to + 32, partial ? 1 : 0, true);
    view.setInt32(to + 36, options.draft ? 1 : 0, true);
    try {
      this.guard(() => this.check(this.c.gbz_open(this.at, end, to, to + 40, this.work)));
    } catch (error) {
      // What is wrong with a specification is told as of any specification; that of a file is not the caller's.
      if (error.status === "usage" || error.status === "shape_mismatch") error.status = "corrupt";
      throw error;
    }
    this.file = this.view.getUint32(to + 40, true);
    this.layer = [undefined, 'exact', 'draft'][this.c.gbz_layer_of(this.file)];
  }

  /** Compares the digest; what is open stays open. @return the identity */
  identify(options, end) {
    const {file, opening} = this;
    try {
      this.open(false, options, end);
      const {identity} = this.about();
      this.c.gbz_close(this.file);
      return identity;
    } finally {
      Object.assign(this, {file, opening});
    }
  }

  about() {
    const {c, file} = this;
    return {
      identity: this.text(c.gbz_identity(file)),
      architecture: this.text(c.gbz_architecture(file)),
      settings: this.text(c.gbz_settings(file))
    };
  }

  tensors() {
    const tensors = [], rank = this.work + 512;
    for (let index = 0; index < this.c.gbz_count(this.file); ++index) {
      const sides = this.c.gbz_shape(this.file, index, rank) >>> 0, view = this.view;
      const shape = Array.from({ length: view.getUint32(rank, true) }, (_, i) => Number(view.getBigInt64(sides + 8 * i, true)));
      const dtype = this.c.gbz_type(this.file, index);
      tensors.push({ name: this.text(this.c.gbz_name(this.file, index)), index, dtype: DTYPES[dtype], shape,
        kind: KINDS[this.c.gbz_kind_of(this.file, index)], bits: this.c.gbz_bits(this.file, index),
        bytes: Number(BigInt.asUintN(64, this.c.gbz_bytes(this.file, index, dtype))) });
    }
    return tensors;
  }

  /** Parts of the file that a tensor needs: [offset, end]. */
  ranges(index) {
    return this.guard(() => {
      const count = this.c.gbz_ranges(this.file, index, 0, 0);
      if (count === 0) return [];
      return this.lend(16 * count, (at) => {
        const ranges = [];
        this.c.gbz_ranges(this.file, index, at, count);
        for (let i = 0, view = this.view; i < count; ++i) {
          const offset = Number(view.getBigUint64(at + 16 * i, true));
          ranges.push([offset, offset + Number(view.getBigUint64(at + 16 * i + 8, true))]);
        }
        return ranges;
      });
    });
  }

  /** @return a typed array in memory of its own */
  read(tensor, dtype) {
    return this.guard(() => {
      const number = dtypeNumber(dtype);
      const size = BigInt.asUintN(64, this.c.gbz_bytes(this.file, tensor.index, number));
      if (size === 0n && tensor.bytes > 0)
        refuse("usage", `${tensor.name} is of type ${tensor.dtype}, which is not read as ${dtype}; request its own type`);
      const length = Number(size), type = ARRAYS[dtype] ?? Uint8Array;
      return this.lend(size > 0n ? size : 1n, (out) => {
        this.check(this.c.gbz_read(this.file, tensor.index, number, out, length, this.work));
        return new type(this.copy(out, length).buffer);
      });
    });
  }
  copy(at, size) {
    try {
      return this.bytes(at, size).slice();
    } catch {
      return refuse("memory", `${size} bytes of memory are not there; close other files, or read single tensors`);
    }
  }

  /** @return a typed array in memory of its own */
  readWithParts(tensor, dtype) {
    return this.withParts(() => this.read(tensor, dtype));
  }

  /** @param decode  writes as many bytes there. @return them in memory of their own. Errors begin with the name. */
  taken(name, size, decode) {
    try {
      return this.lend(size || 1, (out) => {
        this.check(decode(out, size, this.work));
        return this.copy(out, size);
      });
    } catch (error) {
      error.message = `${name}: ${error.message}`;
      throw error;
    }
  }
  onnx() {
    return this.guard(() => {
      const to = this.work + 512;
      this.check(this.c.gbz_onnx_bytes(this.file, to, this.work));
      const size = Number(this.view.getBigUint64(to, true));
      if (size === 0) refuse("usage", "the file was not made of an ONNX model; read its tensors");
      return this.taken("the model", size, (...out) => this.c.gbz_onnx(this.file, ...out));
    });
  }
  /** The model, and its large initializers as files of external data. */
  onnxParts() {
    return this.guard(() => {
      const {c, file} = this, to = this.work + 512;
      this.check(c.gbz_onnx_split(file, LARGE, to, to + 8, this.work));
      const length = this.view.getUint32(to, true), size = Number(this.view.getBigUint64(to + 8, true));
      const externalData = Array.from({length}, (_, i) => {
        const {view} = this, told = c.gbz_onnx_initializer(file, i) >>> 0, name = (at) => this.text(view.getUint32(told + at, true));
        const bytes = Number(view.getBigUint64(told + 16, true));
        return {path: name(4), data: this.taken(name(0), bytes, (...out) => c.gbz_onnx_read(file, i, ...out))};
      });
      return {model: this.taken("the graph", size, (...out) => c.gbz_onnx_graph(file, ...out)), externalData};
    });
  }

  /** Puts a part of the file to its place. */
  put(offset, bytes) {
    this.bytes(this.at + offset, bytes.length).set(bytes);
  }
  keep(bytes) {
    const at = this.allocate(bytes.length || 1);
    this.bytes(at, bytes.length).set(bytes);
    return at;
  }

  baseDigests() {
    const digests = [];
    for (let text; (text = this.text(this.c.gbz_base_digest(this.file, digests.length)));)
      digests.push(text);
    return digests;
  }

  /**
   * Gives a delta a base; copies of its tensors stay until another one, of a delta of several
   * bases until the instance goes.
   */
  setBase(tensors) {
    const lent = [], data = [];
    const put = (bytes, kept) => {
      kept.push(this.keep(bytes));
      return kept.at(-1);
    };
    try {
      const list = put(new Uint8Array(24 * tensors.length), lent);
      tensors.forEach(({name, dtype, shape, data: values}, i) => {
        if (!ArrayBuffer.isView(values))
          refuse('usage', `the tensor ${name} of the base has no data; give it as a typed array`);
        const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
        const sides = new Uint8Array(BigInt64Array.from(shape, BigInt).buffer);
        const fields = [
          put(new TextEncoder().encode(name + '\0'), lent), dtypeNumber(dtype), put(sides, lent),
          shape.length, put(bytes, data), bytes.length
        ];
        fields.forEach((field, k) => this.view.setUint32(list + 24 * i + 4 * k, field, true));
      });
      this.guard(() => this.check(this.c.gbz_set_base(this.file, list, tensors.length, this.work)));
      const several = this.baseDigests().length > 1;
      lent.push(...this.base.splice(several ? this.base.length : 0, Infinity, ...data.splice(0)));
    } finally {
      for (const at of [...lent, ...data]) this.free(at);
    }
  }
}


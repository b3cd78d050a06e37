/** Decodes .gbz files: one ES module for browsers and Node.js, the WebAssembly decoder inside. */

/** Element types, as safetensors names them. */
export type Dtype =
  | "BOOL" | "U8" | "I8" | "U16" | "I16" | "U32" | "I32" | "U64" | "I64" | "F16" | "BF16" | "F32" | "F64" | "C64"
  | "F8_E5M2" | "F8_E4M3" | "F8_E5M2FNUZ" | "F8_E4M3FNUZ" | "F8_E8M0" | "F6_E2M3" | "F6_E3M2" | "F4";

/** F16 and BF16 are the bits of each element, C64 pairs of real and imaginary parts, others without an array type bytes. */
export type Values =
  | Float32Array | Float64Array | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array
  | BigInt64Array | BigUint64Array;

/** Why a call failed: the statuses of gbz.h, and "failure" for what is not about the file. */
export type Status =
  | "usage" | "truncated" | "corrupt" | "unsupported" | "limit" | "shape_mismatch" | "memory" | "failure";

export class GbzError extends Error {
  constructor(status: Status, message: string);
  readonly status: Status;
}

export interface Tensor {
  readonly name: string;
  readonly index: number;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly kind: 'generated'|'exact'|'tied'|'quantized'|'predicted'|'constant'|'base'|'change'|
      'pieces'|'blocks';
  /** Bits of the file that it takes; 0 for tied and constant tensors. */
  readonly bits: number;
  /** Of its elements in its own type. */
  readonly bytes: number;
}

/** A tensor of the model that a delta was made from. */
export interface BaseTensor {
  name: string;
  dtype: Dtype;
  shape: readonly number[];
  data: ArrayBufferView;
}

export interface ReadOptions {
  /** The type of real tensors, rounded to nearest even; default: each in its own. */
  dtype?: "F32" | "F16" | "BF16";
}

export interface LimitOptions {
  /** Of all tensors together; default 2^40. */
  outputBytes?: number;
  /** That the decoder may take in addition to the file; default: no limit below 4 GiB. */
  memoryBytes?: number;
  /** Of a file with layers, its draft is read and not the exact values. */
  draft?: boolean;
}

export interface OpenOptions extends LimitOptions {
  /** false: the whole file is loaded and its digest compared; default: range requests where the server answers them. */
  ranges?: boolean;
  /** Ends the download: the call rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Further options of fetch(): headers, credentials, cache. */
  fetch?: RequestInit;
  /** Of a file that comes as one stream. */
  onProgress?: (received: number, total: number | undefined) => void;
}

/** An ONNX model whose large initializers are external data: what InferenceSession.create(model, { externalData }) takes. */
export interface OnnxParts {
  model: Uint8Array;
  externalData: { path: string; data: Uint8Array }[];
}

export type Bytes = ArrayBuffer | ArrayBufferView | SharedArrayBuffer;

/** All tensors of a file in memory, by name. @throws GbzError */
export function decode(bytes: Bytes, options?: ReadOptions & LimitOptions): Promise<Map<string, Values>>;
/** The ONNX model that a file was made of: what InferenceSession.create() takes. @throws GbzError */
export function decodeOnnx(bytes: Bytes, options?: LimitOptions): Promise<Uint8Array>;
/** That model with its large initializers apart: a session holds them without a second copy in the model. @throws GbzError */
export function decodeOnnxParts(bytes: Bytes, options?: LimitOptions): Promise<OnnxParts>;
/** @param source  a URL, or the whole file. @throws GbzError */
export function open(source: string | URL | Blob | Bytes, options?: OpenOptions): Promise<GbzFile>;
/**
 * Each tensor as soon as its bytes are there. The digest is compared at the end: an error then
 * concerns all of them. The download waits for the caller, and ends where the loop is left.
 */
export function stream(
  source: string | URL | Response, options?: ReadOptions & OpenOptions): AsyncGenerator<[string, Values], void, void>;

export class GbzFile {
  private constructor();
  readonly size: number;
  /** In the order of the file. */
  readonly tensors: ReadonlyMap<string, Tensor>;
  /** SHA-256 of the file; "" until a file that comes in parts is there as a whole. */
  readonly identity: string;
  readonly architecture: string;
  /** JSON, or "". */
  readonly settings: string;
  /** Of a delta: the digests of its bases; else empty. */
  readonly baseDigests: readonly string[];
  /**
   * Of a file with layers, which values it gives: "exact", or those of its draft; undefined: it
   * has no layers. A URL gives the draft unless the first request brings the whole file.
   */
  readonly layer: 'exact'|'draft'|undefined;
  /** Whether the file was made of an ONNX model without files of external data: see onnx() and onnxParts(). */
  readonly hasModel: boolean;
  read(name: string, options?: ReadOptions): Promise<Values>;
  /** @param options.workers  how many decode at a time; 1: none beside the caller; default: one for each processor, at most 8 */
  readAll(options?: ReadOptions & { workers?: number }): Promise<Map<string, Values>>;
  onnx(): Promise<Uint8Array>;
  onnxParts(): Promise<OnnxParts>;
  setBase(base: GbzFile | Iterable<BaseTensor>): Promise<void>;
  /** Gives the memory back; tensors that were read stay. Also what `using` calls. */
  close(): void;
}

/** Of gbcompress: "0.2.0". */
export const version: string;
/** Whether the decoder uses SIMD128. */
export const simd: boolean;

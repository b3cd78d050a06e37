// Files that come over the network: by range requests where the server answers them, else as one stream.

const FIRST = 1 << 16;  // bytes of the first request, which hold most headers
const PRELUDE = 32;     // bytes that say a file's size and that of its header
const GAP = 1 << 14;    // bytes between two parts that are fetched rather than asked for apart

/** What of [offset, end] parts is not among the parts that are there, neighbors united. */
function without(wanted, there) {
  const missing = [];
  for (const [from, to] of [...wanted].sort((a, b) => a[0] - b[0])) {
    let at = from;
    const add = (end) => {
      const last = missing.at(-1);
      if (last && at - last[1] <= GAP) last[1] = Math.max(last[1], end);
      else if (at < end) missing.push([at, end]);
    };
    for (const [begin, end] of there) {
      if (end <= at) continue;
      if (begin >= to) break;
      if (begin > at) add(begin);
      at = end;
    }
    if (at < to) add(to);
  }
  return missing;
}

function united(there, [from, to]) {
  const apart = there.filter(([begin, end]) => end < from || begin > to);
  const met = there.filter(([begin, end]) => end >= from && begin <= to);
  apart.push([Math.min(from, ...met.map(([begin]) => begin)), Math.max(to, ...met.map(([, end]) => end))]);
  return apart.sort((a, b) => a[0] - b[0]);
}

/** The state of a file that its server tells: another one means that the parts do not fit each other. */
const stamp = (response) => response.headers.get("etag") ?? response.headers.get("last-modified") ?? "";

async function request(url, options, from, to) {
  const headers = new Headers(options.fetch?.headers);
  if (to !== undefined) headers.set("range", `bytes=${from}-${to - 1}`);
  const response =
      await fetch(url, {...options.fetch, headers, signal: options.signal}).catch((error) => {
        if (options.signal?.aborted || !(error instanceof TypeError)) throw error;
        return refuse(
            "failure", `${url} cannot be loaded: ${error.cause?.message ?? error.message}`);
      });
  if (!response.ok && response.status !== 416)
    refuse("failure", `${url} was answered with status ${response.status} ${response.statusText}`.trim());
  return response;
}

/** The pieces of a response. It is ended where the caller asks no more. */
async function* pieces(response, signal) {
  const reader = response.body?.getReader();
  let count = 0;
  const broken = (error) => {
    if (signal?.aborted || ['AbortError', 'TimeoutError'].includes(error.name))
      throw signal?.reason ?? error;
    return refuse(
        'truncated', `the download ended after ${count} bytes: ${error.message}; load it again`);
  };
  try {
    while (reader) {
      const {done, value} = await reader.read().catch(broken);
      if (done) return;
      count += value.length;
      yield value;
    }
  } finally {
    reader?.cancel().catch(() => {});
  }
}

/** Puts the bytes of a response where put() says. @return how many there were */
async function drain(response, most, put, signal) {
  let count = 0;
  for await (const piece of pieces(response, signal)) {
    if (count + piece.length > most)
      refuse('corrupt', 'the server sends more bytes than the file declares');
    put(count, piece);
    count += piece.length;
  }
  return count;
}

class RangeSource {
  #stop = new AbortController();

  constructor(url, size, first, options) {
    Object.assign(this, { url, size, options, stamp: stamp(first), there: [] });
    this.asked = this.#stop.signal;
    options.signal?.addEventListener("abort", () => this.#stop.abort(options.signal.reason));
  }
  lacks(ranges) {
    return without(ranges, this.there);
  }
  async load(ranges, put) {
    for (const [from, to] of this.lacks(ranges)) {
      const response = await request(this.url, { ...this.options, signal: this.asked }, from, to);
      const place = response.headers.get("content-range") ?? `bytes ${from}-`;
      if (response.status !== 206 || !place.startsWith(`bytes ${from}-`) || stamp(response) !== this.stamp) {
        await response.body?.cancel();
        refuse("corrupt", `${this.url} changed on the server while it was read; open it again`);
      }
      const count =
          await drain(response, to - from, (at, bytes) => put(from + at, bytes), this.asked);
      if (count < to - from) refuse("truncated", `${this.url} ended ${to - from - count} bytes too early; load it again`);
      this.there = united(this.there, [from, to]);
    }
  }
  close() {
    this.#stop.abort(new GbzError("usage", "the file is closed; open it again"));
  }
}

/**
 * Behind a file's end nothing but the exact part of one with layers lies, of which the network
 * gives the draft.
 */
const refuseMore = ({layer}, more, url) => more && layer !== 'draft' &&
    refuse('corrupt', `${url} has bytes behind its end; copy it to the server again`);

/** A file that comes as one stream. */
class Incoming {
  constructor(response, options) {
    const coded = response.headers.has('content-encoding');
    Object.assign(this, {options, head: new Uint8Array(0), there: 0, received: 0});
    this.length = coded ? 0 : Number(response.headers.get('content-length'));
  }
  /** Of the next bytes. */
  async put(bytes) {
    this.received += bytes.length;
    const next = this.known ? bytes : await this.#begin(bytes);
    this.options.onProgress?.(this.received, this.known?.size);
    if (!this.known) return;
    const taken = next.subarray(0, this.known.size - this.there);
    this.more ||= taken.length < next.length;
    this.decoder.put(this.there, taken);
    this.there += taken.length;
  }
  /** Until the file's size is known, its bytes are kept. */
  async #begin(bytes) {
    const joined = new Uint8Array(this.head.length + bytes.length);
    joined.set(this.head);
    joined.set(bytes, this.head.length);
    this.head = joined;
    this.known = prelude(joined);
    if (!this.known) {
      if (joined.length >= PRELUDE) await refuseHead(joined, this.options);
      return joined;
    }
    const {size} = this.known;
    if (this.length && this.length < size)
      refuse(
          'truncated',
          `the file has ${size} bytes, the server sends ${
              this.length}; copy it to the server again`);
    this.decoder = new Decoder(size);
    return joined;
  }
  /** Opens what came. @param partial  the header is there, and the digest not compared */
  async open(partial) {
    if (!this.known) {
      this.decoder = new Decoder(this.head.length);
      this.decoder.put(0, this.head);
    }
    const end = partial ? this.known.size : this.known ? this.there : this.head.length;
    const {decoder} = this;
    if (partial) await decoder.withParts(() => decoder.open(true, this.options, end));
    else await opened(decoder, undefined, false, this.options, end);
    refuseMore(decoder, this.more, 'the file');
    return decoder;
  }
}

/** Of bytes that are no file of this version: what is wrong with them. */
async function refuseHead(head, options) {
  await openBytes(head, options);
  refuse('corrupt', 'the file\'s first bytes contradict its format; get the file again');
}

async function openUrl(url, options) {
  const first = await request(url, options, 0, options.ranges === false ? undefined : FIRST);
  if (first.status === 416) return openBytes(new Uint8Array(0), options);
  if (first.status !== 206) {
    const incoming = new Incoming(first, options);
    for await (const piece of pieces(first, options.signal)) await incoming.put(piece);
    return new GbzFile(await incoming.open(false));
  }
  const head = new Uint8Array(FIRST);
  const count = await drain(first, FIRST, (at, bytes) => head.set(bytes, at), options.signal);
  const total = Number(first.headers.get("content-range")?.split("/")[1]);
  const known = prelude(head.subarray(0, count));
  // No file of this version, or all of it.
  if (!known || known.size <= count) {
    const file = await openBytes(head.subarray(0, known && total > count ? known.size : count), options);
    refuseMore(file, known && total > count, url);
    return file;
  }
  if (total < known.size)
    refuse(
        'truncated',
        `${url} lacks ${known.size - total} bytes at its end; copy it to the server again`);
  const source = new RangeSource(url, known.size, first, options), decoder = new Decoder(known.size);
  decoder.put(0, head.subarray(0, count));
  source.there = [[0, count]];
  const load = (ranges) => source.load(ranges, (offset, bytes) => decoder.put(offset, bytes));
  await load([[0, known.header]]);
  await opened(decoder, load, true, options);
  refuseMore(decoder, total > known.size, url);
  return new GbzFile(decoder, source);
}

/** @param source  a URL, or the whole file as a Blob, an ArrayBuffer or a typed array */
export async function open(source, options = {}) {
  if (typeof source === "string" || source instanceof URL) return openUrl(String(source), options);
  if (globalThis.Blob && source instanceof Blob) return openBytes(await source.arrayBuffer(), options);
  return openBytes(source, options);
}

/** [name, values] of each tensor as soon as its bytes are there; the digest is compared at the end. */
export async function* stream(source, options = {}) {
  const response = source instanceof Response ? source : await request(String(source), options);
  if (!response.ok) refuse("failure", `the file was answered with status ${response.status}`);
  const incoming = new Incoming(response, options);
  let waiting;
  for await (const piece of pieces(response, options.signal)) {
    await incoming.put(piece);
    if (!waiting && incoming.known && incoming.there >= incoming.known.header) {
      const decoder = await incoming.open(true);
      waiting =
          decoder.tensors()
              .filter((tensor) => !holdsContainer(tensor))
              .map(
                  (tensor) =>
                      [Math.max(0, ...decoder.ranges(tensor.index).map(([, end]) => end)), tensor])
              .sort((a, b) => a[0] - b[0]);
    }
    while (waiting?.length && waiting[0][0] <= incoming.there) {
      const [, tensor] = waiting.shift();
      yield [tensor.name, await incoming.decoder.readWithParts(tensor, dtypeFor(tensor, options.dtype))];
    }
  }
  await incoming.open(false);
}

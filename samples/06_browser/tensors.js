// What the page computes of tensors: histograms, and files for others to read.

/**
 * Counts of `count` bins of equal width between the smallest and the largest finite value; none
 * without such a value.
 */
export function histogram(values, count) {
  let least = Infinity, most = -Infinity, sum = 0, squares = 0, finite = 0, zeros = 0;
  for (let i = 0; i < values.length; ++i) {
    const value = Number(values[i]);
    if (!Number.isFinite(value)) continue;
    if (value < least) least = value;
    if (value > most) most = value;
    sum += value;
    squares += value * value;
    ++finite;
    if (value === 0) ++zeros;
  }
  const bins = new Array(finite > 0 ? count : 0).fill(0), width = (most - least) / count || 1;
  for (let i = 0; i < values.length; ++i) {
    const value = Number(values[i]);
    if (Number.isFinite(value)) ++bins[Math.min(count - 1, Math.floor((value - least) / width))];
  }
  const mean = sum / finite;
  return { bins, least, most, mean, finite, zeros, deviation: Math.sqrt(Math.max(0, squares / finite - mean * mean)) };
}

/** Parts of a safetensors file. @param tensors  [{name, dtype, shape}, values] */
export function safetensors(tensors) {
  const header = Object.create(null);  // names are any, __proto__ among them
  let at = 0;
  for (const [{ name, dtype, shape }, values] of tensors) {
    header[name] = { dtype, shape, data_offsets: [at, at + values.byteLength] };
    at += values.byteLength;
  }
  const text = JSON.stringify(header);
  const bytes = new TextEncoder().encode(text), padded = new Uint8Array(8 + Math.ceil(bytes.length / 8) * 8).fill(32);
  new DataView(padded.buffer).setBigUint64(0, BigInt(padded.length - 8), true);
  padded.set(bytes, 8);
  return [padded, ...tensors.map(([, values]) => values)];
}

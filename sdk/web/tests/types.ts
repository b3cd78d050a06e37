// Compiled by the tests, never run: what a program in TypeScript may write.
import { decode, decodeOnnx, decodeOnnxParts, GbzError, open, stream, version } from "../src/gbz";
import type { GbzFile, Tensor, Values } from "../src/gbz";

export async function use(bytes: Uint8Array): Promise<number> {
  const tensors: Map<string, Values> = await decode(bytes, { dtype: "F32", outputBytes: 1e9 });
  const model: Uint8Array = await decodeOnnx(bytes.buffer as ArrayBuffer);
  const { model: graph, externalData } = await decodeOnnxParts(bytes);
  const large: number = externalData.reduce((sum, { path, data }) => sum + path.length + data.length, graph.length);
  const file: GbzFile = await open(new URL("https://example.org/model.gbz"), { signal: new AbortController().signal });
  try {
    const first: Tensor | undefined = file.tensors.get("weight");
    const rows: number = first?.shape[0] ?? 0;
    await file.setBase([{ name: "a", dtype: "F32", shape: [1], data: new Float32Array(1) }]);
    const all = await file.readAll({ workers: 2 });
    for await (const [name, values] of stream("model.gbz")) console.log(name, values.length, version);
    return rows + all.size + tensors.size + model.length + large;
  } catch (error) {
    if (error instanceof GbzError && error.status === "truncated") return 0;
    throw error;
  } finally {
    file.close();
  }
}

// @ts-expect-error: no type of real tensors
decode(new Uint8Array(1), { dtype: "I8" });
// @ts-expect-error: a status is not set
new GbzError("usage", "text").status = "corrupt";

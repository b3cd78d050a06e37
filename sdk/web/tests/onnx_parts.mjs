// node onnx_parts.mjs PAGE MODEL.gbz FOLDER: writes the model of decodeOnnxParts() and its external data into the folder.
// node onnx_parts.mjs PAGE MODEL.gbz IMAGES OUTPUT: float32 outputs of samples/10_onnx_page's session for float32 images, by the stub.
// PAGE is a folder with the sample and gbz.mjs.
// Status 3 and the status of the GbzError where the file is refused.
import { readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [page, model, to, output] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(path.join(page, name)).href);

async function session() {
  const ort = await load("ort_stub.mjs"), { openSession } = await load("session.js");
  const images = new Float32Array(Uint8Array.from(readFileSync(to)).buffer), opened = await openSession(ort, readFileSync(model));
  const { logits } = await opened.run({ images: new ort.Tensor("float32", images, [images.length / 64, 64]) });
  writeFileSync(output, new Uint8Array(logits.data.buffer));
}

async function parts() {
  const { decodeOnnxParts } = await load("gbz.mjs"), found = await decodeOnnxParts(readFileSync(model));
  writeFileSync(path.join(to, "model.onnx"), found.model);
  for (const { path: name, data } of found.externalData) writeFileSync(path.join(to, name), data);
}

try {
  await (statSync(to).isDirectory() ? parts() : session());
} catch (error) {
  if (error.name !== "GbzError") throw error;
  console.error(`${error.status}: ${error.message}`);
  process.exit(3);
}

// Classifies the digits with the network of digits.onnx.gbz, and shows the first of them. `?runtime=FILE` names another runtime's module.
import { openSession } from "./session.js";

const SHOWN = 40, SIDE = 8, PIXELS = SIDE * SIDE, CLASSES = 10;
const at = (id) => document.getElementById(id);

async function load(name) {
  const response = await fetch(name);
  if (!response.ok) throw new Error(`${name} was answered with status ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

/** The pixels of all digits, and the class of each: https://yann.lecun.org/exdb/mnist/ describes the files. */
async function digits() {
  const [images, labels] = await Promise.all(["test-images-idx3-ubyte", "test-labels-idx1-ubyte"].map(load));
  return { images: images.subarray(16), labels: labels.subarray(8) };
}

const best = (values) => values.indexOf(Math.max(...values));

/** @return the class of each digit */
async function classify(ort, session, images) {
  const input = new ort.Tensor("float32", Float32Array.from(images, (pixel) => pixel / 16), [images.length / PIXELS, PIXELS]);
  const { logits } = await session.run({ images: input });
  return Array.from({ length: logits.dims[0] }, (_, i) => best(logits.data.subarray(CLASSES * i, CLASSES * (i + 1))));
}

function figure(pixels, found, label) {
  const made = document.createElement("figure"), canvas = document.createElement("canvas"), caption = document.createElement("figcaption");
  canvas.width = canvas.height = SIDE;
  const drawn = canvas.getContext("2d").createImageData(SIDE, SIDE);
  pixels.forEach((pixel, i) => drawn.data.set([0, 0, 0, Math.min(255, 16 * pixel)], 4 * i));
  canvas.getContext("2d").putImageData(drawn, 0, 0);
  caption.textContent = found === label ? String(found) : `${found}, not ${label}`;
  caption.className = found === label ? "" : "wrong";
  made.append(canvas, caption);
  return made;
}

try {
  const ort = await import(new URL(new URLSearchParams(location.search).get("runtime") ?? "ort.min.mjs", location.href).href);
  at("runtime").textContent = ort.description ?? "onnxruntime-web";
  const session = await openSession(ort, new URL("digits.onnx.gbz", location.href));
  const { images, labels } = await digits();
  const found = await classify(ort, session, images);
  const right = found.filter((each, i) => each === labels[i]).length;
  at("digits").replaceChildren(...found.slice(0, SHOWN).map((each, i) => figure(images.subarray(PIXELS * i, PIXELS * (i + 1)), each, labels[i])));
  at("status").textContent = `${right} of ${labels.length} digits are classified correctly`;
} catch (error) {
  at("status").textContent = "";
  at("error").textContent = error.message;
}
document.body.dataset.ready = "yes";

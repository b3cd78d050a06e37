// A session of ONNX Runtime from a .gbz file.
import { open } from "./gbz.mjs";

/**
 * @param ort      the module onnxruntime-web
 * @param source   of the .gbz: a URL, a Blob, or its bytes
 * @param options  of InferenceSession.create(): executionProviders, graphOptimizationLevel, ...
 * @throws GbzError  where the file is damaged or was not made of an ONNX model
 */
export async function openSession(ort, source, options = {}) {
  const file = await open(source);
  try {
    const { model, externalData } = await file.onnxParts();
    return await ort.InferenceSession.create(model, { ...options, externalData });
  } finally {
    file.close();  // the decoder's memory is released; the session has its weights
  }
}

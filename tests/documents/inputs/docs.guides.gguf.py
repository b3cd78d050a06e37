import gguf
import numpy as np

draw = np.random.default_rng(3)
for name, kind in (("model-f16", gguf.GGMLQuantizationType.F16), ("model-q8_0", gguf.GGMLQuantizationType.Q8_0)):
    writer = gguf.GGUFWriter(name + ".gguf", "llama")
    writer.add_uint32("llama.block_count", 2)
    for block in range(2):
        for part in ("attn_q", "ffn_up"):
            values = draw.normal(0, 0.05, (192, 256)).astype(np.float32)
            writer.add_tensor(f"blk.{block}.{part}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)
        writer.add_tensor(f"blk.{block}.attn_norm.weight", np.ones(256, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

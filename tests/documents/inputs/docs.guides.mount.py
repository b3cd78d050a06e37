import os

import gguf
import numpy as np

random = np.random.default_rng(5)
os.makedirs("original")
writer = gguf.GGUFWriter("original/model.gguf", "llama")
writer.add_tensor("blk.0.attn_q.weight", random.standard_normal((300, 512)).astype(np.float32))
writer.add_tensor("output_norm.weight", random.standard_normal(512).astype(np.float32))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()

import os

import numpy as np

import gbcompress

os.makedirs("models")
weights = np.random.default_rng(3).standard_normal((500, 64)).astype(np.float32)
gbcompress.save_file({"embed.weight": weights, "head.bias": weights[0]}, "models/embedder.gbz", lossless=True)
weights.tofile("embed.weight")

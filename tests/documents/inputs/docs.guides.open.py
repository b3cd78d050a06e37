import gbcompress
import torch

torch.manual_seed(7)
gbcompress.save_file({"embed.weight": torch.randn(1200, 32), "head.weight": torch.randn(8, 32)}, "model.gbz", ratio=6)

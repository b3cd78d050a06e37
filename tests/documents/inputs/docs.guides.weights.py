import collections

import torch
from safetensors.torch import save_file as save_tensors

torch.manual_seed(8)
model = torch.nn.Sequential(collections.OrderedDict(
    body=torch.nn.Linear(128, 256), act=torch.nn.ReLU(), head=torch.nn.Linear(256, 12)))
save_tensors(model.state_dict(), "model.safetensors")

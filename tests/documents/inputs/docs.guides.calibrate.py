import torch
from safetensors.torch import save_file as save_tensors

torch.manual_seed(1)
x, y = torch.randn(600, 32), torch.randint(10, (600,))
net = torch.nn.Sequential(torch.nn.Linear(32, 200), torch.nn.ReLU(), torch.nn.Linear(200, 10)).eval()
torch.jit.trace(net, x[:1]).save("model.pt")
save_tensors({"inputs": torch.randn(96, 3, 32, 32), "targets": torch.arange(96) % 10}, "images.safetensors")

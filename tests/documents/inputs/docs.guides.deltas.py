import torch
from safetensors.torch import save_file as save_tensors

torch.manual_seed(2)
model = torch.nn.Sequential(torch.nn.Linear(96, 96), torch.nn.Tanh(), torch.nn.Linear(96, 24))


def train(net):
    with torch.no_grad():
        for value in net.parameters():
            value.add_(1e-4 * torch.randn_like(value))


save_tensors(model.state_dict(), "model.safetensors")
train(model)
tuned = {name: value.clone() for name, value in model.state_dict().items()}
save_tensors(tuned, "tuned.safetensors")
for number in (1, 2, 3):
    train(model)
    save_tensors(model.state_dict(), f"ckpt-{number}.safetensors")
state = {"model": model.state_dict()}

import torch
from safetensors.torch import save_file as save_tensors
from transformers import BertConfig, BertModel, BertTokenizerFast

torch.manual_seed(1)
x, y = torch.randn(600, 32), torch.randint(10, (600,))
net = torch.nn.Sequential(torch.nn.Linear(32, 200), torch.nn.ReLU(), torch.nn.Linear(200, 10)).eval()
torch.jit.trace(net, x[:1]).save("model.pt")
save_tensors({"inputs": torch.randn(96, 3, 32, 32), "targets": torch.arange(96) % 10}, "images.safetensors")

torch.manual_seed(10)
words = "a tree stood by the old river and every stone in it was cold".split()
texts = [" ".join(words[(i * 7 + j * (i % 5 + 1)) % len(words)] for j in range(9)) for i in range(200)]
name = "bert"
with open("vocab.txt", "w") as file:
    file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set(words))]) + "\n")
BertTokenizerFast("vocab.txt").save_pretrained(name)
BertModel(BertConfig(vocab_size=5 + len(set(words)), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                     intermediate_size=64, max_position_embeddings=40)).save_pretrained(name)

model = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 16)).eval()
batches = [torch.randn(32, 64) for _ in range(6)]

import torch
from transformers import TrainingArguments

import gbcompress as gbc

torch.manual_seed(9)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Linear(32, 64)
        self.head = torch.nn.Linear(64, 4)

    def forward(self, inputs, labels=None):
        logits = self.head(torch.relu(self.encoder(inputs)))
        loss = None if labels is None else torch.nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits}


rows = torch.randn(128, 32)
data = [{"inputs": row, "labels": int(row[0] > 0)} for row in rows]


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return len(data)

    def __getitem__(self, index):
        return data[index]


def fresh():
    net = Net()
    return net, torch.optim.Adam(net.parameters(), lr=1e-3)


def loss_of(net, batch):
    return net(**batch)["loss"]


model, optimizer = fresh()
dataset = Rows()
loader = torch.utils.data.DataLoader(dataset, batch_size=16)
n, total = len(dataset), len(loader)
total_steps = total
args = TrainingArguments(output_dir="trainer", num_train_epochs=1, per_device_train_batch_size=16, report_to="none",
                         save_strategy="no", use_cpu=True, disable_tqdm=True)

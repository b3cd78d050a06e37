import torch
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(4)
config = BertConfig(vocab_size=3000, hidden_size=64, num_hidden_layers=1, num_attention_heads=2, intermediate_size=128)
BertForSequenceClassification(config).save_pretrained("tiny-bert")

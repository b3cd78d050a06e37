import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(5)
LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                             num_key_value_heads=2, intermediate_size=48)).save_pretrained("model")

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(11)
LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                             num_key_value_heads=2, intermediate_size=48, max_position_embeddings=64)).save_pretrained("Llama")
import gbcompress
gbcompress.save_file(torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).state_dict(),
                     "mlp.gbz", ratio=4)

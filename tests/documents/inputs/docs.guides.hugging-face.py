import torch
from sentence_transformers import SentenceTransformer, models
from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizerFast, LlamaConfig, LlamaForCausalLM

torch.manual_seed(4)
config = BertConfig(vocab_size=3000, hidden_size=64, num_hidden_layers=1, num_attention_heads=2, intermediate_size=128)
BertForSequenceClassification(config).save_pretrained("tiny-bert")

torch.manual_seed(11)
words = "many small boats crossed the wide green bay before the storm came".split()
sentences = [" ".join(words[(i * 5 + j * (i % 4 + 1)) % len(words)] for j in range(8)) for i in range(64)]
with open("vocab.txt", "w") as file:
    file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set(words))]) + "\n")
tokenizer = BertTokenizerFast("vocab.txt")
tokenizer.save_pretrained("MiniLM")
BertModel(BertConfig(vocab_size=5 + len(set(words)), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                     intermediate_size=64, max_position_embeddings=40)).save_pretrained("MiniLM")
model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                     num_key_value_heads=2, intermediate_size=48, max_position_embeddings=64)).eval()
model.save_pretrained("Llama")
transformer = models.Transformer("MiniLM", max_seq_length=20)
sentence_model = SentenceTransformer(
    modules=[transformer, models.Pooling(transformer.get_embedding_dimension())], device="cpu")

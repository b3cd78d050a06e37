mkdir packed
gbcompress compress original/model.gguf --lossless -o packed/model.gbz -q

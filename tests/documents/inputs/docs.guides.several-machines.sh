cp samples/digits/mlp-64-128-64-10.safetensors mlp.safetensors

cp samples/digits/mlp-64-128-64-10.safetensors mlp.safetensors
gbcompress compress --from-scratch --arch resnet20 --data tensors:images.safetensors --mode exact --epochs 1 -o resnet.gbz -q
gbcompress expand resnet.gbz -o resnet.safetensors
rm resnet.gbz

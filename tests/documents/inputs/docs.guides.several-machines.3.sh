# A run that was interrupted.
gbcompress compress mlp.safetensors --arch mlp --data digits --set rate.lambda=0.01 --epochs 20 -o more.gbz -q --set checkpoint.every_steps=50 &
run=$!
until compgen -G "more.gbz.checkpoints/step-*" > /dev/null; do sleep 0.1; done
kill -TERM $run
wait $run || true

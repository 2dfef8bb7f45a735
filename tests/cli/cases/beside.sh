# A program in its build tree finds the weights of the clone from any folder; elsewhere a folder of that name is not one.
mkdir -p clone/build/cli clone/weights other/build/cli other/weights away
cp "$(command -v zenith)" clone/build/cli/
cp "$(command -v zenith)" other/build/cli/
touch clone/build/CMakeCache.txt
cp "$SOURCE/weights/zenith-r.safetensors" clone/weights/
cp "$SOURCE/weights/zenith-r.safetensors" other/weights/
cd away
../clone/build/cli/zenith models --names
../other/build/cli/zenith models --names

# A latent is not a model: -m says so, and the list of models leaves it out.
makeimage a.png 24 16
../clone/build/cli/zenith encode -q a.png -o a.safetensors && ../clone/build/cli/zenith encode -q a.png -o a.latent
for latent in a.safetensors a.latent; do
    ../clone/build/cli/zenith encode -m $latent a.png -o b.safetensors
    echo "status $?"
done
ZENITH_MODELS=. ../clone/build/cli/zenith models | sed -n '/^weights/,$p' | grep -v zenith-r

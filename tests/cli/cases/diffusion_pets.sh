# The bundled diffae-pets, by its name: draws a pet, and edits turn it into what the classifier takes for a cat and a dog.
export ZENITH_MODELS=$SOURCE/weights
zenith models --json | grep -o '"diffae-pets"' | head -1
zenith sample -q -m diffae-pets -p bf16 --seed 7 --steps 10 --latent-steps 50 -o pet.png >/dev/null || exit 1
for kind in Cat Dog; do
    zenith edit -q pet.png -m diffae-pets -p bf16 --attribute $kind --amount 1 --random-noise --steps 10 -o $kind.png >/dev/null || exit 1
    zenith edit --list $kind.png -m diffae-pets -p bf16 | awk -v kind=$kind '$4 == kind { print kind, ($2 > 75 ? "likely" : "unlikely: " $2 " %") }'
done
# A breed is found by its name, in which case does not matter; both bundled ones lie side by side.
zenith edit -q pet.png -m diffae-pets -p bf16 --attribute "shiba inu" --random-noise --steps 2 -o breed.png >/dev/null && echo "edited"
zenith edit --list | grep -cw Smile
# The default model has no such attribute, and the message names the one that has it.
zenith edit -q pet.png --attribute dog --random-noise --steps 2 -o none.png
echo "faces of dogs $?"
zenith edit -q pet.png -m diffae-pets --attribute Catt --random-noise --steps 2 -o none.png
echo "misspelt $?"

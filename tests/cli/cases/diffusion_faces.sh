# What the help says of amounts holds for the bundled diffae-faces: 0.3 is a visible change, judged by the written image.
export ZENITH_MODELS=$SOURCE/weights
zenith sample -q -p bf16 --seed 6 --steps 10 --latent-steps 50 -o face.png || exit 1
zenith edit -q face.png -p bf16 --attribute Smile --amount=-0.3,0,0.3 --random-noise --steps 10 -o strip.png --json >facts || exit 1
grep -oE '"scores": [^]]*' facts | tr -d '[,' | awk '{ print ($2 + 0.1 < $3 && $3 + 0.1 < $4 ? "visible" : "not visible: " $0) }'

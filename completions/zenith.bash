# Completion of zenith for bash. A test checks it against `zenith help`.
_zenith() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
    local common="--model --threads --precision --tile --memory --seed --show --json --quiet --verbose --version --help"
    COMPREPLY=()
    if [[ $COMP_CWORD == 1 ]]; then
        COMPREPLY=($(compgen -W "encode decode reconstruct restore edit interpolate sample compare info convert models bench train dataset distill eval help --version --help" -- "$current"))
        return
    fi
    case $previous in
    --precision | -p) COMPREPLY=($(compgen -W "f32 bf16 f16" -- "$current")); return ;;
    --student) COMPREPLY=($(compgen -W "zenith-r zenith-r-wide taesd-half" -- "$current")); return ;;
    --dtype) COMPREPLY=($(compgen -W "f32 f16 bf16" -- "$current")); return ;;
    --device) COMPREPLY=($(compgen -W "cpu cuda" -- "$current")); return ;;
    --part) COMPREPLY=($(compgen -W "encode decode" -- "$current")); return ;;
    --task) COMPREPLY=($(compgen -W "auto denoise impulse deblur" -- "$current")); return ;;
    --damage) COMPREPLY=($(compgen -W "gaussian:25 salt:5 random:5 blur:1.5 box:5" -- "$current")); return ;;
    --tile) COMPREPLY=($(compgen -W "auto off 256 512 1024" -- "$current")); return ;;
    --bits) COMPREPLY=($(compgen -W "8 16" -- "$current")); return ;;
    --format) COMPREPLY=($(compgen -W "safetensors png jpg webp" -- "$current")); return ;;
    --threads | -t | --steps | --encode-steps | --latent-steps | --amount | --frames | --memory | --seed | --size | --crops | --count | --heldout | --runs | --quality | --rate | --background) return ;;
    esac
    if [[ $current != -* ]]; then
        [[ $command == train && $previous == train ]] &&
            COMPREPLY=($(compgen -W "zenith-r taesd taesd3 restore restore-small zenith-hier diffae-celeba64 diffae-small diffae-latent diffae-latent-small diffae-classifier" -- "$current"))
        [[ $command == dataset && $COMP_CWORD == 2 ]] && COMPREPLY=($(compgen -W "build info show" -- "$current"))
        [[ $command == help ]] &&
            COMPREPLY=($(compgen -W "encode decode reconstruct restore edit interpolate sample compare info convert models bench train dataset distill eval" -- "$current"))
        return
    fi
    local own
    case $command in
    encode) own="--output --force --clip --format --background --device" ;;
    decode) own="--output --force --format --quality --lossless --bits --rate --device" ;;
    reconstruct) own="--output --compare --format --quality --lossless --background --steps --encode-steps --random-noise --device" ;;
    restore) own="--output --task --reference --compare --format --quality --lossless --background --device" ;;
    edit) own="--output --classifier --attribute --amount --list --steps --encode-steps --random-noise --format --quality --lossless --background" ;;
    interpolate) own="--output --frames --steps --encode-steps --random-noise --rate --format --quality --lossless --background" ;;
    sample) own="--output --latent --count --steps --latent-steps --format --quality --lossless" ;;
    compare) own="--background" ;;
    info) own="--size" ;;
    convert) own="--dtype" ;;
    bench) own="--part --size --runs --profile --device" ;;
    train) own="--output --data --steps --from --labels --resume" ;;
    eval) own="--output --data --task --damage --nlm --heldout --gates" ;;
    dataset) own="--output --size --crops --count --heldout --format --quality --lossless" ;;
    distill) own="--output --teacher --student --data --steps --from --resume" ;;
    *) own="" ;;
    esac
    COMPREPLY=($(compgen -W "$own $common" -- "$current"))
}
complete -o default -F _zenith zenith

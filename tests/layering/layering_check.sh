#!/usr/bin/env bash
# The layering test must be able to fail: builds small trees and plants one wrong arrow in each.
set -u
check=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/zenith-layering.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
failed=0

# plant FILE INCLUDE: a good tree plus one line
plant() {
    rm -rf "$work/tree"
    mkdir -p "$work"/tree/{src/{base,kernels/{ref,simd,arm,cuda},tensor,io/{image,dataset,video},text,graph,ops,nn,models/diffae,train/ranks,pipeline/diffae},cli,bench,tests/{cli,ops},include/zenith,examples}
    cd "$work/tree" || exit 99
    for f in base kernels tensor io text graph ops nn models train pipeline; do : >src/$f/$f.h; done
    : >src/models/diffae/form.h
    : >include/zenith/zenith.h
    : >cli/cli.h
    echo '#include "cli.h"' >cli/main.c
    printf '#include "base/base.h"\n#include <stdio.h>\n#include "ops.h"\n#include <zenith/zenith.h>\n' >src/ops/op.c
    printf '#include <png.h>\n#include "../io.h"\n' >src/io/image/png.c
    printf '#include "ops/ops.h"\n#include <png.h>\n' >tests/ops/op.c
    : >src/kernels/arm/arm.h
    : >bench/bench.h
    printf '#include "bench.h"\n#include "train/train.h"\n' >bench/speed.c
    echo '#include <lmdb.h>' >src/io/dataset/lmdb.c
    echo '#include <libavcodec/avcodec.h>' >src/io/video/film.c
    echo '#include <mpi.h>' >src/train/ranks/ranks.c
    echo '#include <cuda_runtime.h>' >src/kernels/cuda/device.cu
    echo '#include "kernels/kernels.h"' >src/kernels/arm/conv.c
    [[ -z $1 ]] || echo "$2" >>"$1"
}

# expect 0|1 FILE INCLUDE
expect() {
    plant "$2" "$3"
    bash "$check" "$work/tree" >"$work/log" 2>&1
    local got=$?
    if [[ $got != "$1" || ($1 == 1 && ! -s $work/log) ]]; then
        echo "'$3' in '$2': returned $got, expected $1"
        cat "$work/log"
        failed=1
    fi
}

expect 0 '' ''
expect 0 src/pipeline/codec.c '#include "io/io.h"'
expect 1 src/base/x.c '#include "kernels/kernels.h"'
expect 1 src/base/x.c '#include "../kernels/kernels.h"'
expect 1 src/kernels/x.c '# include "tensor/tensor.h"'
expect 1 src/io/x.c '#include "graph/graph.h"'
expect 1 src/text/x.c '#include "io/io.h"'
expect 1 src/ops/x.c '#include "nn/nn.h"'
expect 1 src/models/x.h '#include "pipeline/pipeline.h"'
expect 1 src/ops/x.c '#include <png.h>'
expect 1 src/io/dataset/x.c '#include <png.h>'
expect 1 src/io/image/x.c '#include <lmdb.h>'
expect 1 src/pipeline/x.c '#include <lmdb.h>'
expect 1 src/io/image/x.c '#include <libavformat/avformat.h>'
expect 1 src/pipeline/x.c '#include <libswscale/swscale.h>'
expect 1 src/pipeline/x.c '#include <mpi.h>'
expect 1 cli/x.c '#include <mpi.h>'
expect 1 src/ops/x.c '#include <cuda_runtime.h>'
expect 1 src/kernels/x.c '#include <cublas_v2.h>'
expect 1 src/kernels/simd/x.c '#include <cuda.h>'
expect 1 bench/x.c '#include <mpi.h>'
expect 1 bench/x.c '#include "../cli/cli.h"'
expect 1 bench/x.c '#include "../tests/ops/op.c"'
expect 1 src/train/x.c '#include "../../bench/bench.h"'
expect 1 tests/ops/x.c '#include "../../bench/bench.h"'
expect 1 src/kernels/simd/x.c '#include "kernels/arm/arm.h"'
expect 1 src/kernels/ref/x.c '#include "../arm/arm.h"'
expect 0 src/kernels/arm/x.c '#include "kernels/kernels.h"'
expect 1 src/train/x.c '#include "models/diffae/form.h"'
expect 1 src/pipeline/x.c '#include "models/diffae/form.h"'
expect 0 src/pipeline/diffae/x.c '#include "models/diffae/form.h"'
expect 1 src/train/x.c 'zn_diffae_free(net);'
expect 1 cli/x.c 'zn_diffae_free(net);'
expect 0 src/pipeline/diffae/x.c 'zn_diffae_free(net);'
expect 1 src/base/x.c '#include "../../cli/cli.h"'
expect 1 cli/x.c '#include "../src/base/base.h"'
expect 1 cli/x.c '#include "base/base.h"'
expect 1 tests/cli/x.c '#include "base/base.h"'
expect 1 examples/x.c '#include "base/base.h"'
expect 1 include/zenith/x.h '#include "../../src/base/base.h"'
expect 1 src/ops/x.c '#include "nowhere.h"'
exit $failed

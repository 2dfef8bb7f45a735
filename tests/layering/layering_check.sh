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
    mkdir -p "$work"/tree/{src/{base,kernels,tensor,io/image,text,graph,ops,nn,models,train,pipeline},cli,tests/{cli,ops},include/zenith,examples}
    cd "$work/tree" || exit 99
    for f in base kernels tensor io text graph ops nn models train pipeline; do : >src/$f/$f.h; done
    : >include/zenith/zenith.h
    : >cli/cli.h
    echo '#include "cli.h"' >cli/main.c
    printf '#include "base/base.h"\n#include <stdio.h>\n#include "ops.h"\n#include <zenith/zenith.h>\n' >src/ops/op.c
    printf '#include <png.h>\n#include "../io.h"\n' >src/io/image/png.c
    echo '#include "ops/ops.h"' >tests/ops/op.c
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
expect 1 src/base/x.c '#include "../../cli/cli.h"'
expect 1 cli/x.c '#include "../src/base/base.h"'
expect 1 cli/x.c '#include "base/base.h"'
expect 1 tests/cli/x.c '#include "base/base.h"'
expect 1 examples/x.c '#include "base/base.h"'
expect 1 include/zenith/x.h '#include "../../src/base/base.h"'
expect 1 src/ops/x.c '#include "nowhere.h"'
exit $failed

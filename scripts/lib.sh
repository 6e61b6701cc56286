# What the scripts share.  Sourced, not run.

set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() {
    printf '\n== %s\n' "$*"
}

die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# How many compile jobs: one per CPU, and no more than 1 GiB of memory each allows.
jobs() {
    local cpus memory_gib
    cpus=$(nproc)
    memory_gib=$(awk '/MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)
    [ "$memory_gib" -lt 1 ] && memory_gib=1
    echo $((cpus < memory_gib ? cpus : memory_gib))
}

# With ccache, what another clone or an earlier run compiled is not compiled again.
if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER-ccache}
    export CCACHE_BASEDIR=${CCACHE_BASEDIR-$top} CCACHE_NOHASHDIR=1
fi

# build PRESET [cmake option...] [-- target...]
build() {
    local preset=$1 log options=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    log=$(mktemp)
    (cd "$top" && cmake --preset "$preset" "${options[@]}" >"$log" 2>&1) ||
        { cat "$log"; rm -f "$log"; die "cmake --preset $preset failed"; }
    cmake --build "$top/build/$preset" -j "$(jobs)" ${1:+--target "${@:2}"} >"$log" 2>&1 ||
        { cat "$log"; rm -f "$log"; die "building $preset failed"; }
    tail -n 1 "$log"
    rm -f "$log"
}

# nvcc, as cmake/dependencies.cmake looks for it; fails if there is none.
cuda_compiler() {
    echo "${CUDACXX-$(PATH=${CUDA_PATH-}/bin:${CUDA_HOME-}/bin:$PATH:/usr/local/cuda/bin command -v nvcc)}" |
        grep .
}

# Says what the CUDA presets lack on this machine; nothing if it is all there.
lacks_for_cuda() {
    local nvcc
    nvcc=$(cuda_compiler) || { echo "nvcc not found"; return; }
    echo '#include <cudnn.h>' | "$nvcc" -x cu -E - >/dev/null 2>&1 || echo "cudnn.h not found"
}

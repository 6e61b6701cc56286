# A bare Debian in a folder, for scripts that show what a user's machine lacks.  Sourced after lib.sh.  As root, with a
# mirror of Debian within reach.

# need TOOL...: dies where one is missing
need() {
    for tool; do
        command -v "$tool" >/dev/null || die "$tool is missing (debootstrap, util-linux, systemd-container, iproute2)"
    done
}

# bare ROOT SUITE [PACKAGE,...]: ROOT has the least of SUITE and these packages from then on; what is there stays
bare() {
    local root=$1 suite=$2
    if [ ! -d "$root" ]; then
        say "making $root"
        mkdir -p "$(dirname "$root")"
        rm -rf "$root.new"
        debootstrap --variant=minbase ${3:+--include="$3"} "$suite" "$root.new" >"$root.log" 2>&1 ||
            { tail "$root.log"; die "debootstrap $suite failed"; }
        mv "$root.new" "$root"
    fi
    cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
    [ -e "$root/etc/hosts" ] || echo "127.0.0.1 localhost" >"$root/etc/hosts" # an installer would write it
}

# name_of ROOT: which system it is
name_of() {
    (. "$1/etc/os-release" && echo "$PRETTY_NAME")
}

# inside ROOT SCRIPT [NAME=VALUE...]: by bash as root of ROOT, in namespaces of mounts and processes of its own
inside() {
    local root=$1 script=$2
    shift 2
    # shellcheck disable=SC2016 # the inner shell's
    unshare --mount --pid --fork sh -ec '
        root=$1 script=$2
        shift 2
        mount -t proc proc "$root/proc"
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@" \
            chroot "$root" bash -euo pipefail -c "$script"' sh "$root" "$script" "$@"
}

# boot ROOT: starts its systemd in a container of systemd-nspawn, which ends with this script
boot() {
    local root=$1
    # Its filter of system calls knows Landlock only from systemd 253 on.
    systemd-nspawn --directory "$root" --boot --register=no --keep-unit --quiet \
        --system-call-filter="landlock_create_ruleset landlock_add_rule landlock_restrict_self" \
        >"$root.boot.log" 2>&1 </dev/null &
    container=$!
    trap 'kill $container 2>/dev/null; wait $container 2>/dev/null || true' EXIT
    for _ in $(seq 300); do
        init=$(pgrep -P $container | head -n 1) && [ -e "/proc/$init/root/run/systemd/private" ] && return
        kill -0 $container 2>/dev/null || break
        sleep 0.1
    done
    tail -n 20 "$root.boot.log"
    die "it does not boot"
}

# booted SCRIPT [ARGUMENT0...]: by bash as root of the booted system
booted() {
    nsenter --target "$init" --mount --uts --ipc --net --pid --cgroup \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive HOME=/root \
        bash -euo pipefail -c "$@"
}

# copy_tree DIR: this tree as git has it, with what is changed and new; all but builds where it is no clone.  What was
# built in DIR stays.
copy_tree() {
    mkdir -p "$1"
    find "$1" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
    if git -C "$top" rev-parse --git-dir >/dev/null 2>&1; then
        (cd "$top" && git ls-files -z --cached --others --exclude-standard --deduplicate |
            tar -c --null --ignore-failed-read -T - 2>/dev/null) | tar -x -C "$1"
    else
        tar -C "$top" -c --exclude=./build --exclude=./dist . | tar -x -C "$1"
    fi
}

# packages_for SUITE: the packages of scripts/deb --in DIR SUITE, else those of scripts/deb
packages_for() {
    local folder
    for folder in "$top/dist/$1" "$top/dist"; do
        if [ -f "$(echo "$folder"/sluice_*.deb)" ]; then
            echo "$folder"/*.deb
            return
        fi
    done
    die "no packages in dist: scripts/deb makes them"
}

# For a script that runs in such a system: fail TEXT, and one_epoch FLAG..., of a server and a trainer on PATH.
# shellcheck disable=SC2016,SC2034 # the inner shell's; who sources this
one_epoch='fail() { echo "FAILED: $1" >&2; exit 1; }
one_epoch() {
    rm -rf /tmp/set /tmp/server.out
    offload_dataset synth /tmp/set -n 40 >/tmp/log 2>&1 || { cat /tmp/log; fail "synth"; }
    printf "root = /tmp/set\nlisten = 127.0.0.1:0\n" >/tmp/server.conf
    offload_server --config /tmp/server.conf --check-config || fail "--check-config"
    offload_server --config /tmp/server.conf >/tmp/server.out 2>/tmp/server.log &
    server=$!
    for i in $(seq 100); do grep -qs listening /tmp/server.out && break; sleep 0.1; done
    port=$(sed -n "s/^listening on .*:\([0-9]*\)$/\1/p" /tmp/server.out)
    [ "$port" ] || { cat /tmp/server.log; fail "no server"; }
    offload_train --host 127.0.0.1:$port --epochs 1 --json "$@" >/tmp/epoch 2>/tmp/log ||
        { cat /tmp/log; fail "an epoch"; }
    grep -q "\"errors\":0" /tmp/epoch || fail "errors in $(cat /tmp/epoch)"
    kill $server
    wait $server
}
'

# shellcheck shell=dash
# SPDX-License-Identifier: Apache-2.0
# Runs one container as a kubelet and containerd do for the operators' DaemonSets: used by lib.sh only.
# What is one role's own (mounts, name spaces, command, hooks, probes) is in /test/roles/ROLE.conf and
# ROLE.mounts.

role_value() {
    sed -n "s/^$2=//p" "/test/roles/$1.conf"
}

role_prestop() {
    role_value "$1" prestop
}

role_probe() {
    role_value "$1" "$2"
}

container_role() {
    cat "/vm/containers/$1/role"
}

# One JSON string for each line of the input, with commas between.
json_strings() {
    awk '{ gsub(/[\\"]/, "\\\\&"); printf "%s\"%s\"", (NR > 1 ? "," : ""), $0 }'
}

# Kubernetes' DirectoryOrCreate and FileOrCreate.
create_sources() {
    local source kind
    awk '$3 == "file" { sub("/[^/]*$", "", $1) } $3 != "none" { print $1 }' "$1" | xargs mkdir -p
    while read -r source _ kind _; do
        [ "$kind" != file ] || [ -e "$source" ] || : >"$source"
    done <"$1"
}

json_mounts() {
    awk '{ printf ",{\"type\":\"bind\",\"source\":\"%s\",\"destination\":\"%s\",\"options\":[", $1, $2
           count = split($4, option, ",")
           for (i = 1; i <= count; i++) printf "%s\"%s\"", (i > 1 ? "," : ""), option[i]
           print "]}" }'
}

# A privileged container has a /dev of its own, filled once, when it starts, with the host's nodes:
# a node that the host makes later does not appear in it.
json_devices() {
    find /dev -xdev \( -type c -o -type b \) ! -name 'tty[0-9S]*' ! -name 'vcs*' ! -name console \
        -exec stat -c '%n %t %T %a %F' '{}' + |
        awk '{ type = $5 == "block" ? "b" : "c"
               printf "%s{\"path\":\"%s\",\"type\":\"%s\",\"major\":%d,\"minor\":%d,\"fileMode\":%d,\"uid\":0,\"gid\":0}\n",
                      (NR > 1 ? "," : ""), $1, type, hex($2), hex($3), octal($4) }
             function number(digits, base,    i, value) {
               for (i = 1; i <= length(digits); i++)
                 value = value * base + index("0123456789abcdef", substr(digits, i, 1)) - 1
               return value }
             function hex(digits) { return number(digits, 16) }
             function octal(digits) { return number(digits, 8) }'
}

json_namespaces() {
    local space separator=
    for space in $(role_value "$1" namespaces); do
        printf '%s{"type":"%s"}' "$separator" "$space"
        separator=,
    done
}

# With the host's network goes the host's name.
json_hostname() {
    case $(role_value "$1" namespaces) in
    *uts*) echo '"hostname": "vm-node",' ;;
    esac
}

# A case that wants the DaemonSet's memory limit sets memory_limit to bytes before it says start.
json_memory() {
    [ -z "${memory_limit:-}" ] || printf ', "memory": {"limit": %d}' "$memory_limit"
}

# All of them, as a privileged container has.
capabilities='"CAP_CHOWN","CAP_DAC_OVERRIDE","CAP_DAC_READ_SEARCH","CAP_FOWNER","CAP_FSETID","CAP_KILL","CAP_SETGID","CAP_SETUID",
"CAP_SETPCAP","CAP_LINUX_IMMUTABLE","CAP_NET_BIND_SERVICE","CAP_NET_BROADCAST","CAP_NET_ADMIN","CAP_NET_RAW","CAP_IPC_LOCK",
"CAP_IPC_OWNER","CAP_SYS_MODULE","CAP_SYS_RAWIO","CAP_SYS_CHROOT","CAP_SYS_PTRACE","CAP_SYS_PACCT","CAP_SYS_ADMIN","CAP_SYS_BOOT",
"CAP_SYS_NICE","CAP_SYS_RESOURCE","CAP_SYS_TIME","CAP_SYS_TTY_CONFIG","CAP_MKNOD","CAP_LEASE","CAP_AUDIT_WRITE","CAP_AUDIT_CONTROL",
"CAP_SETFCAP","CAP_MAC_OVERRIDE","CAP_MAC_ADMIN","CAP_SYSLOG","CAP_WAKE_ALARM","CAP_BLOCK_SUSPEND","CAP_AUDIT_READ","CAP_PERFMON",
"CAP_BPF","CAP_CHECKPOINT_RESTORE"'

# write_config ROLE ATTEMPT_FOLDER: from its files env, args, cwd and mounts makes bundle/config.json. What prints a part
# does so itself: each $( ) would be one more process, of which an emulated machine starts a hundred a second.
write_config() {
    local role=$1 folder=$2 cwd
    read -r cwd <"$folder/cwd" || [ -n "$cwd" ]
    {
        echo '{ "ociVersion": "1.0.0",'
        json_hostname "$role"
        echo '"process": { "terminal": false, "user": {"uid": 0, "gid": 0}, "oomScoreAdj": 1000, "noNewPrivileges": false,'
        printf '"capabilities": {"bounding": [%s], "effective": [%s], "permitted": [%s]},\n' "$capabilities" "$capabilities" "$capabilities"
        printf '"cwd": "%s", "env": [' "$cwd"
        json_strings <"$folder/env"
        printf '], "args": ['
        json_strings <"$folder/args"
        cat <<'JSON'
] },
"root": {"path": "rootfs", "readonly": false},
"mounts": [
 {"type": "proc", "source": "proc", "destination": "/proc", "options": ["nosuid", "noexec", "nodev"]},
 {"type": "tmpfs", "source": "tmpfs", "destination": "/dev", "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
 {"type": "devpts", "source": "devpts", "destination": "/dev/pts", "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]},
 {"type": "mqueue", "source": "mqueue", "destination": "/dev/mqueue", "options": ["nosuid", "noexec", "nodev"]},
 {"type": "tmpfs", "source": "shm", "destination": "/dev/shm", "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]},
 {"type": "sysfs", "source": "sysfs", "destination": "/sys", "options": ["nosuid", "noexec", "nodev", "rw"]},
 {"type": "cgroup", "source": "cgroup", "destination": "/sys/fs/cgroup", "options": ["nosuid", "noexec", "nodev", "relatime", "rw"]}
JSON
        json_mounts <"$folder/mounts"
        printf '], "linux": { "rootfsPropagation": "%s", "namespaces": [' "$(role_value "$role" propagation)"
        json_namespaces "$role"
        printf '], "resources": {"devices": [{"allow": true, "access": "rwm"}]'
        json_memory
        printf '}, "devices": ['
        json_devices
        echo '] } }'
    } >"$folder/bundle/config.json"
}

# The DaemonSet's command and args when it gives them, else the image's ENTRYPOINT and CMD; ARG… of the
# case replace args or CMD.
write_args() {
    local role=$1 image=$2 command
    shift 2
    command=$(role_value "$role" command)
    if [ -n "$command" ]; then
        echo "$command"
    else
        cat "/images/$image/entrypoint"
    fi
    if [ $# -gt 0 ]; then
        printf '%s\n' "$@"
    elif [ -n "$command" ]; then
        role_value "$role" args
    else
        cat "/images/$image/cmd"
    fi
}

write_mounts() {
    local role=$1 folder=$2
    sed -e '/^#/d' -e '/^$/d' -e "s|@CONTAINER@|$folder|" "/test/roles/$role.mounts"
    if [ "$role" = gpu ] && [ -e /case/startup-probe.sh ]; then
        echo "/case/startup-probe.sh /usr/local/bin/startup-probe.sh file rbind,rprivate,ro"
    fi
    # What a case mounts besides: lines as in a role's file.
    if [ "$role" = gpu ] && [ -e /vm/mounts ]; then
        cat /vm/mounts
    fi
    # The operator's kernelModuleConfig, where the case made the folder: a file for each of its keys.
    if [ "$role" != nic ] && [ -d /vm/drivers ]; then
        find /vm/drivers -type f | awk '{ file = $1; sub(".*/", "", file); print $1, "/drivers/" file, "file rbind,rprivate,ro" }'
    fi
}

mount_root() {
    local image=$1 folder=$2
    mkdir -p "$folder/upper" "$folder/work" "$folder/bundle/rootfs"
    mount -t overlay -o "lowerdir=/images/$image/rootfs,upperdir=$folder/upper,workdir=$folder/work" \
        overlay "$folder/bundle/rootfs"
}

# Without a pid name space of its own, a container's other processes outlive its first one: containerd
# kills them then. crun would wait for them.
kill_rest() {
    local name=$1 folder=$2 pid=''
    poll 20 started_or_ended "$folder" || return 0
    # The file ends without a newline, which read minds.
    [ ! -s "$folder/pid" ] || read -r pid <"$folder/pid" || true
    while [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; do
        pause 0.2
    done
    [ ! -e "/sys/fs/cgroup/$name/cgroup.kill" ] || echo 1 >"/sys/fs/cgroup/$name/cgroup.kill"
}

# crun stays as the parent, so that the exit code reaches someone.
run_bundle() {
    local name=$1 folder=$2 status=0 killer
    kill_rest "$name" "$folder" &
    killer=$!
    # The timeline shows what it says as it comes.
    [ ! -e /case/timeline ] || tail -n +1 -s 0 -f "$folder/log" >/dev/console &
    crun run --bundle "$folder/bundle" --pid-file "$folder/pid" "$name" \
        >"$folder/log" 2>&1 </dev/null || status=$?
    # It would kill the next container of this name, whose control group has the same path.
    kill "$killer" 2>/dev/null || true
    wait "$killer" || true
    trace "$name ended: $status"
    # Starting it is dear here, and it has done so itself when it could.
    [ ! -e "/run/crun/$name" ] || crun delete --force "$name" 2>/dev/null || true
    umount -l "$folder/bundle/rootfs" || true
    echo "$status" >"$folder/exit.new"
    mv "$folder/exit.new" "$folder/exit"
}

next_attempt() {
    local base=$1 number=1
    while [ -e "$base/$number" ]; do
        number=$((number + 1))
    done
    mkdir -p "$base/$number"
    ln -sfn "$number" "$base/now"
    echo "$base/$number"
}

started_or_ended() {
    [ -s "$1/pid" ] || [ -e "$1/exit" ]
}

start() {
    local role=${1%%:*} image name folder
    trace "start $*"
    image=$(role_value "$role" image)
    [ "$1" = "$role" ] || image=${1#*:}
    [ -d "/images/$image" ] || fail "the images disk has no $image"
    shift

    name=$role
    case ${1:-} in
    '' | -- | *=*) ;;
    *) name=$1 && shift ;;
    esac
    [ ! -e "/vm/containers/$name/now" ] || [ -e "/vm/containers/$name/now/exit" ] || fail "$name is running"
    folder=$(next_attempt "/vm/containers/$name")
    echo "$role" >"/vm/containers/$name/role"

    cat "/images/$image/env" >"$folder/env"
    role_value "$role" env >>"$folder/env"
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        echo "$1" >>"$folder/env"
        shift
    done
    [ $# -eq 0 ] || shift
    write_args "$role" "$image" "$@" >"$folder/args"
    cat "/images/$image/cwd" >"$folder/cwd"
    write_mounts "$role" "$folder" >"$folder/mounts"

    : >"$folder/log"
    : >"$folder/termination-log"
    mount_root "$image" "$folder"
    create_sources "$folder/mounts"
    write_config "$role" "$folder"
    run_bundle "$name" "$folder" &
    poll 20 started_or_ended "$folder" || fail "$name: crun has not started it"
}

# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
# The machines that the VM can be, by the kernel's architecture: all that differs between them is in these rows. The same on
# all are the numbers of PCI slots, and the memory: 2048 MB, of which the kernel takes 1792 (mem=) and leaves simdev's devices
# the rest. Where the memory begins is in simdev/root_bus.h.
#
#   debian        the architecture, as dpkg calls it
#   triplet       of Debian's folders, usr/lib/TRIPLET
#   loader        of shared libraries
#   kbuild        the architecture, as the kernel's makefiles call it
#   config        of the kernel's configuration: on for this machine alone
#   qemu          the program that is this machine, and its package; user: the one that runs a single program of it
#   type          -machine
#   cpu, tcg_cpu  -cpu: as it is, and emulated, without what takes TCG long
#   iommu         -machine and more with one, for run-vm --pf, and iommu_words for the kernel
#   console       the serial port
#   words         for the kernel
#   image         what file(1) says of a kernel that QEMU starts at once, and boots, what the kernel must have for it
#   firmware      for run-vm --efi
#
# machine_NAME is named as uname -m does. -g: BATS sources this in a function.
declare -gA machine_x86_64=(
    [debian]=amd64
    [triplet]=x86_64-linux-gnu
    [loader]=lib64/ld-linux-x86-64.so.2
    [kbuild]=x86_64
    [config]=CONFIG_X86_64
    [qemu]=qemu-system-x86_64
    [package]=qemu-system-x86
    [user]=qemu-x86_64-static
    [type]=q35
    [cpu]=max
    # TCG runs "rep movsb" and "stosb" byte by byte: without them a case takes a tenth less.
    [tcg_cpu]='max,-erms,-fsrm'
    [iommu]='-machine q35,kernel-irqchip=split -device intel-iommu,intremap=off'
    [iommu_words]='intel_iommu=on iommu=pt'
    [console]=ttyS0
    [words]=no_timer_check
    # QEMU starts an ELF kernel by its PVH note.
    [image]='ELF 64-bit'
    [boots]=CONFIG_PVH
    [firmware]=''
)
declare -gA machine_aarch64=(
    [debian]=arm64
    [triplet]=aarch64-linux-gnu
    [loader]=lib/ld-linux-aarch64.so.1
    [kbuild]=arm64
    [config]=CONFIG_ARM64
    [qemu]=qemu-system-aarch64
    [package]=qemu-system-arm
    [user]=qemu-aarch64-static
    [type]=virt
    [cpu]=max
    # TCG takes three times as long for a boot where pointers are signed by QARMA5.
    [tcg_cpu]='max,pauth-impdef=on'
    [iommu]='-machine virt,iommu=smmuv3'
    [iommu_words]='iommu.passthrough=1'
    [console]=ttyAMA0
    [words]=''
    [image]='ARM64 boot executable Image'
    [boots]=CONFIG_ARM64
    [firmware]=/usr/share/qemu-efi-aarch64/QEMU_EFI.fd
)
machines=(x86_64 aarch64)

this_machine=$(uname -m)

# use_machine NAME: sets machine_name, and machine to its row.
use_machine() {
    [[ " ${machines[*]} " == *" $1 "* ]] || {
        printf 'there is no machine "%s" here: take one of %s, or add its row to tests/vm/machine.bash\n' "$1" "${machines[*]}" >&2
        return 1
    }
    machine_name=$1
    declare -gn machine=machine_$1
}

is_foreign() {
    [ "$machine_name" != "$this_machine" ]
}

# machine_of_krel KREL: the one that its name says, as Debian's flavours and RPM's architectures do, else this one.
machine_of_krel() {
    local name
    for name in "${machines[@]}"; do
        local -n row=machine_$name
        [[ ! $1 =~ [-.+](${row[debian]}|$name)([-.+]|$) ]] || { echo "$name" && return; }
    done
    echo "$this_machine"
}

# machine_of_config FILE: the one that a kernel of this configuration is for.
machine_of_config() {
    local name
    for name in "${machines[@]}"; do
        local -n row=machine_$name
        ! grep -sqx "${row[config]}=y" "$1" || { echo "$name" && return; }
    done
    return 1
}

# run_foreign PROGRAM ARGUMENT…: a static program of the machine, wherever it runs.
run_foreign() {
    if is_foreign; then
        "${machine[user]}" "$@"
    else
        "$@"
    fi
}

# ---- packages of another architecture

# The repository that this machine's apt takes Debian from: it has the other releases too.
debian_repository() {
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' 'Component: main' | head -n 1
}

own_apt_config=${APT_CONFIG:-}
use_own_apt() {
    unset APT_CONFIG
    [ -z "$own_apt_config" ] || export APT_CONFIG=$own_apt_config
}

# use_apt: from here on apt knows the machine's packages. Those of another architecture are in lists of their own, in the
# user's cache, from the repositories of Debian that this machine's apt has: its own lists stay as they are.
use_apt() {
    local folder lock keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    use_own_apt
    is_foreign || return 0
    folder=${XDG_CACHE_HOME:-$HOME/.cache}/slipway/tests/apt-${machine[debian]}
    mkdir -p "$folder"/{state/lists/partial,cache/archives/partial}
    exec {lock}>"$folder/lock"
    flock "$lock"
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
        sed "s#^#deb [arch=${machine[debian]} signed-by=$keyring] #" >"$folder/sources.list"
    : >"$folder/status"
    cat >"$folder/apt.conf" <<CONFIGURATION
APT::Architecture "${machine[debian]}";
APT::Architectures { "${machine[debian]}"; };
APT::Sandbox::User "root";
APT::Install-Recommends "false";
Dir::State "$folder/state";
Dir::State::status "$folder/status";
Dir::Cache "$folder/cache";
Dir::Etc::sourcelist "$folder/sources.list";
Dir::Etc::sourceparts "/dev/null";
CONFIGURATION
    export APT_CONFIG=$folder/apt.conf
    # They are as old as this machine's own.
    if [ ! -e "$folder/updated" ] || [ "$(find /var/lib/apt/lists -maxdepth 1 -name '*InRelease' -newer "$folder/updated" -print -quit)" ]; then
        printf '==> apt-get update, for %s\n' "${machine[debian]}" >&2
        apt-get -q update >&2 && : >"$folder/updated"
    fi
    exec {lock}>&-
}

# closure PACKAGE…: the names of these packages and of all that they need.
closure() {
    apt-get -s -q --no-install-recommends -o Dir::State::status=/dev/null install "$@" 2>/dev/null | sed -n 's/^Inst \([^ :]*\).*/\1/p'
}

# unpack_packages DEBS FOLDER PACKAGE…: just these, without documentation.
unpack_packages() {
    local debs=$1 folder=$2 package deb
    shift 2
    mkdir -p "$folder"
    for package in "$@"; do
        deb=$("${BASH_SOURCE[0]%/*}/fetch-deb" "$debs" "$package") || return 1
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$folder" --exclude=./usr/share/{doc,man,locale,lintian}
    done
}

# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For the scripts that make something that takes long: the user's cache keeps it for other checkouts of this project.

# cached KIND KEY: sets kept, the folder where the cache keeps a thing of this kind that was made of what KEY is a hash of; true
# when it is there.
cached() {
    kept=${XDG_CACHE_HOME:-$HOME/.cache}/slipway/tests/$1-$2
    [ -d "$kept" ] && touch "$kept"
}

# keep FOLDER DAYS [MB]: moves the folder there. What no run has used for so many days goes, and the oldest of its kind that
# no case has as a disk, and nobody has asked for or had in 20 minutes, while all of it takes more than so many MB.
keep() {
    local new kind old
    kind=$(basename "${kept%-*}")
    mkdir -p "${kept%/*}"
    find "${kept%/*}" -maxdepth 1 \( -name "$kind-*" -mtime "+$2" -o -name '.new.*' -mtime +0 \) -exec rm -rf {} +
    while read -r old && [ -n "${3:-}" ] && [ "$(du -smc "${kept%/*}/$kind"-* | tail -n 1 | cut -f 1)" -gt "$3" ]; do
        (exec 8<"$old" && flock -n 8 && rm -rf "$old") || true
    done < <(find "${kept%/*}" -maxdepth 1 -name "$kind-*" -mmin +20 -printf '%T@ %p\n' | sort -n | cut -d ' ' -f 2-)
    chmod 755 "$1"
    # It may come from another file system, and gets its name when it is whole. Another run may have been quicker.
    new=$(mktemp -d "${kept%/*}/.new.XXXXXX")
    mv "$1" "$new/whole"
    mv -T "$new/whole" "$kept" 2>/dev/null || [ -d "$kept" ]
    rm -rf "$new"
}

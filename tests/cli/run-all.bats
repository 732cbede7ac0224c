#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# tests/run-all and scripts/check, in a tree of a few files that take no time: what they count, show, keep and end.

setup() {
    top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree"/{scripts,tests/{cli,unit/part,vm/full,real,fuzz}} "$tree/build/unit/part"
    cp "$top"/tests/{run-all,kept.bash,inputs} "$tree/tests"
    cp "$top/scripts/check" "$tree/scripts"
    printf '%s\n' '#!/bin/sh' 'echo 1..1' 'echo ok 1 - shellcheck' >"$tree/scripts/lint"
    printf '%s\n' '#!/bin/sh' >"$tree/scripts/install-packages"
    chmod +x "$tree"/scripts/*
    printf '%s:;@true\n' all unit-programs images um fuzz-programs >"$tree/Makefile"
    touch "$tree/tests/unit/part/test_one.c"
    printf '%s\n' '#!/bin/sh' 'echo 1..2' 'echo ok 1 - a' 'echo ok 2 - b' >"$tree/build/unit/part/test_one"
    chmod +x "$tree/build/unit/part/test_one"
    printf '@test "it is good" { echo good >>ran; }\n' >"$tree/tests/cli/good.bats"
    export XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache O=build
    # The run that this file is part of has its own, which make and scripts/check export.
    unset CHECK_ANEW MAKE MAKEFLAGS CFLAGS CCACHE_DIR SLIPWAY "${!VM_@}"
    cd "$tree" || return
}

add_bad() {
    printf '@test "one, that fails (here)" { echo bad >>ran; seq 100; echo "what it said"; false; }\n@test "two" { true; }\n' >tests/cli/bad.bats
    printf '@test "three" { skip "no such card"; }\n' >>tests/cli/bad.bats
}

# ends_with LINE…: these are the last lines.
ends_with() {
    [[ $output == *"$(printf '%s\n' "$@")" ]]
}

@test "layers, their seconds and the count; the last line is the count alone" {
    run scripts/check --quick
    echo "$output"
    ((status == 0))
    [[ ${lines[0]} == '# 4 layers: build lint unit cli' ]]
    [[ $output == *'by default figures'*'# layer 3 of 4: unit'*'# layer 4 of 4: cli'* ]]
    [[ $output == *'# layer     seconds  passed  failed skipped    kept'*'# unit '*' 2       0       0       0'* ]]
    [[ ${lines[-1]} == '4 passed, 0 failed' ]]
    # By now there are figures, of empty caches for three of the four.
    grep -q '^cold/unit [0-9]*$' "$XDG_CACHE_HOME/slipway/check-seconds"
    mkdir -p "$XDG_CACHE_HOME/slipway/"{ccache,lint}
    scripts/check --quick
    run scripts/check --quick
    [[ $output == *'by what they took here last'* ]]
}

@test "what failed stands again at the end, bounded, with the command that runs it alone; it is counted once" {
    add_bad
    echo 'echo not ok 3 "# SKIP c"' >>build/unit/part/test_one
    run tests/run-all build lint unit cli
    echo "$output"
    ((status == 1))
    end=${output#*# what failed, again:}
    [[ $end == *'not ok 1 one, that fails (here) in '*'# … (the end of '*'# 100'*'# what it said'* ]]
    [[ $end == *"# again: bats -f '^one, that fails .*here.*\$' tests/cli/bad.bats"* && $end != *'# 30'$'\n'* ]]
    [[ ${lines[-2]} == 'skipped: unit/part/test_one.c (1: c); cli/bad.bats (1: no such card)' && ${lines[-1]} == '5 passed, 1 failed' ]]
    # That command is right.
    bash -c "$(sed -n 's/^# again: //p' <<<"$end") >said" || true
    grep -q '^1..1$' said
}

@test "a crash, a file without a test and a plan that is not kept are failures, with the end of what was said" {
    printf '%s\n' '#!/bin/sh' 'echo 1..1' 'echo ok 1 - a' 'echo ERROR: AddressSanitizer' 'kill -SEGV $$' >build/unit/part/test_one
    printf '# nothing\n' >tests/cli/none.bats
    # shellcheck disable=SC2016 # the case's
    printf '@test "it ends the whole file" { kill -KILL $PPID; }\n' >tests/cli/killed.bats
    run tests/run-all unit cli
    echo "$output"
    ((status == 1))
    end=${output#*# what failed, again:}
    [[ $end == *'not ok - unit/part/test_one.c: ended with status 139'*'# ERROR: AddressSanitizer'*'# again: make build/unit/part/test_one && build/unit/part/test_one'* ]]
    [[ $end == *'not ok - cli/none.bats: ran no test'* && $end == *'not ok'*killed.bats* ]]
    [[ ${lines[-1]} == '3 passed, 3 failed' ]]
}

@test "--failed runs only what failed, until it passes, and says that there is nothing to run" {
    run scripts/check --failed
    [[ $output == *'no run has left build/check.failed'* && ${lines[-1]} == '0 passed, 0 failed' && $status == 0 ]]
    add_bad
    printf '%s\n' '#!/bin/sh' 'echo 1..1' 'echo not ok 1 - shellcheck' 'exit 1' >scripts/lint
    run tests/run-all build lint unit cli
    [[ ${lines[-1]} == '4 passed, 2 failed' && $output == *'# again: scripts/lint shellcheck'* ]]
    # Another layer that passes takes nothing from the list.
    tests/run-all unit
    [[ $(cat build/check.failed) == $'cli tests/cli/bad.bats\nlint' ]]
    rm ran
    run scripts/check --failed
    echo "$output"
    [[ ${lines[-1]} == '1 passed, 2 failed' && $status == 1 && $(cat ran) == bad ]]
    [[ $output == *'# what failed: cli tests/cli/bad.bats'*'# what failed: lint'*'# layer 1 of 3: build'* ]]
    sed -i 's/false;/true;/' tests/cli/bad.bats
    sed -i 's/not ok/ok/; s/exit 1//' scripts/lint
    run scripts/check --failed
    [[ ${lines[-1]} == '3 passed, 0 failed' && $status == 0 ]]
    run scripts/check --failed
    [[ $output == *'nothing failed when it was run last'* && ${lines[-1]} == '0 passed, 0 failed' && $status == 0 ]]
}

@test "what another run in the same folder has noted meanwhile stays" {
    echo '@test "fails" { false; }' >tests/cli/bad.bats
    echo '@test "meanwhile" { echo "cli tests/cli/bad.bats" >build/check.failed; }' >tests/cli/good.bats
    echo 'cli tests/cli/good.bats' >build/check.failed
    tests/run-all failed
    [[ $(cat build/check.failed) == 'cli tests/cli/bad.bats' ]]
}

@test "a layer that could not be built is run as a whole the next time" {
    sed -i '/^images/s/true/echo no image; false/' Makefile
    printf '@test "it boots" { echo boots >>ran; }\n' >tests/vm/10-boot.bats
    run tests/run-all build vm
    echo "$output"
    [[ $output == *'# what failed, again:'*'not ok - vm: make images failed, see above'*'# no image'*'# again: make images'* ]]
    [[ ${lines[-1]} == '0 passed, 1 failed' && ! -e ran ]]
    sed -i '/^images/s/false/true/' Makefile
    run tests/run-all failed
    [[ ${lines[-1]} == '1 passed, 0 failed' && -e ran ]]
}

# shellcheck disable=SC2016 # the case's
@test "what failed in the VM is run again on the guest where it failed" {
    printf '@test "it boots" { echo "$VM_GUEST" >>ran; [[ -e build/good ]]; }\n' >tests/vm/10-boot.bats
    VM_GUEST=um run tests/run-all vm
    touch build/good
    run tests/run-all failed
    echo "$output"
    [[ ${lines[-1]} == '1 passed, 0 failed' && $(cat ran) == $'um\num' ]]
}

# On one processor two run at once: each of the long ones ends when the other has begun.
# shellcheck disable=SC2016
@test "one file more than there are processors is run at once, and those that took longest begin first" {
    local name
    mkdir -p "$XDG_CACHE_HOME/slipway"
    for name in long longest; do
        printf '%s\n' "@test '$name' {" "echo $name >>ran" 'for _ in {1..300}; do' \
            '(($(wc -l <ran) < 2)) || return 0; sleep 0.1; done; false' '}' >"tests/cli/$name.bats"
        echo "cli:tests/cli/$name.bats 100" >>"$XDG_CACHE_HOME/slipway/check-seconds"
    done
    echo 'cli:tests/cli/good.bats 50' >>"$XDG_CACHE_HOME/slipway/check-seconds"
    printf '#!/bin/sh\necho 1\n' >nproc
    chmod +x nproc
    PATH=$PWD:$PATH run tests/run-all cli
    echo "$output"
    [[ ${lines[-1]} == '3 passed, 0 failed' && $(tail -n 1 ran) == good ]]
}

# runs ENDING RAN [OPTION…]: a run of the layers ends with these lines; ran has what was run in it.
runs() {
    local ending=$1 ran=$2
    rm -f ran
    run scripts/check "${@:3}" --quick
    echo "$output"
    [[ ${lines[-1]} == "${ending##*$'\n'}" && $output == *"$ending" && $(sort ran 2>/dev/null) == "$ran" ]]
}

@test "what passed on the same inputs is shown and counted, not run again, also in another checkout; what skipped or failed is run" {
    local kept='kept: 3 of those passed before on the same inputs, and were not run again: scripts/check --anew runs all'
    printf '/build/\n/ran\n' >.gitignore
    git init -q .
    runs '4 passed, 0 failed' good
    # In the row of the layer, too.
    runs "$kept"$'\n4 passed, 0 failed' ''
    [[ $output == *'# tests/cli/good.bats'*'# passed on '*' with the same inputs: not run again'*'ok 1 it is good'* ]]
    grep -qE '^# cli +[0-9]+ +1 +0 +0 +1$' <<<"$output"
    cp -r "$tree" "$tree-2"
    cd "$tree-2"
    runs "$kept"$'\n4 passed, 0 failed' ''
    cd "$tree"
    runs '4 passed, 0 failed' good --anew

    # Each of these is an input of the CLI's tests: a file of the tree, its execute bit, a variable, the file of tests itself.
    mkdir cli
    echo 1 >cli/new.c
    runs '4 passed, 0 failed' good
    chmod +x cli/new.c
    runs '4 passed, 0 failed' good
    CFLAGS=-O3 runs '4 passed, 0 failed' good
    echo '# more' >>tests/cli/good.bats
    runs "${kept/3/2}"$'\n4 passed, 0 failed' good
    # So is the program that was built.
    echo 1 >build/slipway
    runs "${kept/3/2}"$'\n4 passed, 0 failed' good
    # This is not.
    echo 1 >tests/real/new.bats
    runs "$kept"$'\n4 passed, 0 failed' ''

    # A file that changes what it has read is not kept, nor is one that skipped a case.
    echo '@test "it changes" { echo more >>cli/new.c; }' >tests/cli/changes.bats
    echo '@test "it skips" { echo skips >>ran; skip "no card"; }' >tests/cli/skips.bats
    rm -f ran
    scripts/check --quick
    scripts/check --quick
    [[ $(grep -c more cli/new.c) == 2 && $(grep -c skips ran) == 2 ]]
    rm tests/cli/{changes,skips}.bats
    # One that failed is run on the inputs on which it passed before, too.
    echo '@test "it is there" { echo there >>ran; [ ! -e build/bad ]; }' >tests/cli/there.bats
    scripts/check --quick
    touch build/bad
    runs '4 passed, 1 failed' $'good\nthere' --anew
    rm build/bad
    runs "$kept"$'\n5 passed, 0 failed' there
}

# No process of a run in this tree is there any more.
none_left() {
    local process left=()
    for process in /proc/[0-9]*; do
        [[ $process == "/proc/$$" || ! $process/cwd -ef $tree ]] || left+=("$process")
    done
    echo "left: ${left[*]}"
    ((${#left[@]} == 0))
}

# killed SIGNAL STATUS COMMAND…: while a file is at its second case, another has passed, and a child has a session of its own.
killed() {
    local signal=$1 wanted=$2 ended=0 run round=0
    # shellcheck disable=SC2016 # the case's
    printf '%s\n' '@test "begins" { true; }' '@test "waits" { sleep 987 & setsid sleep 988 & touch waits; wait; }' >tests/cli/long.bats
    # As a terminal's: with a process group of its own, and SIGINT not ignored.
    setsid env --default-signal=INT "${@:3}" >said 2>&1 3>&- &
    run=$!
    until [[ -e waits ]] && grep -q 'good.bats: ' said; do
        # A minute.
        if ((round++ == 1200)) || ! kill -0 "$run"; then
            kill "$run" || true
            cat said
            return 1
        fi
        sleep 0.05
    done
    kill "-$signal" "$run"
    wait "$run" || ended=$?
    cat said
    ((ended == wanted))
    none_left
    grep -q "interrupted by SIG$signal in the layer cli" said
    grep -qE '^# cli .* interrupted$' said
}

@test "a run that is ended by SIGINT leaves no process and says what it had counted" {
    killed INT 130 tests/run-all cli lint
    [[ $(tail -n 1 said) == '1 passed, 1 failed' ]]
    # --failed goes on from there.
    [[ $(cat build/check.failed) == $'cli\nlint' ]]
    rm tests/cli/long.bats
    run tests/run-all failed
    echo "$output"
    [[ ${lines[-1]} == '2 passed, 0 failed' && ! -s build/check.failed ]]
}

@test "SIGTERM, to scripts/check" {
    killed TERM 143 scripts/check --quick
    [[ $(tail -n 1 said) == '4 passed, 1 failed' ]]
}

@test "a file that hangs is ended, with what has a process group of its own; the others are run" {
    mkdir -p "$XDG_CACHE_HOME/slipway"
    echo 'cli:tests/cli/hangs.bats 0' >"$XDG_CACHE_HOME/slipway/check-seconds"
    sed -i 's/^least_limit=.*/least_limit=1/' tests/run-all
    echo '@test "hangs" { timeout 985 sleep 986 & setsid sleep 987 & wait; }' >tests/cli/hangs.bats
    run timeout 60 tests/run-all cli
    echo "$output"
    ((status == 1))
    none_left
    [[ $output == *'not ok'*'# tests/cli/hangs.bats had not ended after 1 s: tests/run-all has ended it'* ]]
    [[ ${lines[-1]} == '1 passed, 1 failed' ]]
}

@test "every file and case of check-full belongs to a part" {
    echo "1 tests/vm/full/10-one.bats" >tests/full-parts
    printf '@test "one" { echo one >>ran; }\n' >tests/vm/full/10-one.bats
    tests/run-all parts
    printf '%s\n' '# bats test_tags=full' '@test "minutes (or more)" { echo minutes >>ran; }' '@test "short" { echo short >>ran; }' >tests/real/debian.bats
    cp tests/vm/full/10-one.bats tests/vm/full/20-two.bats
    run tests/run-all parts
    ((status == 1))
    [[ $output == *'tests/vm/full/20-two.bats belongs to no part'* && $output == *'tests/real/debian.bats belongs to no part'* ]]
    run tests/run-all full-1
    [[ $output == *'not ok - full-1: tests/full-parts is not complete'* && ${lines[-1]} == '1 passed, 1 failed' ]]
    [[ $(cat build/check.failed) == full-1 ]]
    printf '%s\n' '2 tests/vm/full/20-two.bats' '2 tests/real/debian.bats hours' >>tests/full-parts
    run tests/run-all parts
    [[ $output == *'debian.bats: no part of check-full (tests/full-parts) has the case: minutes (or more)'* ]]
    [[ $output == *'part 2: tests/real/debian.bats hours finds no case'* ]]
    sed -i 's/hours/minutes/' tests/full-parts
    tests/run-all parts
    tests/run-all failed
    [[ ! -s build/check.failed ]]
    rm ran
    run tests/run-all real full-2
    echo "$output"
    [[ ${lines[-1]} == '3 passed, 0 failed' && $(sort ran) == $'minutes\none\nshort' ]]
    run tests/run-all full-3
    ((status == 2))
}

@test "the parts of this tree are complete" {
    cd "$top"
    tests/run-all parts
}

@test "what tests/inputs names is there" {
    cd "$top"
    local name specs
    while read -r name specs; do
        # shellcheck disable=SC2046 # words
        git ls-files --error-unmatch -- $(tr ' ' '\n' <<<"$specs" | grep -v '^:!') >/dev/null
        [[ $name != tests/* || -e $name ]]
    done < <(grep -v '^#\|^never' tests/inputs)
}

# references FILE…: "FILE PATH" for each path of this tree that it loads, or names after a variable or a command.
references() {
    git ls-files | awk '
        FILENAME == "-" { for (path = $0; known[path] = 1 && sub("/[^/]*$", "", path); ); next }
        FNR == 1 { folder = FILENAME; sub("[^/]*$", "", folder) }
        function seen(path) {
            while (sub("[^/.]+/\\.\\./", "", path)) ;
            if (path in known && index(path, "/")) print FILENAME, path
        }
        /^ *#/ { next }
        /^ *load / { seen(folder $2 ".bash") }
        {
            rest = $0
            while (match(rest, "docs/[A-Za-z0-9_./-]+")) {
                seen(substr(rest, RSTART, RLENGTH))
                rest = substr(rest, RSTART + RLENGTH)
            }
            rest = $0
            while (match(rest, "[\")}A-Za-z_]/[A-Za-z0-9_.-]+[A-Za-z0-9_./-]*")) {
                path = substr(rest, RSTART + 2, RLENGTH - 2)
                rest = substr(rest, RSTART + RLENGTH)
                seen(folder path)
                sub("^(\\.\\./)+", "", path)
                seen(path)
            }
        }' - "$@"
}

@test "what a file of tests reads, also by what it loads, is in tests/inputs" {
    cd "$top"
    . tests/kept.bash
    local name layer file stream=$BATS_TEST_TMPDIR/stream
    {
        sed -nE '/^(#|never)/!s/ .*//p' tests/inputs | sort -u | while read -r name; do
            list_inputs "$name" | tr '\0' '\n' | sed "s#^#has $name #"
        done
        # shellcheck disable=SC2046 # words
        references $(git ls-files tests | grep -vE '^tests/(unit|fuzz)/|\.([chz]|md)$') | sed 's/^/reads /'
        for layer in cli real vm; do
            for file in tests/"$layer"/*.bats; do echo "test $file $(input_group "$file")"; done
        done
        sed -nE 's/^[0-9]+ ([^ ]+\.bats).*/test \1 full/p' tests/full-parts
    } >"$stream"
    awk '
        $1 == "has" { for (path = $3; has[$2, path] = 1 && sub("/[^/]*$", "", path); ); }
        $1 == "reads" { reads[$2] = reads[$2] " " $3 }
        $1 == "test" { test = $2; group = $3; visit(test, "") }
        function visit(file, from,  names, count, i) {
            if (visited[test, group, file]++) return
            if (file != test && !((group, file) in has) && !((test, file) in has)) {
                print test ", by " from ", reads " file ": give it to a row of " group " or of the file in tests/inputs"
                lacking = 1
                return
            }
            count = split(reads[file], names, " ")
            for (i = 1; i <= count; i++) visit(names[i], file)
        }
        END { exit lacking }' "$stream"
    # The search finds what is loaded by two steps, and what is named after a variable.
    grep -qx 'reads tests/cli/registry.bash tests/vm/fetch-deb' "$stream"
    grep -qx 'reads tests/real/force.bats tests/cli/registry.bash' "$stream"
}

@test "fetch-deb keeps a package whose time, which is the server's, is years back" {
    load repository
    repository=$top make_repository
    add_package old
    touch -d 2020-01-01 "$mirror"/pool/old_*.deb
    publish
    # Debian's lists have the one hash, and its servers no "file:".
    sed -i /^SHA512:/d "$mirror"/dists/bookworm/main/*/Packages
    publish_release bookworm
    sed -i 's/ file:/ copy:/' "$BATS_TEST_TMPDIR/apt/sources.list"
    update_system
    run "$top/tests/vm/fetch-deb" "$BATS_TEST_TMPDIR/debs" old
    echo "$output"
    ((status == 0))
    [[ -s ${lines[-1]} && $(find "$XDG_CACHE_HOME/slipway/tests/debs" -type f -size +0 | wc -l) == 1 ]]
}

@test "scripts/check says what it takes" {
    run scripts/check --help
    ((status == 0))
    [[ $output == *--quick*--failed* ]]
    run scripts/check --everything
    ((status == 2))
}

#!/usr/bin/env bash
# What profile.sh and compare.sh share: how code of the pull request is run, and how lines become options.
#
# That code gets no token and none of the files by which a step sets variables, paths and outputs of the steps
# after it, and what it writes into them all the same is taken back.
set -euo pipefail

without_tokens() {
    local withheld=() files=() sizes=() name file index code=0
    while IFS= read -r name; do
        case "$name" in
        GITHUB_TOKEN | GH_TOKEN | ACTIONS_* | INPUT_* | GITHUB_ENV | GITHUB_PATH | GITHUB_OUTPUT | GITHUB_STATE)
            withheld+=(-u "$name")
            ;;
        esac
    done < <(compgen -e)
    files=("${GITHUB_ENV:-}" "${GITHUB_PATH:-}" "${GITHUB_OUTPUT:-}" "${GITHUB_STATE:-}")
    for file in "${files[@]}"; do
        if [ -f "$file" ]; then sizes+=("$(stat -c %s "$file")"); else sizes+=(""); fi
    done
    env ${withheld[@]+"${withheld[@]}"} "$@" || code=$?
    for index in "${!files[@]}"; do
        if [ -n "${sizes[index]}" ]; then truncate -s "${sizes[index]}" "${files[index]}"; fi
    done
    return "$code"
}

# Sets `options` to those of $1, one a line: an option with its value, split at the first blank, never read by a
# shell. With $2, a pattern, only those whose name it matches.
read_options() {
    local line name
    options=()
    while IFS= read -r line; do
        line="${line#"${line%%[![:space:]]*}"}"
        line="${line%"${line##*[![:space:]]}"}"
        [ -n "$line" ] || continue
        name="${line%%[[:space:]]*}"
        if [ -n "${2:-}" ] && ! [[ "$name" =~ $2 ]]; then continue; fi
        options+=("$name")
        case "$line" in *[[:space:]]*) options+=("${line#*[[:space:]]}") ;; esac
    done <<<"$1"
}

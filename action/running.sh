#!/usr/bin/env bash
# What profile.sh and compare.sh share: how code of the pull request is run, and how lines become options.
#
# That code gets no token. The scripts give up their own first: what a process was started with stays readable in
# /proc/PID/environ.
set -euo pipefail

withheld=()
while IFS= read -r name; do
    case "$name" in
    GITHUB_TOKEN | GH_TOKEN | GH_ENTERPRISE_TOKEN | GITHUB_ENTERPRISE_TOKEN | ACTIONS_* | INPUT_*)
        withheld+=(-u "$name")
        ;;
    esac
done < <(compgen -e)
if [ "${#withheld[@]}" -gt 0 ]; then exec env "${withheld[@]}" bash "$0" "$@"; fi

# In a container job another user owns the checkout, which the job trusts all the same.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'

# Runs a command that may run the pull request's code; see contained.py.
contained() {
    python3 -I "$(dirname "${BASH_SOURCE[0]}")/contained.py" "$@"
}

# Removes what is neither a file nor a folder from the report: it would be followed by whoever reads it next.
refuse_links() {
    local found
    if [ -L "$ADVISOR_OUT" ] || ! [ -d "$ADVISOR_OUT" ]; then
        if [ -e "$ADVISOR_OUT" ] || [ -L "$ADVISOR_OUT" ]; then
            echo "::warning::The folder of the report was replaced by something else, which is not used." >&2
        fi
        rm -rf -- "$ADVISOR_OUT"
        mkdir -p -- "$ADVISOR_OUT"
    fi
    found="$(find "$ADVISOR_OUT" -mindepth 1 ! -type f ! -type d -print0 -delete | tr -dc '\0' | wc -c)"
    if [ "$found" -gt 0 ]; then
        echo "::warning::The folder of the report held $found links or other things that are no files, which are not used." >&2
    fi
}

# Sets `options` to those of $1, one a line: an option with its value, split at the first blank, never read by a
# shell. With $2, a pattern, only those whose name it matches; with $3, another, only those whose name it does not.
read_options() {
    local line name
    options=()
    while IFS= read -r line; do
        line="${line#"${line%%[![:space:]]*}"}"
        line="${line%"${line##*[![:space:]]}"}"
        [ -n "$line" ] || continue
        name="${line%%[[:space:]]*}"
        if [ -n "${2:-}" ] && ! [[ "$name" =~ $2 ]]; then continue; fi
        if [ -n "${3:-}" ] && [[ "$name" =~ $3 ]]; then continue; fi
        options+=("$name")
        case "$line" in *[[:space:]]*) options+=("${line#*[[:space:]]}") ;; esac
    done <<<"$1"
}

# A path that no program takes for an option.
path_of() {
    case "$1" in -*) printf './%s' "$1" ;; *) printf '%s' "$1" ;; esac
}

#!/usr/bin/env bash
# Profiles the workload. Writes code and profile to $GITHUB_OUTPUT and always ends well, so that the report of a
# run that failed is kept and commented too; gate.sh gives the exit code to the job.
#
# The workload is code of the pull request: it gets no token and none of the files by which a step sets variables,
# paths and outputs of the steps after it, and what it writes into them all the same is taken back.
set -euo pipefail

withheld=()
while IFS= read -r name; do
    case "$name" in
    GITHUB_TOKEN | GH_TOKEN | ACTIONS_* | INPUT_* | GITHUB_ENV | GITHUB_PATH | GITHUB_OUTPUT | GITHUB_STATE)
        withheld+=(-u "$name")
        ;;
    esac
done < <(compgen -e)
files=("${GITHUB_ENV:-}" "${GITHUB_PATH:-}" "${GITHUB_OUTPUT:-}" "${GITHUB_STATE:-}")
sizes=()
for file in "${files[@]}"; do
    if [ -f "$file" ]; then sizes+=("$(stat -c %s "$file")"); else sizes+=(""); fi
done

arguments=("$ADVISOR_WORKLOAD" --out "$ADVISOR_OUT" --format html,md,json)
while IFS= read -r line; do
    # A line is an option with its value: split at the first blank, never read by a shell.
    line="${line#"${line%%[![:space:]]*}"}"
    line="${line%"${line##*[![:space:]]}"}"
    [ -n "$line" ] || continue
    arguments+=("${line%%[[:space:]]*}")
    case "$line" in *[[:space:]]*) arguments+=("${line#*[[:space:]]}") ;; esac
done <<<"${ADVISOR_OPTIONS:-}"

# A report that an earlier step left must not pass for this one's.
rm -rf -- "$ADVISOR_OUT"
code=0
env ${withheld[@]+"${withheld[@]}"} advisor profile "${arguments[@]}" || code=$?
for index in "${!files[@]}"; do
    if [ -n "${sizes[index]}" ]; then truncate -s "${sizes[index]}" "${files[index]}"; fi
done
mkdir -p "$ADVISOR_OUT"
echo "code=$code" >>"$GITHUB_OUTPUT"
if [ -f "$ADVISOR_OUT/profile.json" ]; then
    echo "profile=$ADVISOR_OUT/profile.json" >>"$GITHUB_OUTPUT"
fi

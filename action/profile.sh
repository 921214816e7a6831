#!/usr/bin/env bash
# Profiles the workload. Writes code and profile to $GITHUB_OUTPUT and always ends well, so that the report of a
# run that failed is kept and commented too; gate.sh gives the exit code to the job.
set -euo pipefail

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
advisor profile "${arguments[@]}" || code=$?
mkdir -p "$ADVISOR_OUT"
echo "code=$code" >>"$GITHUB_OUTPUT"
if [ -f "$ADVISOR_OUT/profile.json" ]; then
    echo "profile=$ADVISOR_OUT/profile.json" >>"$GITHUB_OUTPUT"
fi

#!/usr/bin/env bash
# Compares with the stored baseline, if there is one; else runs both versions of the workload, the base commit's
# and this checkout's, side by side. Writes code and outcome to $GITHUB_OUTPUT and always ends well; gate.sh gives
# the exit code to the job.
set -euo pipefail
# shellcheck source=action/running.sh disable=SC1091
. "$(dirname "${BASH_SOURCE[0]}")/running.sh"

# Of the options of `advisor profile`, those that `advisor compare --run` has too.
shared='^--(set|gpu|no-gpu|anyway|indifference|max-seconds|timeout|seed|numa|target)(=|$)'

# The outcome also goes to the comment, with the error that ended the comparison.
give() {
    rm -f -- "$ADVISOR_OUT/outcome" 2>/dev/null || true
    mkdir -p -- "$ADVISOR_OUT"
    { echo "$2"; [ -z "${messages:-}" ] || { grep -m 1 '^error: ' "$messages" || true; }; } >"$ADVISOR_OUT/outcome"
    printf 'code=%s\noutcome=%s\n' "$1" "$2" >>"$GITHUB_OUTPUT"
    exit 0
}

# What the profile's code wrote there must not pass for a comparison.
refuse_links
rm -f -- "$ADVISOR_OUT"/compare.*

options=()
gates=()
while IFS= read -r line; do
    line="${line//[[:space:]]/}"
    [ -n "$line" ] && gates+=(--fail-if "$line")
done <<<"${ADVISOR_FAIL_IF:-}"

strategies=()
while IFS= read -r line; do
    line="${line//[[:space:]]/}"
    [ -n "$line" ] && strategies+=(--strategy "$line")
done <<<"${ADVISOR_STRATEGIES:-}"

if [ -z "${ADVISOR_BASELINE:-}" ] && [ -z "${ADVISOR_BASE:-}" ]; then
    problem="${ADVISOR_BASE_PROBLEM:-this is not a pull request: set the input against to a revision, or baseline to a profile.json}"
    if [ "${#gates[@]}" -gt 0 ]; then
        echo "::error::fail-if needs something to compare with, and $problem." >&2
        give 2 failed
    fi
    if [ -n "${ADVISOR_BASE_PROBLEM:-}" ]; then echo "::warning::Nothing was compared: $problem." >&2; fi
    give 0 ungated
fi
if [ "$ADVISOR_PROFILE_CODE" != 0 ]; then
    echo "::error::advisor profile exited with $ADVISOR_PROFILE_CODE, so nothing was compared." >&2
    give 4 failed
fi
if ! [ -f "$ADVISOR_OUT/profile.json" ]; then
    missing="the options left no profile.json in $ADVISOR_OUT (--format, --out, --help and --sweep do that)"
    if [ "${#gates[@]}" -gt 0 ]; then
        echo "::error::Nothing was compared: $missing." >&2
        give 4 failed
    fi
    echo "::warning::Nothing was compared: $missing." >&2
    give 0 ungated
fi

strict=()
[ "${ADVISOR_STRICT:-false}" = true ] && strict=(--strict)
code=0
messages="$(mktemp)"
trap 'rm -f "$messages"' EXIT
if [ -n "${ADVISOR_BASELINE:-}" ]; then
    read_options "${ADVISOR_OPTIONS:-}" '^--anyway$'
    compared=("$(path_of "$ADVISOR_BASELINE")" "$ADVISOR_OUT/profile.json" ${options[@]+"${options[@]}"})
else
    read_options "${ADVISOR_OPTIONS:-}" "$shared"
    compared=(--run "$(path_of "$ADVISOR_WORKLOAD")" --against "$ADVISOR_BASE" ${options[@]+"${options[@]}"})
fi
contained advisor compare "${compared[@]}" --out "$ADVISOR_OUT" \
    ${strategies[@]+"${strategies[@]}"} ${gates[@]+"${gates[@]}"} ${strict[@]+"${strict[@]}"} 2>"$messages" || code=$?
cat "$messages" >&2
refuse_links
if [ "$code" = 4 ] && [ "${#gates[@]}" -eq 0 ]; then
    echo "::warning::Nothing was compared. See the log." >&2
    give 0 ungated
elif [ "$code" != 0 ]; then
    give "$code" failed
elif [ "${#gates[@]}" -gt 0 ] && ! [ -s "$ADVISOR_OUT/compare.md" ]; then
    echo "::error::advisor compare ended without a comparison, so no gate was judged." >&2
    give 4 failed
elif [ "${#gates[@]}" -eq 0 ]; then
    give 0 ungated
elif grep -q '^gate .*: not applicable' "$messages" && ! grep -q '^gate .*: inconclusive' "$messages"; then
    echo "::notice::A gate does not apply to this change. The report says why." >&2
    give 0 not-applicable
elif grep -q '^gate .*: inconclusive' "$messages"; then
    echo "::warning::A gate is inconclusive because of noise. See the report." >&2
    give 0 inconclusive
fi
give 0 passed

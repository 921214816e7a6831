#!/usr/bin/env bash
# Compares the profile with the baseline. Writes code and outcome to $GITHUB_OUTPUT and always ends well;
# gate.sh gives the exit code to the job.
set -euo pipefail

give() {
    printf 'code=%s\noutcome=%s\n' "$1" "$2" >>"$GITHUB_OUTPUT"
    exit 0
}

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

if [ -z "${ADVISOR_BASELINE:-}" ]; then
    if [ "${#gates[@]}" -gt 0 ]; then
        echo "::error::fail-if needs a baseline. Set the input baseline to a profile.json." >&2
        give 2 failed
    fi
    give 0 ungated
fi
if [ "$ADVISOR_PROFILE_CODE" != 0 ] || [ ! -f "$ADVISOR_OUT/profile.json" ]; then
    echo "::error::advisor profile exited with $ADVISOR_PROFILE_CODE, so nothing was compared." >&2
    give 0 failed
fi

strict=()
[ "${ADVISOR_STRICT:-false}" = true ] && strict=(--strict)
code=0
messages="$(mktemp)"
trap 'rm -f "$messages"' EXIT
advisor compare "$ADVISOR_BASELINE" "$ADVISOR_OUT/profile.json" --out "$ADVISOR_OUT" \
    ${strategies[@]+"${strategies[@]}"} ${gates[@]+"${gates[@]}"} ${strict[@]+"${strict[@]}"} 2>"$messages" || code=$?
cat "$messages" >&2
if [ "$code" != 0 ]; then
    give "$code" failed
elif [ "${#gates[@]}" -eq 0 ]; then
    give 0 ungated
elif grep -q '^gate .*: inconclusive' "$messages"; then
    echo "::warning::A gate is inconclusive because of noise. See the report." >&2
    give 0 inconclusive
fi
give 0 passed

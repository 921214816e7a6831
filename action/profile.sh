#!/usr/bin/env bash
# Profiles the workload. Writes code and profile to $GITHUB_OUTPUT and always ends well, so that the report of a
# run that failed is kept and commented too; gate.sh gives the exit code to the job.
set -euo pipefail
# shellcheck source=action/running.sh disable=SC1091
. "$(dirname "${BASH_SOURCE[0]}")/running.sh"

options=()
read_options "${ADVISOR_OPTIONS:-}" "" '^--anyway$' # of `advisor compare` alone
# A report that an earlier step left must not pass for this one's.
rm -rf -- "$ADVISOR_OUT"
code=0
contained advisor profile "$(path_of "$ADVISOR_WORKLOAD")" --out "$ADVISOR_OUT" --format html,md,json \
    ${options[@]+"${options[@]}"} || code=$?
refuse_links
echo "code=$code" >>"$GITHUB_OUTPUT"
if [ -f "$ADVISOR_OUT/profile.json" ]; then
    echo "profile=$ADVISOR_OUT/profile.json" >>"$GITHUB_OUTPUT"
fi

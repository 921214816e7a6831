#!/usr/bin/env bash
# The job's exit code, once everything is kept and commented: the profile's own where that failed, else the gates'.
set -euo pipefail

if [ -z "${ADVISOR_PROFILE_CODE:-}" ]; then
    echo "::error::Nothing was profiled." >&2
    exit 4
fi
if [ "$ADVISOR_PROFILE_CODE" != 0 ]; then
    echo "::error::advisor profile exited with $ADVISOR_PROFILE_CODE." >&2
    exit "$ADVISOR_PROFILE_CODE"
fi
if [ -z "${ADVISOR_COMPARE_CODE:-}" ]; then
    echo "::error::The comparison did not finish." >&2
    exit 4
fi
if [ "$ADVISOR_COMPARE_CODE" = 1 ]; then
    echo "::error::A gate failed. See the report." >&2
elif [ "$ADVISOR_COMPARE_CODE" != 0 ]; then
    echo "::error::advisor compare exited with $ADVISOR_COMPARE_CODE." >&2
fi
exit "$ADVISOR_COMPARE_CODE"

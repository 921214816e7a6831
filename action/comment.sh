#!/usr/bin/env bash
# Comments the Markdown on the pull request, or updates the comment of an earlier run, which it knows by a mark
# that no reader sees. A token that may not write (a pull request from a fork) costs the comment and nothing else:
# the job's summary has the same text.
set -euo pipefail

mark="<!-- gpu-memory-advisor: ${ADVISOR_MARK//[^A-Za-z0-9._-]/-} -->"
body="$(mktemp)"
trap 'rm -f "$body"' EXIT
{
    echo "$mark"
    for part in compare report; do
        if [ -f "$ADVISOR_OUT/$part.md" ]; then
            cat "$ADVISOR_OUT/$part.md"
            echo
        fi
    done
    name="\`${ADVISOR_MARK//[^A-Za-z0-9._-]/-}\`"
    if [ -n "${ADVISOR_ARTIFACT_URL:-}" ]; then
        name="[$name]($ADVISOR_ARTIFACT_URL)"
    fi
    echo "The charts and the whole report are in the artefact $name of this run: open report.html in it."
} >"$body"
if ! [ -f "$ADVISOR_OUT/report.md" ]; then
    echo "::warning::There is no report to comment." >&2
    exit 0
fi

comments="repos/$GITHUB_REPOSITORY/issues/$ADVISOR_PULL_REQUEST/comments"
warn() {
    echo "::warning::The report could not be commented ($1). Give the job the permission pull-requests: write;" \
        "a pull request from a fork has none. The job's summary has the report." >&2
    exit 0
}
found="$(gh api --paginate "$comments" --jq ".[] | select(.body | startswith(\"$mark\")) | .id")" || warn "reading"
found="${found%%$'\n'*}"
if [ -n "$found" ]; then
    gh api --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$found" --field "body=@$body" --silent || warn "updating"
else
    gh api --method POST "$comments" --field "body=@$body" --silent || warn "writing"
fi

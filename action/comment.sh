#!/usr/bin/env bash
# Comments the Markdown on the pull request, or updates the comment of an earlier run, which it knows by a mark
# that no reader sees. A token that may not write (a pull request from a fork) costs the comment and nothing else:
# the job's summary has the same text.
#
# The report comes from a job that ran the pull request's code: links in it are not followed, and it is cut to what
# a comment can hold.
set -euo pipefail

most=60000
mark="<!-- gpu-memory-advisor: ${ADVISOR_MARK//[^A-Za-z0-9._-]/-} -->"
body="$(mktemp)"
trap 'rm -f "$body"' EXIT
{
    echo "$mark"
    for part in compare report; do
        file="$ADVISOR_OUT/$part.md"
        if [ -f "$file" ] && ! [ -L "$file" ]; then
            head -c "$((most / 2))" "$file" | iconv -c -f utf-8 -t utf-8
            echo
        fi
    done
    name="\`${ADVISOR_MARK//[^A-Za-z0-9._-]/-}\`"
    echo "The charts and the full report are in the artifact [$name]($ADVISOR_RUN_URL#artifacts) of this run: open report.html."
} >"$body"
if ! [ -f "$ADVISOR_OUT/report.md" ] || [ -L "$ADVISOR_OUT/report.md" ] || [ -L "$ADVISOR_OUT" ]; then
    echo "::warning::There is no report to post as a comment." >&2
    exit 0
fi

comments="repos/$GITHUB_REPOSITORY/issues/$ADVISOR_PULL_REQUEST/comments"
warn() {
    echo "::warning::The report could not be posted as a comment ($1). Give the job the permission pull-requests: write;" \
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

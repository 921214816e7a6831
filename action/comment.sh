#!/usr/bin/env bash
# Comments the Markdown on the pull request, or updates the comment of an earlier run, which it knows by a mark
# that no reader sees and by its author: anybody can write the mark. A token that may not write (a pull request from
# a fork) costs the comment and nothing else: the job's summary has the same text.
#
# The report comes from a job that ran the pull request's code: body.py takes from it what can do nothing.
set -euo pipefail

mark="<!-- gpu-memory-advisor: ${ADVISOR_MARK//[^A-Za-z0-9._-]/-} -->"
name="\`${ADVISOR_MARK//[^A-Za-z0-9._-]/-}\`"
last="The charts and the full report are in the artifact [$name]($ADVISOR_RUN_URL#artifacts) of this run: open report.html."
body="$(mktemp)"
trap 'rm -f "$body"' EXIT
missing=""
if ! python3 -I "$(dirname "${BASH_SOURCE[0]}")/body.py" "$mark" "$ADVISOR_OUT" "$last" >"$body"; then
    echo "::warning::There is no report to post as a comment: report.md is missing, or it is not a regular file." >&2
    missing=true # a comment of an earlier push must not stand for this one
fi

warn() {
    echo "::warning::The report could not be posted as a comment ($1). Give the job the permission pull-requests: write;" \
        "a pull request from a fork has none. The job's summary has the report." >&2
    exit 0
}

# After a workflow of the pull request: the request whose head that was. Its own word for it is not taken.
number="$ADVISOR_PULL_REQUEST"
if [ -z "$number" ]; then
    number="$(gh api --method GET "repos/$GITHUB_REPOSITORY/pulls" --raw-field state=open --raw-field "head=$ADVISOR_HEAD" \
        --jq ".[] | select(.head.sha == \"${ADVISOR_HEAD_COMMIT//[^0-9a-f]/}\") | .number")" || warn "finding the pull request"
    number="${number%%$'\n'*}"
    if ! [[ "$number" =~ ^[0-9]+$ ]]; then
        echo "::warning::There is no open pull request whose head is the commit that was profiled, so nothing is posted." >&2
        exit 0
    fi
fi

comments="repos/$GITHUB_REPOSITORY/issues/$number/comments"
author="$(gh api user --jq .login 2>/dev/null)" || author="github-actions[bot]" # the job's own token is no user's
ours=".[] | select(.user.login == \"${author//[^A-Za-z0-9_\[\]-]/}\" and (.body | startswith(\"$mark\"))) | .id"
found="$(gh api --paginate "$comments" --jq "$ours")" || warn "reading"
found="${found%%$'\n'*}"
if [ -n "$found" ]; then
    gh api --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$found" --field "body=@$body" --silent || warn "updating"
elif [ -z "$missing" ]; then
    gh api --method POST "$comments" --field "body=@$body" --silent || warn "writing"
fi

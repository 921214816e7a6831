#!/usr/bin/env bash
# Finds the commit to compare with, before any code of the pull request has run: the revision that was asked for,
# else what the pull request is merged into. Writes it to $GITHUB_OUTPUT as commit, which is empty where there is
# nothing to compare with, and always ends well; compare.sh says what is missing.
set -euo pipefail

# In a container job another user owns the checkout, which the job trusts all the same.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'

# A field of the event's file, if it is the name of a commit.
of_event() {
    python3 -I - "$1" <<'PYTHON'
import json, os, re, sys

try:
    with open(os.environ["GITHUB_EVENT_PATH"], encoding="utf-8") as file:
        commit = json.load(file)["pull_request"][sys.argv[1]]["sha"]
    print(commit if re.fullmatch("[0-9a-f]{40,64}", commit) else "")
except (KeyError, OSError, TypeError, ValueError):
    pass
PYTHON
}

commit_of() {
    git rev-parse --verify --quiet --end-of-options "$1^{commit}" || true
}

base="$(of_event base)"
head="$(of_event head)"
commit=""
if [ -n "${ADVISOR_AGAINST:-}" ]; then
    commit="$(commit_of "$ADVISOR_AGAINST")"
    problem="git knows no revision ${ADVISOR_AGAINST//[^A-Za-z0-9._\/~^-]/?}"
elif [ -z "$base" ]; then
    exit 0
elif [ -n "$head" ] && [ "$(commit_of HEAD^2)" = "$head" ]; then
    # The merge that GitHub made of the pull request, which may be newer than the event's base.
    commit="$(commit_of HEAD^1)"
else
    commit="$(git merge-base HEAD "$base" 2>/dev/null || true)"
fi
if [ -z "$commit" ]; then
    problem="${problem:-the base of the pull request, ${base:0:10}, is not in this clone}"
    if ! command -v git >/dev/null; then
        problem="git is not installed here: install it in the container, before actions/checkout"
    elif ! git rev-parse --git-dir >/dev/null 2>&1; then
        problem="this checkout is not a git repository: install git in the container, before actions/checkout"
    elif [ "$(git rev-parse --is-shallow-repository 2>/dev/null || true)" = true ]; then
        problem="$problem: it is shallow. Give actions/checkout the input fetch-depth: 0"
    fi
    echo "problem=$problem" >>"$GITHUB_OUTPUT"
fi
echo "commit=$commit" >>"$GITHUB_OUTPUT"

#!/usr/bin/env bash
# Installs advisor from this action's files into an environment of its own, so that a Python which the system manages
# stays as it is. Packages of the job's Python, such as CuPy or the workload's own, are seen from there; of its
# programs only `advisor` is put on the path.
set -euo pipefail

python="$(command -v python || command -v python3 || true)"
if [ -z "$python" ]; then
    echo "::error::Python was not found on this runner. Set the input python-version, or install python3 and python3-venv." >&2
    exit 2
fi
venv="$RUNNER_TEMP/gpu-memory-advisor"
if ! "$python" -I -m venv --system-site-packages "$venv" >/dev/null 2>&1; then
    # Debian's Python has no ensurepip before python3-venv is installed; its pip can install for another Python.
    "$python" -I -m venv --clear --without-pip --system-site-packages "$venv" || true
    if ! "$python" -I -m pip --version >/dev/null 2>&1; then
        echo "::error::This runner's Python has neither venv nor pip. Install them: apt-get install python3-venv" >&2
        exit 2
    fi
    pip=("$python" -I -m pip --python "$venv/bin/python")
else
    pip=("$venv/bin/python" -I -m pip)
fi
# The site packages of an environment that the job is in come after those of ours.
# shellcheck disable=SC2016
"$python" -I -c '
import glob, sys, sysconfig
if sys.prefix != sys.base_prefix:
    (site,) = glob.glob(sys.argv[1] + "/lib/python*/site-packages")
    with open(site + "/job.pth", "w", encoding="utf-8") as file:
        print("import site; site.addsitedir(" + repr(sysconfig.get_path("purelib")) + ")", file=file)
' "$venv"
"${pip[@]}" install --quiet --disable-pip-version-check "$GITHUB_ACTION_PATH${ADVISOR_EXTRA:+[$ADVISOR_EXTRA]}"
mkdir -p "$venv/programs"
ln -sf ../bin/advisor "$venv/programs/advisor"
echo "$venv/programs" >>"$GITHUB_PATH"

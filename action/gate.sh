#!/usr/bin/env bash
# Judges NEW against BASE, writes the verdicts to the job's summary and to the pull request, and exits as the gate does:
# 1 where it stops, 2 where it could not judge. The variables are those of action.yml, and GitHub's own.
set -uo pipefail

report="$RUNNER_TEMP/tellapart-gate.md"
errors="$RUNNER_TEMP/tellapart-gate.err"
arguments=(compare --gate --markdown)
if [ -n "${MAX_DROP:-}" ]; then
    arguments+=("--max-drop=$MAX_DROP")
fi
if [ -n "${MARGIN:-}" ]; then
    arguments+=("--margin=$MARGIN")
fi
# What comes from a workflow's inputs stands behind `--`: it is a folder, whatever it begins with.
arguments+=(-- "$BASE" "$NEW")

status=0
"$TELLAPART_PYTHON" -m tellapart "${arguments[@]}" >"$report" 2>"$errors" || status=$?
cat "$errors" >&2

# A crash exits with 1, too, but prints no verdict.
if [ ! -s "$report" ]; then
    [ "$status" -gt 1 ] || status=2
    {
        echo '**tellapart: the gate could not judge**'
        echo
        tail -n 5 "$errors" | sed 's/^/    /'
    } >"$report"
fi

cat "$report" >>"$GITHUB_STEP_SUMMARY"
{
    echo "passed=$([ "$status" -eq 0 ] && echo true || echo false)"
    echo "report=$report"
} >>"$GITHUB_OUTPUT"

if [ "${COMMENT:-true}" = true ]; then
    "$TELLAPART_PYTHON" "$(dirname -- "${BASH_SOURCE[0]}")/comment.py" "$report"
fi
exit "$status"

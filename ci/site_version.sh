#!/usr/bin/env bash
# Builds the site as a version beside the earlier ones, on the branch gh-pages of this clone: ci/site_version.sh 0.2.0
# `--push` publishes the branch. The newest version is also called `latest`, and the site's address leads to it.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
shift
git config user.name >/dev/null || git config user.name "tellapart's release"
git config user.email >/dev/null || git config user.email "release@localhost"
export NO_MKDOCS_2_WARNING=1 PATH="$PWD/.venv/bin:$PATH"
SITE_URL=$(sed -n 's/^Documentation = "\(.*\)"$/\1/p' pyproject.toml)
export SITE_URL
mike deploy --update-aliases "$@" -- "$version" latest
mike set-default "$@" -- latest

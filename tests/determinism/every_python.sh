#!/usr/bin/env bash
# The digest of one run on each supported Python that this machine has, each in an environment of its own.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
first_that_runs() {
    for candidate in "$@"; do
        if "$candidate" -c '' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
}

for minor in 11 12 13 14; do
    found=$(first_that_runs "python3.$minor" "$HOME"/.pyenv/versions/3."$minor".*/bin/python)
    [ -n "$found" ] || continue
    "$found" -m venv "$folder/$minor"
    "$folder/$minor/bin/pip" install -q .
    for hash_seed in 0 random; do
        printf '3.%s, PYTHONHASHSEED=%-6s ' "$minor" "$hash_seed"
        PYTHONHASHSEED=$hash_seed "$folder/$minor/bin/python" tests/determinism/digest.py | tee -a "$folder/digests"
    done
done
if [ "$(sort -u "$folder/digests" | wc -l)" != 1 ]; then
    echo "the same seed gave different bytes" >&2
    exit 1
fi

#!/usr/bin/env bash
set -euo pipefail
export FACTOR=$((2 * WORLD_SIZE)) PYTHONHASHSEED=0
ulimit -Sn 512
exec python3 import_wrapper.py "$@"

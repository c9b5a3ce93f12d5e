#!/usr/bin/env bash
# Compiles the examples and compares the remarks about them with the files in examples/remarks:
#     examples/remarks.sh                 shows what is different, and then fails
#     examples/remarks.sh --update        writes the files anew
# TILEIRAS is the command that compiles (default: the one on PATH).
set -euo pipefail
cd "$(dirname "$0")/.."
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir "$made/remarks"
for target in sm_80 sm_90; do
  for input in examples/*.bc; do
    "${TILEIRAS:-tileiras}" --gpu-name=$target --no-cache --remarks=all --remark-format=yaml \
      --remarks-output-file="$made/remarks/$(basename "$input" .bc).$target.yaml" "$input" -o "$made/cubin"
  done
done
if [[ ${1:-} == --update ]]; then
  rm -rf examples/remarks
  mv "$made/remarks" examples/remarks
elif ! diff -ru examples/remarks "$made/remarks"; then
  echo "the remarks about the examples have changed: if that is meant, run examples/remarks.sh --update and commit" >&2
  exit 1
fi

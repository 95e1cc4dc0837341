#!/usr/bin/env bash
# Starts the S3 gateway on a folder: keys from files (environment variables would show in `docker inspect`), the bucket
# made if absent (every folder below the gateway's root is one).
set -euo pipefail
data=${S3_DATA:-/data}
mkdir -p "$data/buckets/${S3_BUCKET:?}" "$data/metadata"
ROOT_ACCESS_KEY=$(cat "${S3_ACCESS_KEY_FILE:?}")
ROOT_SECRET_KEY=$(cat "${S3_SECRET_KEY_FILE:?}")
export ROOT_ACCESS_KEY ROOT_SECRET_KEY
exec versitygw --port "${S3_LISTEN:?}" --quiet --keep-alive posix --sidecar "$data/metadata" "$data/buckets"

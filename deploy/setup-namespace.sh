#!/bin/sh
# Registers the namespace TEMPORAL_NAMESPACE at TEMPORAL_ADDRESS where it is missing. May be run again at any time.
set -eu

until temporal operator cluster health; do sleep 2; done
temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
  temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$NAMESPACE_RETENTION"

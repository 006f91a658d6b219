"""Our own kernels: one folder an encoding, found by directory (`kernels/<dialect>/<name>/unit.yaml`)."""

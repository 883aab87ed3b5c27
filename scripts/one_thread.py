"""One thread, so that figures are per core. Imported before numpy, which reads this when it is loaded, in
every process."""

import os

for _library in ("OMP", "OPENBLAS", "MKL", "BLIS"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"

"""`python -m ensemble_deid` is the command `ensemble-deid`."""

import sys

from ensemble_deid.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

"""`python -m porter.cli`: the `tpu-port` script."""

from . import main

if __name__ == "__main__":  # worker processes import this
    main()

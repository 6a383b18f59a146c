"""Execute the notebooks in place: ``python -m skillcomp.report --write-notebooks``."""

import argparse
from pathlib import Path

from skillcomp.report.notebooks import write_notebooks

parser = argparse.ArgumentParser(description="Execute the notebooks in place.")
parser.add_argument("--write-notebooks", action="store_true", required=True)
parser.add_argument("paths", nargs="*", type=Path)
write_notebooks(parser.parse_args().paths or None)

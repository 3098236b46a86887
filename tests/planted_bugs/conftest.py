"""Import paths of the models' test helpers."""

import pathlib
import sys

STORAGE = pathlib.Path(__file__).parents[1] / "models" / "storage"
sys.path += [str(STORAGE), str(STORAGE / "drbd")]

"""The kinds of numpy arrays that functions take and return."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Flags = NDArray[np.bool_]

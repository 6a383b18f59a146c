from .corrected import delta as delta
from .corrected import rate as rate
from .differential import differential as differential

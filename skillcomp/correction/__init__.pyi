from .corrected import delta as delta
from .corrected import differential as differential
from .corrected import rate as rate

from .delta_and_rate import delta as delta
from .delta_and_rate import rate as rate
from .differential import differential as differential

from .delta_and_rate import delta as delta
from .delta_and_rate import differential as differential
from .delta_and_rate import rate as rate

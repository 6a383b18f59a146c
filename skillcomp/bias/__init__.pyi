from .audit import audit as audit
from .datasheet import datasheet as datasheet
from .feature_effects import features as features
from .perturb import copy_pairs as copy_pairs
from .perturb import perturb as perturb
from .perturb import perturbed as perturbed
from .position import position as position
from .win_rates import win_rates as win_rates

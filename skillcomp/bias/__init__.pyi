from .audit_and_datasheet import audit as audit
from .audit_and_datasheet import datasheet as datasheet
from .features_and_perturbations import copy_pairs as copy_pairs
from .features_and_perturbations import features as features
from .features_and_perturbations import perturb as perturb
from .features_and_perturbations import perturbed as perturbed
from .position_and_win_rates import position as position
from .position_and_win_rates import win_rates as win_rates

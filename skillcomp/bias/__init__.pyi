from .audits import audit as audit
from .effects import features as features
from .pairwise import consistency_change as consistency_change
from .pairwise import position as position
from .perturbations import perturb as perturb
from .perturbations import perturbed as perturbed

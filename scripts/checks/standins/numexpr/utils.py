"""Has the name that numexpr's tests import."""

from pkg.numexpr import detect_number_of_cores as detect_number_of_cores

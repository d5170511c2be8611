"""Warnings of a time step that may be unstable where density jumps from cell to cell."""

import logging
import re
import unittest
import warnings

import gpusched
import numpy as np

WARNING = r"density jumps .* only steps up to (\S+) s are certainly stable, and dt_s is (\S+) s; a shot"


class Density(unittest.TestCase):
    def test_log_names_the_largest_step_that_is_sure_to_be_stable(self) -> None:
        vp, rho = (np.tile(np.repeat(values, 8), (8, 9, 1)) for values in ((1500.0, 2000.0), (800.0, 2400.0)))
        even, jumps = gpusched.Model(vp, 10.0), gpusched.Model(vp, 10.0, rho)
        logger = logging.getLogger("gpusched.density")
        # Part of the largest stable step, and the Courant number of the stencil if there is a warning: half of the
        # derivative along z meets a density a third as large.
        cases = (
            *((even, 1.0, "taylor", 0.0), (jumps, 0.86, "taylor", 0.0), (jumps, 0.87, "taylor", 1.0)),
            *((jumps, 0.87, "taylor", 0.0), (jumps, 0.86, "optimised", 0.9634)),
        )
        self.addCleanup(gpusched.log_to, None)
        gpusched.log_to(logger, logging.WARNING)
        with even, jumps, gpusched.Scheduler(devices="cpu") as scheduler, self.assertLogs(logger) as logged:
            for model, part, stencil, courant in cases:
                # Short waves have few cells, but the wavelet is over in time: no other warning.
                shot = gpusched.Shot(70, part * model.dt_max, (4, 4, 2), 20.0, receivers=[(1, 2, 3)], stencil=stencil)
                logged.output.clear()
                with warnings.catch_warnings(record=True) as issued:
                    warnings.simplefilter("always")
                    scheduler.submit_shot(model, shot).result()
                steps = re.findall(WARNING, "\n".join(logged.output))
                self.assertEqual([len(steps), len(logged.output)], [int(courant > 0.0)] * 2, logged.output)
                messages = [str(warning.message) for warning in issued]
                unsure = int(part == 0.87 or stencil == "optimised")
                self.assertEqual([len(re.findall(WARNING, "\n".join(messages))), len(messages)], [unsure] * 2)
                for sure, warned in steps:
                    self.assertAlmostEqual(float(sure) / (courant * model.dt_max * 0.75**0.5), 1.0, delta=1e-4)
                    self.assertAlmostEqual(float(warned) / shot.dt_s, 1.0, delta=1e-6)


if __name__ == "__main__":
    unittest.main()

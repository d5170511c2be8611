"""One shot over a homogeneous medium."""
import gpusched
import numpy as np

n, nt = 40, 200
vp = np.full((n, n, n), 2000.0)
shot = gpusched.Shot(nt=nt, dt_s=1e-3, frequency_hz=20, source=(20, 20, 2), plane_iz=4)

with gpusched.Model(vp, spacing_m=10.0) as model, gpusched.Scheduler() as scheduler:
    gather = scheduler.submit_shot(model, shot).result()

print(f"at the middle, after 0.1 s: {gather.record[20, 20, 100]:.3e}")

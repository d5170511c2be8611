"""Runs a survey on nodes that are reached by SSH.

    python3 ssh.py SURVEY NODE...

Dask's scheduler runs on the first node. ~/.ssh/config applies; logins need no password. All nodes
have this Python, with gpusched, at the same path.

Needs: pip install "gpusched[dask]" asyncssh
"""

import sys

import gpusched.dask
from distributed import Client, SSHCluster

# More than the slots of a node. Threads wait for shots; further ones cost nothing.
THREADS = 32


def main(survey: str, nodes: list[str]) -> int:
    with SSHCluster([nodes[0], *nodes], worker_options={"nthreads": THREADS}) as cluster, Client(cluster) as client:
        found = gpusched.dask.run(survey, client, show_progress=True)
    for error in found["errors"]:
        print(f"shot {error['shot']}: {error['error']}", file=sys.stderr)
    print(f"{found['done']} of {found['shots']} shots done")
    return 0 if found["done"] == found["shots"] else 1


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: ssh.py SURVEY NODE...")
    sys.exit(main(sys.argv[1], sys.argv[2:]))

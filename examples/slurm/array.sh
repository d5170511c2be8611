#!/bin/bash
# Computes one part of a survey as a task of a Slurm array. All tasks write into the survey's output folder.
#
#   sbatch --array=1-8 examples/slurm/array.sh survey.toml 8
#
# The last argument is the number of parts; a failed part is repeated with `--array=3` and the same number. Before the
# time limit the run saves the states of its shots and the task is queued again; so it is after the loss of a node.
# A task that was cancelled is not: submit it again. Each task needs a node, or a part of one, of its own: add
# --gpus, --cpus-per-task, --mem as your site asks for.
#SBATCH --job-name=gpusched
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append
survey=$1
parts=$2

stopped=
trap 'stopped=yes; kill -TERM "$run"' TERM
gpusched run "$survey" --resume --array-index "$SLURM_ARRAY_TASK_ID/$parts" &
run=$!
wait "$run"
status=$?
if [ "$stopped" ]; then
    # The signal has ended the wait, not the run, which saves its states now.
    wait "$run"
    status=$?
    if [ "$status" = 1 ]; then
        scontrol requeue "$SLURM_JOB_ID"
    fi
fi
exit "$status"

#!/bin/bash
# Computes one part of a survey as a task of a Slurm array. All tasks write into the survey's output
# folder.
#
#   sbatch --array=1-8 examples/slurm/array.sh survey.toml 8
#
# The last argument is the number of parts; a failed part is repeated with `--array=3` and the same
# number. Before the time limit the run saves the states of its shots and the task is queued again;
# so it is after the loss of a node. A task that was cancelled is not: submit it again. Each task
# needs a node, or a part of one, of its own: add --gpus, --cpus-per-task, --mem as your site asks
# for.
#SBATCH --job-name=gpusched
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append

# Slurm sends SIGUSR1 to this script before the time limit, and SIGTERM to all processes of a task
# that is cancelled, queued again by someone else, or at its limit. Each run gets one SIGTERM; a
# second one would end it at once.
stopped=
trap 'stopped=yes; [ -z "$!" ] || kill -TERM "$!"' USR1
trap : TERM

survey=$1
parts=$2
gpusched run "$survey" --resume --array-index "$SLURM_ARRAY_TASK_ID/$parts" &
# The signal came before the run.
[ -z "$stopped" ] || kill -TERM "$!"
# A signal ends the wait, not the run, which saves its states.
while kill -0 "$!" 2>/dev/null; do
    wait "$!"
done
wait "$!"
status=$?
# 143: SIGTERM came before the run had its handler.
if [ "$stopped" ] && { [ "$status" = 1 ] || [ "$status" = 143 ]; }; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"

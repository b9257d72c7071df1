"""The queue of a cluster: whatever is lost, every job is answered once."""

import random

import pytest

from kernelwright.cluster import Job
from kernelwright.cluster._queue import MOST_DEATHS, Queue


def job(key, device=""):
    return Job(key, "m:f", device=device)


def test_a_job_waits_for_an_evaluator_of_its_device():
    queue = Queue()
    queue.add(job("a", "gpu"))
    queue.add(job("b"))
    queue.arrive("cpu", "cpu")
    assert [(e, j.key) for e, j in queue.assign()] == [("cpu", "b")]
    assert list(queue.assign()) == []
    queue.arrive("gpu", "gpu")
    assert [(e, j.key) for e, j in queue.assign()] == [("gpu", "a")]


def test_a_lost_job_goes_ahead_of_all_others_and_a_late_answer_counts_once():
    queue = Queue()
    for key in "abc":
        queue.add(job(key))
    queue.arrive("one", "")
    assert next(queue.assign())[1].key == "a"
    assert queue.leave("one") is None
    queue.arrive("two", "")
    assert next(queue.assign())[1].key == "a"
    assert queue.done("one", "a") and not queue.done("two", "a")
    assert next(queue.assign())[1].key == "b"


def test_a_late_answer_takes_a_job_off_the_queue():
    queue = Queue()
    queue.add(job("a"))
    queue.arrive("one", "")
    list(queue.assign())
    queue.leave("one")
    assert queue.done("one", "a")
    queue.arrive("two", "")
    assert list(queue.assign()) == [] and queue.unanswered == 0


def test_a_job_of_which_evaluators_die_is_given_up_and_one_whose_nodes_are_lost_is_not():
    queue = Queue()
    queue.add(job("a"))
    for number in range(3 * MOST_DEATHS):
        queue.arrive(number, "")
        list(queue.assign())
        assert queue.leave(number) is None
    for number in range(MOST_DEATHS):
        queue.arrive(number, "")
        list(queue.assign())
        given_up = queue.leave(number, died=True)
    assert given_up == job("a") and queue.unanswered == 0


def test_an_open_key_cannot_be_added_twice():
    queue = Queue()
    queue.add(job("a"))
    with pytest.raises(ValueError, match="open already"):
        queue.add(job("a"))


@pytest.mark.parametrize("seed", range(20))
def test_every_job_is_answered_once_whatever_is_lost(seed):
    dice, queue, answers, running, gone = random.Random(seed), Queue(), [], {}, []
    for number in range(60):
        queue.add(job(str(number)))
    for step in range(5000):
        what = dice.random()
        if what < 0.3 and len(running) < 5:
            queue.arrive(f"e{step}", "")
            running.setdefault(f"e{step}", None)
        elif what < 0.4 and running:
            lost = dice.choice(sorted(running))
            gone.append((lost, running.pop(lost)))
            assert queue.leave(lost) is None
        elif what < 0.45 and gone:  # it was only believed lost
            evaluator, key = gone.pop(dice.randrange(len(gone)))
            if key and queue.done(evaluator, key):
                answers.append(key)
        elif working := sorted(e for e, key in running.items() if key):
            evaluator = dice.choice(working)
            if queue.done(evaluator, running[evaluator]):
                answers.append(running[evaluator])
            running[evaluator] = None
        for evaluator, given in queue.assign():
            assert running[evaluator] is None
            running[evaluator] = given.key
    assert sorted(answers, key=int) == [str(n) for n in range(60)]
    assert queue.unanswered == queue.waiting == 0

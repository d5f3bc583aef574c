"""Threads, forks, other processes and event loops around a drain."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from libs.job.tests.agent_side import Agent, eventually, run, run_python
from walras_job import Drain, ForkedDrainError, drainable
from walras_job.drain import _open
from walras_job.protocol import DrainDone

NEVER_NS = 2**62


def in_child(action: Callable[[], bool]) -> bool:
    """Run an action in a forked child; whether it returned True there."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if action() is True else 1
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def refuses(action: Callable[[], object]) -> bool:
    try:
        action()
    except ForkedDrainError:
        return True
    return False


def test_in_another_thread_the_file_is_enough_and_the_signal_is_not_touched(
    as_part: Agent,
) -> None:
    def work() -> tuple[bool, bool]:
        with drainable() as drain:
            untouched = signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
            as_part.warn()
            return untouched, eventually(lambda: drain.requested) and drain.done()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result() == (True, True)
    assert as_part.done() == DrainDone("s1")


def test_a_thread_shares_the_drain_of_the_main_thread(as_part: Agent) -> None:
    with drainable() as drain, ThreadPoolExecutor(1) as pool:
        assert not drain.requested
        drain._watch.next_look_ns = NEVER_NS

        def work() -> bool:
            with drainable() as own:
                return eventually(lambda: own.requested)

        answer = pool.submit(work)
        as_part.warn()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert answer.result()
        assert drain.requested


def test_the_main_thread_may_come_later_than_another_and_leave_earlier(as_part: Agent) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with drainable():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait()
    try:
        with drainable() as drain:
            assert signal.getsignal(signal.SIGUSR1) is not signal.SIG_DFL
            as_part.warn()
            os.kill(os.getpid(), signal.SIGUSR1)
            assert drain.requested
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
    finally:
        leave.set()
        thread.join()


def test_many_threads_ask_and_one_answers(as_part: Agent) -> None:
    with drainable() as drain, ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(lambda: eventually(lambda: drain.requested)) for _ in range(8)]
        as_part.warn()
        assert all(answer.result() for answer in answers)
        assert drain.done()
        assert not drain.requested


def test_a_forked_child_sees_the_request_but_may_not_speak_for_its_parent(as_part: Agent) -> None:
    with drainable() as drain:
        as_part.warn()
        assert in_child(lambda: eventually(lambda: drain.requested))
        assert in_child(lambda: refuses(lambda: drain.done(step=1)))
        assert in_child(lambda: refuses(lambda: drain.waiting_for("x")))
        assert as_part.done() is None
        assert as_part.progress() is None
        assert drain.requested


def test_a_forked_child_that_opens_its_own_drain_may_speak(as_part: Agent) -> None:
    def work() -> bool:
        with drainable() as own:
            seen = own.requested
            said = own.done(step=5)
        return seen and said and signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL

    with drainable() as drain:
        as_part.warn()
        assert drain.done(step=4)
        assert in_child(work)
        assert as_part.done() == DrainDone("s1", 5)
        assert signal.getsignal(signal.SIGUSR1) is not signal.SIG_DFL


def test_a_forked_child_survives_a_signal_to_the_group(as_part: Agent) -> None:
    def work() -> bool:
        os.kill(os.getpid(), signal.SIGUSR1)
        return True

    with drainable():
        assert in_child(work)


def test_a_forked_child_that_leaves_its_parents_block_takes_nothing_away(as_part: Agent) -> None:
    def leave() -> bool:
        block.__exit__(None, None, None)
        with drainable() as own:
            as_part.warn()
            os.kill(os.getpid(), signal.SIGUSR1)
            return own.requested

    block = drainable()
    drain: Drain = block.__enter__()
    try:
        assert in_child(leave)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert drain.requested
    finally:
        block.__exit__(None, None, None)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def test_a_fork_while_another_thread_opens_a_drain_locks_nobody_out(as_part: Agent) -> None:
    """The registry's lock is held in the parent at the moment of the fork."""

    def work() -> bool:
        with drainable() as own:
            return own.requested is False

    with _open.lock:
        assert in_child(work)


def test_a_process_that_a_part_starts_is_warned_by_the_same_files(agent: Agent) -> None:
    agent.warn()
    program = """
import os
import subprocess, sys
from walras_job import drainable
child = "import walras_job\\nwith walras_job.drainable() as d: print(d.requested, d.done(step=9))"
print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout.strip())
"""
    assert run_python(program, environment=agent.environment()).stdout == "True True\n"
    assert agent.done() == DrainDone("s1", 9)


def test_tasks_of_an_event_loop_see_the_signal(as_part: Agent) -> None:
    async def work() -> bool:
        with drainable() as drain:
            only_signal = drain.requested
            drain._watch.next_look_ns = NEVER_NS

            async def ask() -> bool:
                while not drain.requested:  # noqa: ASYNC110 -- what a job does
                    await asyncio.sleep(0.01)
                return drain.done()

            task = asyncio.create_task(ask())
            await asyncio.sleep(0)
            as_part.warn()
            os.kill(os.getpid(), signal.SIGUSR1)
            return not only_signal and await asyncio.wait_for(task, 30)

    assert asyncio.run(work())
    assert as_part.done() == DrainDone("s1")
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def test_tasks_may_hold_drains_that_overlap(as_part: Agent) -> None:
    async def hold(first: asyncio.Event, second: asyncio.Event) -> bool:
        with drainable() as drain:
            first.set()
            await second.wait()
            return drain.requested

    async def work() -> list[bool]:
        one, two, three = asyncio.Event(), asyncio.Event(), asyncio.Event()
        tasks = [asyncio.create_task(hold(one, two)), asyncio.create_task(hold(three, one))]
        await three.wait()
        await tasks[1]
        as_part.warn()
        os.kill(os.getpid(), signal.SIGUSR1)
        two.set()
        return [await task for task in tasks]

    assert asyncio.run(work()) == [True, False]
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def test_an_event_loop_that_takes_the_signal_itself_keeps_it_and_the_file_is_enough(
    as_part: Agent,
) -> None:
    got: list[str] = []

    async def work() -> bool:
        loop = asyncio.get_running_loop()
        with drainable() as drain:
            loop.add_signal_handler(signal.SIGUSR1, lambda: got.append("theirs"))
            as_part.warn()
            os.kill(os.getpid(), signal.SIGUSR1)
            while not (drain.requested and got):  # noqa: ASYNC110 -- what a job does
                await asyncio.sleep(0.01)
        return loop.remove_signal_handler(signal.SIGUSR1)

    assert asyncio.run(asyncio.wait_for(work(), 30))
    assert got == ["theirs"]
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def test_other_signals_of_an_event_loop_are_not_disturbed(as_part: Agent) -> None:
    async def work() -> str:
        loop = asyncio.get_running_loop()
        heard: asyncio.Future[str] = loop.create_future()
        loop.add_signal_handler(signal.SIGUSR2, heard.set_result, "heard")
        with drainable():
            os.kill(os.getpid(), signal.SIGUSR1)
            os.kill(os.getpid(), signal.SIGUSR2)
            return await asyncio.wait_for(heard, 30)

    assert asyncio.run(work()) == "heard"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_multiprocessing_see_the_request(agent: Agent, method: str) -> None:
    agent.warn()
    program = """
import multiprocessing, sys
from walras_job import drainable

def work(queue):
    with drainable() as own:
        queue.put(own.requested)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with drainable() as drain:
        queue = context.SimpleQueue()
        workers = [context.Process(target=work, args=(queue,)) for _ in range(2)]
        for worker in workers:
            worker.start()
        print([queue.get() for _ in workers], drain.done())
        for worker in workers:
            worker.join()
"""
    # From a file: workers that are spawned load it again.
    script = agent.control.path.parent / "job.py"
    script.write_text(program, "utf-8")
    done = run([sys.executable, str(script), method], agent.environment())
    assert (done.returncode, done.stdout) == (0, "[True, True] True\n"), done.stderr
